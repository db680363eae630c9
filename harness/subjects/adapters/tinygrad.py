"""tinygrad as a runtime: what it claims to support, and how it says what it does not."""

from __future__ import annotations

from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, saying
from onnx_parity.harness.subjects.loading import tinygrad

RUNTIME = Adapter(
    name="tinygrad",
    modules={"tinygrad": "tinygrad"},
    # Its tests of models and nodes are those of onnx 1.18.
    opsets=tuple(opset for opset in OPSETS if opset <= 23),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.BFLOAT16, Dtype.INT16},
    open=tinygrad.load,
    is_refusal=saying("is not supported", "not implemented"),
    tracker="https://github.com/tinygrad/tinygrad/issues",
)

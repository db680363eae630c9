"""Apache TVM as a runtime: what it claims to support, and how it says what it does not."""

from __future__ import annotations

from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, saying
from onnx_parity.harness.subjects.loading import tvm

RUNTIME = Adapter(
    name="tvm",
    modules={"apache-tvm": "tvm"},
    opsets=tuple(opset for opset in OPSETS if opset <= 18),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.INT16},
    open=tvm.load,
    is_refusal=saying("not supported", "not implemented", "OpNotImplemented", "Unsupported"),
    tracker="https://github.com/apache/tvm/issues",
)

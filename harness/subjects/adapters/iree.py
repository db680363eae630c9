"""IREE as a runtime: what it claims to support, and how it says what it does not."""

from __future__ import annotations

from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, saying
from onnx_parity.harness.subjects.loading import iree

RUNTIME = Adapter(
    name="iree",
    modules={"iree-base-compiler": "iree.compiler", "iree-base-runtime": "iree.runtime"},
    # torch-mlir, its importer's other half, converts a model to opset 17 where it is older, and tests up to 21.
    opsets=tuple(opset for opset in OPSETS if 17 <= opset <= 21),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.BFLOAT16, Dtype.INT16},
    open=iree.load,
    is_refusal=saying("failed to legalize", "not supported", "unsupported", "unimplemented"),
    tracker="https://github.com/iree-org/iree/issues",
)

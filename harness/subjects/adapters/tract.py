"""tract as a runtime: what it claims to support, and how it says what it does not."""

from __future__ import annotations

from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, saying
from onnx_parity.harness.subjects.loading import tract

RUNTIME = Adapter(
    name="tract",
    modules={"tract": "tract"},
    # https://github.com/sonos/tract: "approximately 85% of ONNX backend tests", which it runs up to opset 18.
    opsets=tuple(opset for opset in OPSETS if 9 <= opset <= 18),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64, Dtype.INT16},
    open=tract.load,
    is_refusal=saying(
        "nimplemented", "not support", "Unsupported", "No implementation", "Unknown DatumType", "can not be typed"
    ),
    tracker="https://github.com/sonos/tract/issues",
)

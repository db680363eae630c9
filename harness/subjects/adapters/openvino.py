"""OpenVINO as a runtime: what it claims to support, and how it says what it does not."""

from __future__ import annotations

from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import USUAL_DTYPES, Adapter, saying
from onnx_parity.harness.subjects.loading import openvino

RUNTIME = Adapter(
    name="openvino",
    modules={"openvino": "openvino"},
    # https://docs.openvino.ai/2026/documentation/compatibility-and-support/supported-operations.html
    opsets=tuple(opset for opset in OPSETS if opset <= 23),
    dtypes=USUAL_DTYPES | {Dtype.FLOAT16, Dtype.FLOAT64},
    open=openvino.load,
    is_refusal=saying(
        "does not support", "doesn't support", "No conversion rule found", "not supported", "not implemented"
    ),
    tracker="https://github.com/openvinotoolkit/openvino/issues",
)

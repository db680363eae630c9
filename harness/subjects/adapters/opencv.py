"""OpenCV's dnn module as a runtime: what it claims to support, and how it says what it does not."""

from __future__ import annotations

from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import Adapter, saying
from onnx_parity.harness.subjects.loading import opencv

RUNTIME = Adapter(
    name="opencv",
    modules={"opencv-python-headless": "cv2"},
    opsets=tuple(opset for opset in OPSETS if opset <= 22),
    dtypes=frozenset({Dtype.FLOAT32, Dtype.INT32, Dtype.INT64, Dtype.BOOL}),
    open=opencv.load,
    is_refusal=saying("not supported", "nsupported", "not implemented", "Can't create layer", "is supported for now"),
    tracker="https://github.com/opencv/opencv/issues",
)

"""OpenCV's dnn module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import Adapter, Run, saying
from onnx_parity.harness.subjects.delivered import Delivered


def _open(model: bytes | Path) -> Run:
    import cv2

    cv2.setNumThreads(1)
    names = [value.name for value in Delivered(model).proto.graph.output]
    data = np.frombuffer(model, np.uint8) if isinstance(model, bytes) else str(model)
    net: Any = cv2.dnn.readNetFromONNX(data)

    def run(feeds: Mapping[str, Fed]) -> Sequence[object]:
        for name, fed in feeds.items():
            net.setInput(fed, name)
        outputs: Sequence[object] = net.forward(names)
        return outputs

    return run


RUNTIME = Adapter(
    name="opencv",
    modules={"opencv-python-headless": "cv2"},
    opsets=tuple(opset for opset in OPSETS if opset <= 22),
    dtypes=frozenset({Dtype.FLOAT32, Dtype.INT32, Dtype.INT64, Dtype.BOOL}),
    open=_open,
    is_refusal=saying("not supported", "nsupported", "not implemented", "Can't create layer", "is supported for now"),
    tracker="https://github.com/opencv/opencv/issues",
)

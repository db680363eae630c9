"""OpenCV's dnn module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import OPSETS, Dtype
from onnx_parity.harness.subjects.adapters.adapter import Adapter, saying
from onnx_parity.harness.subjects.delivered import input_names, proto_of


class _Session:
    def __init__(self, model: bytes | Path) -> None:
        import cv2

        cv2.setNumThreads(1)
        proto = proto_of(model)
        self._inputs = input_names(proto)
        self._outputs = [value.name for value in proto.graph.output]
        data = np.frombuffer(model, np.uint8) if isinstance(model, bytes) else str(model)
        self._net: Any = cv2.dnn.readNetFromONNX(data)

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        for name in self._inputs:
            self._net.setInput(feeds[name], name)
        outputs: Sequence[object] = self._net.forward(self._outputs)
        return outputs


RUNTIME = Adapter(
    name="opencv",
    module="cv2",
    packages=("opencv-python-headless",),
    opsets=tuple(opset for opset in OPSETS if opset <= 22),
    dtypes=frozenset({Dtype.FLOAT32, Dtype.INT32, Dtype.INT64, Dtype.BOOL}),
    open=_Session,
    is_refusal=saying("is not supported", "Unsupported", "StsNotImplemented", "unsupported"),
    tracker="https://github.com/opencv/opencv/issues",
)

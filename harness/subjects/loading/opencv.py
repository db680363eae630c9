"""OpenCV's dnn module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx


def load(model: bytes | Path) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    import cv2

    cv2.setNumThreads(1)
    content = model if isinstance(model, bytes) else model.read_bytes()
    names = [value.name for value in onnx.ModelProto.FromString(content).graph.output]
    data = np.frombuffer(model, np.uint8) if isinstance(model, bytes) else str(model)
    net: Any = cv2.dnn.readNetFromONNX(data)

    def run(inputs: Mapping[str, Any]) -> Sequence[object]:
        for name, array in inputs.items():
            net.setInput(array, name)
        outputs: Sequence[object] = net.forward(names)
        return outputs

    return run

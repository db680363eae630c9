"""A module with the ONNX backend interface, such as `onnxruntime.backend`, which is the variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx


def load(model: Path, variant: str) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    prepared: Any = import_module(variant).prepare(onnx.load(model), "CPU")
    return lambda inputs: [
        np.asarray(output) if hasattr(output, "__array__") else output for output in prepared.run(list(inputs.values()))
    ]

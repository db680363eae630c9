"""jaxonnxruntime, which translates a model to JAX and compiles it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx


def load(model: bytes | Path) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    # Without it, JAX makes 32 bits of 64 at the inputs, which no model asks for.
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    from jaxonnxruntime import backend

    proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    program: Any = backend.prepare(proto, "CPU")

    def run(inputs: Mapping[str, Any]) -> Sequence[object]:
        return [np.asarray(output) for output in program.run(list(inputs.values()))]

    return run

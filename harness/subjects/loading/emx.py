"""emx-onnx-cgen, which writes a model as C; a C compiler makes a program of it, which is run for each set of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx


def load(model: bytes | Path) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    from emx_onnx_cgen import onnx_backend

    proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    program: Any = onnx_backend.prepare(proto, "CPU")

    def run(inputs: Mapping[str, Any]) -> Sequence[object]:
        outputs: Sequence[object] = program.run(list(inputs.values()))
        return outputs

    return run

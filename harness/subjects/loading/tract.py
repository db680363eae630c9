"""tract, Sonos' inference engine in Rust."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def load(model: bytes | Path) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    runnable = _load_model(model)

    def run(inputs: Mapping[str, Any]) -> Sequence[object]:
        return [output.to_numpy() for output in runnable.run(list(inputs.values()))]

    return run


def _load_model(model: bytes | Path) -> Any:
    import tract

    if isinstance(model, Path):
        return tract.onnx().load(model).into_model().into_runnable()
    # It reads files only.
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model)
        file.flush()
        return _load_model(Path(file.name))

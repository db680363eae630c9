"""The model that cells with the same export share, and what transformations make of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx_parity.exporter.registry.rules import Asked
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.harness.transformations.transformation import Samples, Transformation, applied


@dataclass(slots=True)
class SharedModel:
    """An exported model. Cells that differ in their runtime only are adjacent, and do not export it again."""

    exported: Delivered | None = None
    #: The rules of operators that were asked for when it was exported.
    asked: set[Asked] = field(default_factory=set)
    #: Whether onnx's checker, and ours, have accepted it.
    is_checked: bool = False
    #: By the names of the transformations that made them, one after the other.
    _transformed: dict[tuple[str, ...], Delivered] = field(default_factory=dict)
    _folders: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list)

    def new_folder(self) -> Path:
        """A folder for a model with large weights, which exists until `close`."""
        folder = tempfile.TemporaryDirectory(prefix="parity-")
        self._folders.append(folder)
        return Path(folder.name)

    def transformed(self, chain: Sequence[Transformation], samples: Samples) -> tuple[Delivered, ...]:
        """The exported model, and the model after each transformation. What chains begin with alike is made once."""
        assert self.exported is not None
        models, names = [self.exported], tuple[str, ...]()
        for transformation in chain:
            names = (*names, transformation.name)
            if names not in self._transformed:
                folder = self.new_folder() if isinstance(models[-1].model, Path) else None
                self._transformed[names] = applied(transformation, models[-1], samples, folder)
            models.append(self._transformed[names])
        return tuple(models)

    def close(self) -> None:
        while self._folders:
            self._folders.pop().cleanup()

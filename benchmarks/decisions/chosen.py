"""The declarations that a command of this folder is asked for by patterns of names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.children import ROOT
from benchmarks.options import choose
from onnx_parity.harness.case import Declaration
from onnx_parity.harness.cases.declarations import declared_under

__all__ = ["chosen_declarations"]

FOLDERS = ("op_cases", "model_zoo")


def chosen_declarations(patterns: Sequence[str]) -> Iterator[tuple[str, Declaration]]:
    declared = [each for folder in FOLDERS for each in declared_under(ROOT / folder)]
    chosen = set(choose("PATTERNS", patterns, [name for name, _ in declared]))
    yield from (each for each in declared if each[0] in chosen)

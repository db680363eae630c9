"""What a command of this folder is asked for: declarations by patterns of names, and a part of their cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, TypeVar

import typer

from benchmarks.children import ROOT
from benchmarks.options import choose
from onnx_parity.harness.case import Declaration
from onnx_parity.harness.cases.declarations import declared_under

__all__ = ["PartOption", "chosen_declarations", "part_of"]

T = TypeVar("T")
PartOption = Annotated[str, typer.Option(help="Only this part of the cells: 3/10 is the third of ten.")]
FOLDERS = ("op_cases", "model_zoo")


def chosen_declarations(patterns: Sequence[str]) -> Iterator[tuple[str, Declaration]]:
    declared = [each for folder in FOLDERS for each in declared_under(ROOT / folder)]
    chosen = set(choose("PATTERNS", patterns, [name for name, _ in declared]))
    yield from (each for each in declared if each[0] in chosen)


def part_of(values: Sequence[T], part: str) -> Sequence[T]:
    """Every Nth value from the Kth on, for a part `K/N`."""
    if not (match := re.fullmatch(r"(\d+)/(\d+)", part)) or not 1 <= int(match[1]) <= int(match[2]):
        raise typer.BadParameter(f"{part!r} is none: 3/10 is the third of ten", param_hint="--part")
    return values[int(match[1]) - 1 :: int(match[2])]

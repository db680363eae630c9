"""Whether a command line selects so few cells that one process runs them sooner than several do.

Every worker of pytest-xdist imports torch and collects all declarations anew, which takes longer than some dozen cells.
The answer is found before pytest collects: cells are counted where `-k` or the named files can only leave few of them,
and the files that are imported for this are those that pytest collects next, in this process, if there are few.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from onnx_parity.harness.axes import Selection, Tier, read_selection
from onnx_parity.harness.project import files_of

__all__ = ["are_few"]

#: As many cells of operators run sooner in one process: two workers take 9 s of processor time more, and a cell takes
#: 0.04 s. A cell of a model takes about as long as ten of them, unless the smoke tier has it.
_FEW = 200
_OF_A_MODEL = 10
#: Files that assign more names than this have more cells than `_FEW`, unless `-k` selects among them.
_MOST_NAMES = 24
#: An expression for `-k` that is only words, all of which must be in the names of a cell.
_WORDS = re.compile(r"[^\s()]+(?: and [^\s()]+)*")
_OPERATORS = {"and", "or", "not"}


def are_few(places: Sequence[Path], keyword: str, value_of: Callable[[str], str | None]) -> bool:
    """Whether the declarations of these places have few cells whose names contain the words of `keyword`.

    `value_of` are the options of the matrix by their names. Where it is not certain, the answer is no.
    """
    words = _words_of(keyword)
    files = [file for place in places for file in files_of(place)]
    count = 0
    try:
        if not words and any(total > _MOST_NAMES for total in accumulate(map(_count_names, files))):
            return False
        for weight in _weights(files, words, read_selection(value_of)):
            count += weight
            if count > _FEW:
                return False
    except Exception:  # noqa: BLE001  A file of declarations may raise anything: pytest reports it, and runs no cells.
        return True
    return True


def _words_of(keyword: str) -> list[str]:
    """The words that the names of each selected cell contain; empty if the expression is more than a list of words."""
    words = keyword.split() if _WORDS.fullmatch(keyword) else []
    own = [word.lower() for word in words if word not in _OPERATORS]
    return own if len(own) * 2 - 1 == len(words) else []


def _count_names(file: Path) -> int:
    """How many names a file assigns at its top."""
    statements = ast.parse(file.read_bytes()).body if file.is_file() else []
    return sum(isinstance(each, ast.Assign | ast.AnnAssign) for each in statements)


def _weights(files: Sequence[Path], words: Sequence[str], selection: Selection) -> Iterator[int]:
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.matrix.cells import cells_of
    from onnx_parity.harness.record import Kind

    for file in files:
        for name, declaration in declared_under(file):
            slow = declaration.kind is Kind.MODEL and declaration.tier is not Tier.SMOKE
            weight = _OF_A_MODEL if slow else 1
            for cell in cells_of(name, declaration, selection):
                names = f"{os.path.relpath(file)} {name} {cell.id}".lower()
                if all(word in names for word in words):
                    yield weight

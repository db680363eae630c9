"""Which cells run which functions of the exporter: the cells that a fault in a function can touch.

Each cell is run once with a profile function. The result is kept in a file, with a hash of the exporter's files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType

import msgspec

from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Status
from onnx_parity.harness.running.stages import Bench


class Reached(msgspec.Struct):
    """For every cell that passes, the functions that it runs: `exporter/lowering/aten/shape.py:flip`."""

    #: The hashes of the files that it is valid for.
    contents: Mapping[str, str]
    cells: dict[str, list[str]]
    #: The ATen operators of each of them.
    aten: dict[str, tuple[str, ...]]

    def touched(self, file: str, function: str) -> list[str]:
        wanted = f"{file}:{function}"
        return [cell for cell, functions in self.cells.items() if wanted in functions]


def survey(cells: Iterable[Cell], root: Path, contents: Mapping[str, str], done: Callable[[], None]) -> Reached:
    """Run the cells, and note what they run."""
    reached = Reached(contents, {}, {})
    here = f"{root}/exporter/"
    names: dict[object, str] = {}
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call":
            if code not in names:
                inside = code.co_filename.startswith(here)
                # The body of a comprehension or of a local function belongs to the function around it.
                outer = code.co_qualname.partition(".<locals>")[0]
                names[code] = f"{code.co_filename.removeprefix(f'{root}/')}:{outer}" if inside else ""
            found.add(names[code])

    for cell in cells:
        found.clear()
        # A capture that an earlier cell of the case has left would hide what it ran.
        bench = Bench(0)
        sys.setprofile(note)
        try:
            outcome = bench.run(cell)
        finally:
            sys.setprofile(None)
        if outcome.status is Status.PASSED:
            reached.cells[cell.id] = sorted(found - {""})
            reached.aten[cell.id] = outcome.aten
        done()
    return reached

"""Whether a search alone finds a fault, and after how long.

The programs of a search are the same for every fault. So they are drawn and put to their probes once, while the
statements of the exporter that each runs are noted. For a fault, only those are looked at again that run its statement.
The time is that of a search that looks at all of them, one after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import msgspec
import torch

from benchmarks.mutants.codes import Functions
from benchmarks.mutants.fate import CELL_SECONDS, SILENT, limited
from benchmarks.mutants.sites import Mutant, plant
from benchmarks.mutants.watching import watch
from onnx_parity.harness.axes import ONNXRUNTIME, ONNXRUNTIME_OPSETS, PARITY
from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.search.messages import Order, Report
from onnx_parity.harness.search.searcher import Searcher

#: Of the programs that run a fault's statement, so many are looked at.
MOST = 600
#: So many programs are looked at in one process, after which they are kept.
_TOGETHER = 200


class Programs(msgspec.Struct):
    """The programs of a search, by number: the processor time of each, and the statements that it runs."""

    depends_on: str
    statements: list[str] = []
    seconds: list[float] = []
    ran: list[tuple[int, ...]] = []

    def reaching(self, statement: str, within: float) -> list[tuple[int, float]]:
        """The programs that run a statement, with the time at which a search has looked at each."""
        if statement not in self.statements:
            return []
        wanted = self.statements.index(statement)
        ends = accumulate(self.seconds)
        return [
            (number, end)
            for number, (ran, end) in enumerate(zip(self.ran, ends, strict=True))
            if wanted in ran and end <= within
        ]


class _Piece(msgspec.Struct):
    seconds: list[float]
    ran: list[list[str]]


def searcher_of(declarations: Sequence[str]) -> Searcher:
    """One for all faults: it knows the declarations, and has exported nothing."""
    order = Order(0, tuple(declarations), (ONNXRUNTIME,), (PARITY,), ONNXRUNTIME_OPSETS, {})
    return Searcher(order, reduces=False)


def programs(
    searcher: Searcher,
    seconds: float,
    files: Mapping[str, Path],
    functions: Functions,
    depends_on: str,
    kept: Path,
    aside: Path,
) -> Programs:
    """The programs that a search looks at in so many seconds of processor time: those kept before, and more."""
    found = Programs(depends_on)
    if kept.exists():
        before = msgspec.msgpack.decode(kept.read_bytes(), type=Programs)
        found = before if before.depends_on == depends_on else found
    numbers = {statement: number for number, statement in enumerate(found.statements)}
    while sum(found.seconds) < seconds:
        first = len(found.seconds)

        def serve(channel: Channel, first: int = first) -> None:
            channel.send(msgspec.msgpack.encode(_piece(searcher, first, files, functions)))

        child = ChildProcess.forked(serve, aside)
        try:
            piece = msgspec.msgpack.decode(child.answer(SILENT), type=_Piece)
        finally:
            child.kill()
        found.seconds += piece.seconds
        found.ran += [tuple(sorted(numbers.setdefault(each, len(numbers)) for each in ran)) for ran in piece.ran]
        found.statements = list(numbers)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(msgspec.msgpack.encode(found))
    return found


def _piece(searcher: Searcher, first: int, files: Mapping[str, Path], functions: Functions) -> _Piece:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    piece = _Piece([], [])
    noted = watch(files, functions)
    for number in range(first, first + _TOGETHER):
        noted.clear()
        report = searcher.look_at(number)
        piece.seconds.append(report.seconds)
        # A program that fails without a fault says nothing of one.
        piece.ran.append([] if _blames_exporter(report) else sorted(noted))
    return piece


def _blames_exporter(report: Report) -> bool:
    """Whether a program fails by a fault of the exporter, or of it or a runtime."""
    return any(PARITY in each.culprit for each in report.found)


def found_after(
    mutant: Mutant,
    path: Path,
    functions: Functions,
    searcher: Searcher,
    reaching: Sequence[tuple[int, float]],
    aside: Path,
) -> float | None:
    """The seconds after which a search finds a fault with the programs that run its statement; None if with none."""

    def serve(channel: Channel) -> None:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        plant(mutant, path, functions)
        while True:
            with limited(CELL_SECONDS):
                report = searcher.look_at(msgspec.json.decode(channel.receive(), type=int))
            channel.send(msgspec.json.encode(_blames_exporter(report)))

    child = ChildProcess.forked(serve, aside)
    try:
        for number, end in reaching[:MOST]:
            found = True
            # A process that dies or hangs has found it as well.
            with suppress(ProcessEndedError):
                child.send(msgspec.json.encode(number))
                found = msgspec.json.decode(child.answer(SILENT), type=bool)
            if found:
                return end
    finally:
        child.kill()
    return None

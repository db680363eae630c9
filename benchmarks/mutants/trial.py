"""One fault in a process of its own: which cells notice it, and what they say about it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from benchmarks.mutants.sites import Mutant, NotPlantedError, plant
from onnx_parity.harness.axes import ONNXRUNTIME, ONNXRUNTIME_OPSETS, PARITY
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.localisation.localise import NothingToLocaliseError, Suspect, localise
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Status
from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.search.messages import Order
from onnx_parity.harness.search.searcher import Searcher

#: Seconds that a cell may take, which is then noticed as a hang.
CELL_SECONDS = 60.0


class Notice(msgspec.Struct, frozen=True):
    """The first cell that a fault fails."""

    cell: str
    status: str
    stage: str
    blame: str
    reason: str
    #: The operator that `localise` names; empty if it names none.
    operator: str = ""


class Trial(msgspec.Struct, frozen=True):
    """What became of a fault."""

    mutant: str
    kind: str
    #: How many cells it can touch, and how many ran until one noticed.
    touched: int
    ran: int
    #: The smallest tier of which a cell noticed it; empty if none did.
    tier: str
    seconds: float
    notice: Notice | None = None
    #: How many seconds of search found it; None if it was not searched for, or not found.
    searched: float | None = None
    #: Why it could not be planted; empty if it was.
    not_planted: str = ""


class Ready(msgspec.Struct, frozen=True):
    """The answer after planting."""

    refused: str = ""


def judge(mutant: Mutant, path: Path, tiers: Sequence[tuple[str, Sequence[Cell]]], aside: Path) -> Trial:
    """Plant a fault in a copy of this process, and run cells there until one of them notices it."""
    start, touched = time.monotonic(), sum(len(cells) for _, cells in tiers)
    ran = 0

    def told(tier: str = "", notice: Notice | None = None, refused: str = "") -> Trial:
        return Trial(str(mutant), mutant.kind, touched, ran, tier, time.monotonic() - start, notice, None, refused)

    child = ChildProcess.forked(
        lambda channel: _serve(channel, mutant, path, [cell for _, each in tiers for cell in each]), aside
    )
    try:
        refused = msgspec.json.decode(child.answer(CELL_SECONDS), type=Ready).refused
        if refused:
            return told(refused=refused)
        for tier, cells in tiers:
            for cell in cells:
                child.send(msgspec.json.encode(ran))
                ran += 1
                try:
                    notice = msgspec.json.decode(child.answer(CELL_SECONDS), type=Notice | None)
                except ProcessEndedError as ending:
                    return told(tier, Notice(cell.id, Status.CRASHED, "", "", str(ending)))
                if notice is not None:
                    return told(tier, notice)
        return told()
    finally:
        child.kill()


def _serve(channel: Channel, mutant: Mutant, path: Path, cells: Sequence[Cell]) -> None:
    warnings.simplefilter("ignore")
    try:
        plant(mutant, path)
    except NotPlantedError as error:
        channel.send(msgspec.json.encode(Ready(str(error))))
        return
    channel.send(msgspec.json.encode(Ready()))
    while True:
        cell = cells[msgspec.json.decode(channel.receive(), type=int)]
        outcome = Bench(0).run(cell)
        channel.send(msgspec.json.encode(None if outcome.status is Status.PASSED else _notice(cell, outcome)))


def _notice(cell: Cell, outcome: Outcome) -> Notice:
    operator = ""
    if outcome.status is Status.FAILED:
        try:
            first = localise(Suspect.of(cell)).first
            operator = first.operator if first else ""
        except NothingToLocaliseError:
            pass
    blame = outcome.blame.value if outcome.blame else ""
    return Notice(cell.id, outcome.status, outcome.stage, blame, outcome.reason[:300], operator)


def searched(mutant: Mutant, path: Path, declarations: Sequence[str], seconds: float, aside: Path) -> float | None:
    """The seconds after which a search finds a fault; None if it does not within so many."""
    order = Order(0, tuple(declarations), (ONNXRUNTIME,), (PARITY,), ONNXRUNTIME_OPSETS, {})

    def serve(channel: Channel) -> None:
        warnings.simplefilter("ignore")
        plant(mutant, path)
        searcher, number = Searcher(order, reduces=False), 0
        while not any(found.culprit == PARITY for found in searcher.look_at(number).found):
            number += 1
        channel.send(b"found")

    start = time.monotonic()
    child = ChildProcess.forked(serve, aside)
    try:
        child.answer(seconds)
    except ProcessEndedError:
        return None
    finally:
        child.kill()
    return time.monotonic() - start


def spread(cells: Iterable[Cell]) -> list[Cell]:
    """One cell of each case first, then the others."""
    seen: dict[str, int] = {}
    placed = []
    for cell in cells:
        turn = seen[cell.case.label] = seen.get(cell.case.label, -1) + 1
        placed.append((turn, cell))
    return [cell for _, cell in sorted(placed, key=lambda each: each[0])]

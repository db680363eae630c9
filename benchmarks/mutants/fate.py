"""One fault in a process of its own: which cells notice it, and what they say about it."""

from __future__ import annotations

import importlib
import math
import resource
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec
import torch

from benchmarks.mutants.codes import Functions, NotPlantedError
from benchmarks.mutants.models import Models
from benchmarks.mutants.sites import Mutant, plant
from onnx_parity.harness.axes import Tier
from onnx_parity.harness.expecting import no_kernel
from onnx_parity.harness.judging.outcome import Outcome, blank_record
from onnx_parity.harness.localisation.localise import NothingToLocaliseError, Suspect, localise
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Status
from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.stages import Bench

#: Seconds of processor time that a cell may take; one that takes more hangs, which is noticed. All times are those of
#: the processor, because a machine that others use may stand still for minutes.
CELL_SECONDS = 60
#: Seconds after which a process is ended that neither answers nor uses a processor.
SILENT = 3600.0
#: So many answers about models come before they are kept.
_TOGETHER = 200
#: How a cell ends that notices something. An absent cell fails no run.
_NOTICES = (Status.FAILED, Status.UNSUPPORTED)


class Notice(msgspec.Struct, frozen=True):
    """The first cell that a fault fails."""

    cell: str
    status: str
    stage: str
    blame: str
    reason: str
    #: The operator that `localise` names; empty if it names none.
    operator: str = ""


class Fate(msgspec.Struct, frozen=True):
    """What became of a fault."""

    mutant: str
    kind: str
    #: A hash of the files that it depends on: the exporter.
    depends_on: str
    #: How many cells it can touch, and how many ran until one noticed.
    touched: int = 0
    ran: int = 0
    #: How many of those have another model with it.
    differed: int = 0
    #: The smallest tier of which a cell noticed it; empty if none did.
    tier: str = ""
    #: Of processor time.
    seconds: float = 0.0
    notice: Notice | None = None
    #: Under which the fault holds; empty if always.
    condition: str = ""
    #: The first cell of the fault's own family that notices it; empty if none does, None if it has no family.
    by_family: str | None = None
    #: The unit test that notices it where no cell does; empty if none does, None if they were not run.
    test: str | None = None
    #: After how many seconds a search finds it; None if it was not searched for, or not found.
    searched: float | None = None
    #: How many seconds the search may last; 0 if there was none.
    search: float = 0.0
    #: A hash of the files that the search depends on.
    search_depends_on: str = ""
    #: A hash of the files of declarations: what no cell noticed is asked again if these change.
    declared: str = ""
    #: Why it could not be planted; empty if it was.
    not_planted: str = ""

    @property
    def became(self) -> str:
        """What became of the fault, in a few words."""
        if self.not_planted:
            return f"not planted, {self.not_planted}"
        if self.notice is not None:
            return f"noticed by {self.notice.cell} of the {self.tier} tier"
        if not self.differed and self.condition:
            return f"changes no model of {self.ran} cells"
        return f"survived {self.ran} cells"


class Ready(msgspec.Struct, frozen=True):
    """The answer after planting."""

    refused: str = ""


class Asked(msgspec.Struct, frozen=True):
    """A cell that a process is asked to run, by its number."""

    cell: int
    #: The hash of its model without a fault. If it has the same model with the fault, it need not be run.
    model: str = ""


class Answer(msgspec.Struct, frozen=True):
    """The answer to a cell."""

    status: str
    #: The processor time of the process so far.
    seconds: float
    notice: Notice | None = None
    #: Whether its model is another one.
    differs: bool = True


class Sound:
    """Says of cells what they are without a fault, in processes that none is planted in."""

    def __init__(self, cells: Sequence[Cell], aside: Path, kept: Path, depends_on: str) -> None:
        numbers = {cell.id: number for number, cell in enumerate(cells)}
        self._passes = _Asking(lambda channel: _serve(channel, cells, names_operator=False), numbers, aside)
        self._hashes = _Asking(lambda channel: _serve_hashes(channel, cells), numbers, aside)
        self._kept, self._depends_on, self._keeps = kept, depends_on, 0
        if kept.exists():
            before = msgspec.msgpack.decode(kept.read_bytes(), type=_Hashes)
            if before.depends_on == depends_on:
                self._hashes.known.update(before.hashes)

    def passes(self, cell: str) -> bool:
        return msgspec.json.decode(self._passes.of(cell), type=Answer).status == Status.PASSED

    def model_of(self, cell: str) -> str:
        """The hash of its model. What was kept of a case that has changed since is no harm: its cells are run then."""
        if len(self._hashes.known) >= self._keeps + _TOGETHER:
            self._keep()
        return msgspec.json.decode(self._hashes.of(cell), type=str)

    def end(self) -> None:
        self._keep()
        self._passes.end()
        self._hashes.end()

    def _keep(self) -> None:
        self._keeps = len(self._hashes.known)
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        self._kept.write_bytes(msgspec.msgpack.encode(_Hashes(self._depends_on, dict(self._hashes.known))))


class _Hashes(msgspec.Struct):
    """The answers about the models of cells, as they are kept."""

    depends_on: str
    hashes: dict[str, bytes]


class _Asking:
    """Asks a process about cells, and remembers the answers."""

    def __init__(self, serve: Callable[[Channel], None], numbers: Mapping[str, int], aside: Path) -> None:
        self._numbers = numbers
        self.known: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._child = ChildProcess.forked(serve, aside)

    def of(self, cell: str) -> bytes:
        with self._lock:
            if cell not in self.known:
                self._child.send(msgspec.json.encode(Asked(self._numbers[cell])))
                self.known[cell] = self._child.answer(SILENT)
            return self.known[cell]

    def end(self) -> None:
        self._child.kill()


def import_what_cells_import(cells: Sequence[Cell], aside: Path) -> None:
    """Import the modules that some cells import when they are run, so that copies of this process have them. Nothing
    is run here: what the exporter keeps from one export to the next would hide faults."""

    def serve(channel: Channel) -> None:
        warnings.simplefilter("ignore")
        bench = Bench(0)
        for cell in cells:
            bench.run(cell)
        channel.send(msgspec.json.encode(list(sys.modules)))

    child = ChildProcess.forked(serve, aside)
    try:
        names = msgspec.json.decode(child.answer(SILENT), type=list[str])
    finally:
        child.kill()
    for name in names:
        # Some are made when a program is run, and have no file.
        with suppress(ImportError):
            importlib.import_module(name)


class SoundCells(Protocol):
    """What cells are without a fault."""

    def passes(self, cell: str) -> bool: ...

    def model_of(self, cell: str) -> str: ...


def judge(
    mutant: Mutant,
    path: Path,
    functions: Functions,
    tiers: Sequence[tuple[str, Sequence[Cell]]],
    sound: SoundCells,
    aside: Path,
    most: float = math.inf,
) -> Fate:
    """Plant a fault in a copy of this process, and run cells there until one of them notices it, or until those of a
    tier have taken more than `most` seconds of processor time."""
    cells = [cell for _, each in tiers for cell in each]
    tier_of = [tier for tier, each in tiers for _ in each]
    fate = Fate(mutant.key, mutant.kind, "", len(cells), condition=mutant.condition or "")
    seconds, differed = 0.0, 0

    def serve(channel: Channel) -> None:
        try:
            plant(mutant, path, functions)
        except NotPlantedError as error:
            channel.send(msgspec.json.encode(Ready(str(error))))
            return
        channel.send(msgspec.json.encode(Ready()))
        _serve(channel, cells, tier_of, names_operator="exporter/operators/" in mutant.file)

    def told(ran: int, tier: str = "", notice: Notice | None = None) -> Fate:
        return msgspec.structs.replace(fate, ran=ran, differed=differed, tier=tier, notice=notice, seconds=seconds)

    child = ChildProcess.forked(serve, aside)
    try:
        refused = msgspec.json.decode(child.answer(SILENT), type=Ready).refused
        if refused:
            return msgspec.structs.replace(fate, not_planted=refused)
        ran, began = 0, dict[str, float]()
        for number, (tier, cell) in enumerate(zip(tier_of, cells, strict=True)):
            if seconds - began.setdefault(tier, seconds) > most:
                continue
            ran += 1
            child.send(msgspec.json.encode(Asked(number, sound.model_of(cell.id))))
            try:
                answer = msgspec.json.decode(child.answer(SILENT), type=Answer)
            except ProcessEndedError as ending:
                return told(ran, tier, Notice(cell.id, Status.CRASHED, "", "", str(ending)))
            seconds = answer.seconds
            differed += answer.differs
            if answer.notice is not None and sound.passes(cell.id):
                return told(ran, tier, answer.notice)
        return told(ran)
    finally:
        child.kill()


def _serve(
    channel: Channel, cells: Sequence[Cell], tier_of: Sequence[str] | None = None, *, names_operator: bool
) -> None:
    """Run cells, which are of these tiers; without tiers, of the smallest one."""
    warnings.simplefilter("ignore")
    bench, models, start = Bench(0), Models(), time.process_time()
    while True:
        asked = msgspec.json.decode(channel.receive(), type=Asked)
        cell = cells[asked.cell]
        with limited(CELL_SECONDS):
            if asked.model and asked.model == models.hash_of(cell):
                answer = Answer(Status.PASSED, time.process_time() - start, differs=False)
            else:
                outcome = bench.run(cell)
                tier = Tier(tier_of[asked.cell]) if tier_of else Tier.SMOKE
                notice = _notice(cell, tier, outcome, names_operator=names_operator)
                answer = Answer(notice.status if notice else outcome.status, time.process_time() - start, notice)
        channel.send(msgspec.json.encode(answer))


def _serve_hashes(channel: Channel, cells: Sequence[Cell]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    models = Models()
    while True:
        asked = msgspec.json.decode(channel.receive(), type=Asked)
        channel.send(msgspec.json.encode(models.hash_of(cells[asked.cell])))


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """A context in which this process is ended if it uses a processor for more seconds than this."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (round(time.process_time()) + seconds, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))


def _notice(cell: Cell, tier: Tier, outcome: Outcome, *, names_operator: bool) -> Notice | None:
    """What a cell that ended so notices; None if nothing."""
    blank = blank_record(cell, "", "", worker="")
    record = no_kernel.judge_record(
        outcome.onto(blank), cell.case.declaration.file.parent, lambda of: of.includes(tier)
    )
    if record.status not in _NOTICES:
        return None
    operator = ""
    if outcome.status is Status.FAILED and names_operator:
        try:
            first = localise(Suspect.of(cell)).first
            operator = first.operator if first else ""
        except NothingToLocaliseError:
            pass
    blame = record.blame.value if record.blame else ""
    return Notice(cell.id, record.status, record.stage, blame, record.reason[:300], operator)


def spread(cells: Iterable[Cell]) -> list[Cell]:
    """One cell of each case first, then the others."""
    seen: dict[str, int] = {}
    placed = []
    for cell in cells:
        turn = seen[cell.case.label] = seen.get(cell.case.label, -1) + 1
        placed.append((turn, cell))
    return [cell for _, cell in sorted(placed, key=lambda each: each[0])]


def in_batches(cells: Sequence[Cell]) -> list[Cell]:
    """The cells in about their order, but within batches, of which each has twice the size of the one before, those of
    a program come one after the other, because they share its capture."""
    found: list[Cell] = []
    size = 8
    while batch := cells[len(found) : len(found) + size]:
        first: dict[object, int] = {}
        for number, cell in enumerate(batch):
            first.setdefault((cell.case.label, cell.dtype), number)
        found += sorted(batch, key=lambda cell: first[cell.case.label, cell.dtype])
        size *= 2
    return found

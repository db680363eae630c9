"""Which cells run which statements of the exporter: the cells that a fault in a statement can touch.

Programs are exported, not run, while the functions of the watched files note their statements. What the cells of one
file of declarations run is kept in a file of its own, so that this can be stopped and gone on with.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import torch

from benchmarks.mutants.codes import Functions
from benchmarks.mutants.models import captured_of
from benchmarks.mutants.watching import noting, watch
from onnx_parity.exporter.errors import ExportError
from onnx_parity.harness.cases.program import CannotBuildError
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.subjects.exporter_interface import Captured, NoSuchFormError

#: Seconds that the cells of one file may take.
_SECONDS = 3600.0


class Ran(msgspec.Struct):
    """What the cells of a file of declarations run."""

    #: A hash of all files that it depends on, and of the ids of the cells.
    depends_on: str
    #: The statements, `exporter/operators/shape/lowering.py:31`; sets of their numbers; and the set of each cell.
    statements: list[str] = []
    sets: list[tuple[int, ...]] = []
    cells: dict[str, int] = {}
    #: The ATen operators of each cell's program.
    operators: dict[str, tuple[str, ...]] = {}


class NotWatchedError(Exception):
    """The cells of a file could not be watched. The message has the last words of their process."""


@dataclass
class Reached:
    """What all cells run."""

    _by_statement: dict[str, list[str]] = field(default_factory=dict)
    #: The statements of each cell, by file.
    _statements: dict[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    operators: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, ran: Ran) -> None:
        members: dict[int, list[str]] = {}
        for cell, number in ran.cells.items():
            members.setdefault(number, []).append(cell)
        for number, cells in members.items():
            by_file: dict[str, list[str]] = {}
            for statement in (ran.statements[each] for each in ran.sets[number]):
                by_file.setdefault(_file_of(statement), []).append(statement)
                self._by_statement.setdefault(statement, []).extend(cells)
            of_these = {file: frozenset(each) for file, each in by_file.items()}
            self._statements |= dict.fromkeys(cells, of_these)
        self.operators |= ran.operators

    @property
    def statements(self) -> Collection[str]:
        return self._by_statement.keys()

    def groups(self) -> Iterator[tuple[frozenset[str], list[str]]]:
        """Sets of statements, each with cells that run just these."""
        members: dict[int, list[str]] = {}
        for cell, by_file in self._statements.items():
            members.setdefault(id(by_file), []).append(cell)
        for cells in members.values():
            yield frozenset().union(*self._statements[cells[0]].values()), cells

    def touched(self, statement: str) -> list[str]:
        """The cells that run a statement. First comes one of each set of statements of its file that they run, because
        a common statement may matter in a rare program only; and among alike cells those that run few other statements,
        which are the quickest."""
        file, seen = _file_of(statement), Counter[frozenset[str]]()
        placed = []
        for cell in sorted(self._by_statement.get(statement, ()), key=self._size):
            with_it = self._statements[cell][file]
            placed.append((seen[with_it], cell))
            seen[with_it] += 1
        return [cell for _, cell in sorted(placed, key=lambda each: each[0])]

    def _size(self, cell: str) -> int:
        return sum(map(len, self._statements[cell].values()))


def _file_of(statement: str) -> str:
    return statement.partition(":")[0]


def ran(
    cells: Sequence[Cell],
    files: Mapping[str, Path],
    functions: Functions,
    depends_on: str,
    kept: Path,
    aside: Path,
    *,
    with_conditions: Collection[str] = (),
) -> Ran:
    """What the cells run of these files of the exporter, and in which of them under which conditions: as it was kept,
    or found out in a copy of this process, which is left as it is."""
    digest = hashlib.sha256("\n".join([depends_on, *(cell.id for cell in cells)]).encode()).hexdigest()
    if kept.exists():
        before = msgspec.msgpack.decode(kept.read_bytes(), type=Ran)
        if before.depends_on == digest:
            return before

    def serve(channel: Channel) -> None:
        noted = watch(files, functions, with_conditions=with_conditions)
        channel.send(msgspec.msgpack.encode(_watched(cells, noted, digest)))

    for name, path in files.items():
        noting(path, name, with_conditions=name in with_conditions)
    child = ChildProcess.forked(serve, aside)
    try:
        answer = child.answer(_SECONDS)
    except ProcessEndedError as ending:
        words = "\n".join(aside.read_text("utf-8", errors="replace").splitlines()[-30:])
        raise NotWatchedError(f"The process that exported the cells of {kept.name} {ending}.\n{words}") from ending
    finally:
        child.kill()
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(answer)
    return msgspec.msgpack.decode(answer, type=Ran)


def _watched(cells: Sequence[Cell], noted: set[str], depends_on: str) -> Ran:
    torch.set_num_threads(1)
    found, numbers, sets = Ran(depends_on), dict[str, int](), dict[frozenset[int], int]()
    program: object = None
    captures: dict[object, tuple[Captured, frozenset[str]]] = {}

    def taken() -> frozenset[str]:
        """The statements that have run since the last time."""
        ran = frozenset(noted)
        noted.clear()
        return ran

    for cell in cells:
        if program != (cell.case, cell.dtype):
            program = (cell.case, cell.dtype)
            captures.clear()
        key = (cell.capture, cell.shapes)
        taken()
        try:
            if key not in captures:
                captures[key] = captured_of(cell), taken()
            captured, before = captures[key]
            captured.deliver(cell.opset, None)
        except (ExportError, CannotBuildError, NoSuchFormError):
            continue  # A program that is refused, or that this environment cannot build, notices nothing.
        statements = frozenset(numbers.setdefault(each, len(numbers)) for each in before | taken())
        found.cells[cell.id] = sets.setdefault(statements, len(sets))
        found.operators[cell.id] = captured.operators
    found.statements, found.sets = list(numbers), [tuple(sorted(each)) for each in sets]
    return found

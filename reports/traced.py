"""The page of traced and exported operators: ATen operators and ONNX nodes, from the records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from onnx_parity.harness.record import WRONG, Record, Status
from onnx_parity.reports.arrangement import Declaration
from onnx_parity.reports.wording import natural

#: A row links to at most this many declarations, and shows the number of further ones.
MOST_LINKS = 6


@dataclass(frozen=True, slots=True)
class Exerciser:
    """A declaration whose cells traced or exported the operator."""

    name: str
    page: str


@dataclass(frozen=True, slots=True)
class TracedRow:
    """An ATen operator, or an ONNX operator at a version that occurs in a graph."""

    op: str
    domain: str
    #: None for ATen.
    since_version: int | None
    cells: int
    #: The number of its nodes in all exported graphs; None for ATen, whose nodes are not counted.
    nodes: int | None
    #: The opsets of the cells with this operator that passed, and of those that failed.
    passed_at: tuple[int, ...]
    wrong_at: tuple[int, ...]
    opsets: tuple[int, ...]
    exercisers: tuple[Exerciser, ...]
    more_exercisers: int


@dataclass(slots=True)
class _Sightings:
    cells: int = 0
    nodes: int = 0
    passed_at: set[int] = field(default_factory=set)
    wrong_at: set[int] = field(default_factory=set)
    opsets: set[int] = field(default_factory=set)
    exercisers: dict[Exerciser, None] = field(default_factory=dict)

    def add(self, record: Record, exerciser: Exerciser, nodes: int) -> None:
        self.cells += 1
        self.nodes += nodes
        self.opsets.add(record.opset)
        self.exercisers[exerciser] = None
        if record.status is Status.PASSED:
            self.passed_at.add(record.opset)
        elif record.status in WRONG:
            self.wrong_at.add(record.opset)


def aten_operators(declarations: Iterable[Declaration]) -> list[TracedRow]:
    """The traced ATen operators by their qualified names."""
    seen: defaultdict[str, _Sightings] = defaultdict(_Sightings)
    for record, exerciser in _records(declarations):
        for name in dict.fromkeys(record.aten):
            seen[name].add(record, exerciser, nodes=0)
    return [_row(name, "", None, seen[name]) for name in sorted(seen, key=natural)]


def onnx_operators(declarations: Iterable[Declaration]) -> list[TracedRow]:
    """The exported ONNX operators by domain, name, and the version that applies at the opset."""
    seen: defaultdict[tuple[str, str, int], _Sightings] = defaultdict(_Sightings)
    for record, exerciser in _records(declarations):
        counts: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        for use in record.onnx:
            counts[use.domain, use.op, use.since_version] += use.count
        for key, count in counts.items():
            seen[key].add(record, exerciser, nodes=count)
    return [_row(op, domain, version, seen[domain, op, version]) for domain, op, version in sorted(seen)]


def _records(declarations: Iterable[Declaration]) -> Iterator[tuple[Record, Exerciser]]:
    for declaration in declarations:
        exerciser = Exerciser(declaration.name, declaration.page)
        for case in declaration.cases:
            for record in case.records:
                yield record, exerciser


def _row(op: str, domain: str, since_version: int | None, seen: _Sightings) -> TracedRow:
    exercisers = tuple(seen.exercisers)
    return TracedRow(
        op=op,
        domain=domain,
        since_version=since_version,
        cells=seen.cells,
        nodes=None if since_version is None else seen.nodes,
        passed_at=tuple(sorted(seen.passed_at)),
        wrong_at=tuple(sorted(seen.wrong_at)),
        opsets=tuple(sorted(seen.opsets)),
        exercisers=exercisers[:MOST_LINKS],
        more_exercisers=max(0, len(exercisers) - MOST_LINKS),
    )

"""A comparison of exporters: their outcomes for each operator, over the points that all of them ran."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import msgspec

from onnx_parity.harness.axes import PARITY
from onnx_parity.harness.cell_ids import runtime_asked
from onnx_parity.harness.record import GRAVEST_FIRST, Blame, Kind, Record, Stage, Status
from onnx_parity.harness.results.causes import CauseSummary, causes_of


class ComparedCell(msgspec.Struct, frozen=True, order=True):
    """A cell's position on all axes except the exporter: the model is run in the same runtime after the same steps."""

    case: str
    dtype: str
    opset: int
    device: str
    capture: str
    shapes: str
    runtime: str
    #: The chain of transformations; empty for none.
    transforms: str

    @classmethod
    def of(cls, record: Record) -> ComparedCell:
        # The record names another runtime than the cell where that one had no kernel for what an exporter wrote.
        axes = (record.device, record.capture, record.shapes, runtime_asked(record), record.transforms)
        return cls(record.case, record.dtype, record.opset, *axes)


class Standing(msgspec.Struct, frozen=True):
    """The outcomes of one exporter on the cells of one operator or model."""

    cells: int
    counts: dict[Status, int]

    @property
    def gravest(self) -> Status:
        # What could not run is no verdict, unless nothing else could.
        ran = {status for status, number in self.counts.items() if number and status is not Status.ABSENT}
        return next(status for status in GRAVEST_FIRST if status in ran) if ran else Status.ABSENT

    def __str__(self) -> str:
        number = self.counts[self.gravest]
        ran = self.cells if self.gravest is Status.ABSENT else self.cells - self.counts.get(Status.ABSENT, 0)
        of = "" if number == ran else f" of {ran}"
        return f"{self.gravest.words} {number}{of}"


class OperatorStandings(msgspec.Struct, frozen=True):
    """One operator or model, and the outcomes of every exporter on it."""

    name: str
    family: str
    kind: Kind
    standings: dict[str, Standing]

    @property
    def all_alike(self) -> bool:
        return len({standing.gravest for standing in self.standings.values()}) == 1


class AtOpset(msgspec.Struct, frozen=True):
    """The outcomes of one exporter at one opset."""

    exporter: str
    opset: int
    counts: dict[Status, int]
    #: The median time of an export that succeeded, capture included, in milliseconds; None if there is none.
    export_milliseconds: float | None


class LargerGraph(msgspec.Struct, frozen=True):
    """A model of which another exporter's graph has fewer nodes than this project's."""

    point: ComparedCell
    nodes: dict[str, int]


class Graphs(msgspec.Struct, frozen=True):
    """The graphs of models that this project's exporter and another one export rightly.

    They are told apart by whether this project's has fewer nodes than the smallest of the others, as many, or more.
    """

    fewer: int
    as_many: int
    more: tuple[LargerGraph, ...]


class Comparison(msgspec.Struct, frozen=True):
    """The comparison of all exporters that occur in some runs."""

    exporters: tuple[str, ...]
    #: The number of points that all exporters ran; and of those that only some ran, which are not used.
    common: int
    others: int
    #: Why points could not run with any exporter, as where a device is missing, to their number. They count nowhere.
    absent: dict[str, int]
    #: Points at which a runtime or a transformation is to blame for a result, to their number. They count nowhere too.
    not_theirs: dict[str, int]
    totals: dict[str, dict[Status, int]]
    #: For each exporter, the number of operators and models by their worst status.
    by_operator: dict[str, dict[Status, int]]
    by_opset: tuple[AtOpset, ...]
    rows: tuple[OperatorStandings, ...]
    #: Points at which another exporter passes and this project's does not.
    behind: tuple[ComparedCell, ...]
    #: What this project's exporter refuses or gets wrong, by cause, also where no other exporter ran.
    missed: tuple[CauseSummary, ...]
    graphs: Graphs


def compare(records: Iterable[Record]) -> Comparison:
    """Compare the exporters. If a cell is in several runs, its last record counts."""
    found: dict[ComparedCell, dict[str, Record]] = defaultdict(dict)
    for record in records:
        found[ComparedCell.of(record)][record.exporter] = record
    exporters = _order_exporters({exporter for cells in found.values() for exporter in cells})
    nowhere = {
        point: next(iter(cells.values())).reason
        for point, cells in found.items()
        if all(record.status is Status.ABSENT for record in cells.values())
    }
    culprits = {point: culprit for point, cells in found.items() if (culprit := _culprit(cells.values()))}
    found = {point: cells for point, cells in found.items() if point not in nowhere and point not in culprits}
    common = {point: cells for point, cells in found.items() if len(cells) == len(exporters)}
    cells: defaultdict[tuple[Kind, str, str], list[Record]] = defaultdict(list)
    for at in common.values():
        for record in at.values():
            cells[record.kind, record.family, record.name].append(record)
    rows = tuple(
        OperatorStandings(name, family, kind, {exporter: _standing(records, exporter) for exporter in exporters})
        for (kind, family, name), records in sorted(cells.items())
    )
    return Comparison(
        exporters=exporters,
        common=len(common),
        others=len(found) - len(common),
        absent=dict(Counter(nowhere.values()).most_common()),
        not_theirs=dict(Counter(culprits.values()).most_common()),
        totals={exporter: _counts(at[exporter] for at in common.values()) for exporter in exporters},
        by_operator={
            exporter: dict(Counter(row.standings[exporter].gravest for row in rows)) for exporter in exporters
        },
        by_opset=tuple(_by_opset(exporters, common.values())),
        rows=rows,
        behind=tuple(sorted(point for point, at in common.items() if _is_behind(at))),
        missed=tuple(cause.summary for cause in causes_of(_find_missed(found.values()))),
        graphs=_graphs(found),
    )


def _culprit(records: Iterable[Record]) -> str:
    """What else than an exporter is to blame for one of these results; empty if nothing is."""
    for record in records:
        if record.blame is Blame.RUNTIME:
            return f"runtime {runtime_asked(record)}"
        if record.blame is Blame.TRANSFORMATION:
            return f"transformation {record.transforms}"
    return ""


def _order_exporters(exporters: set[str]) -> tuple[str, ...]:
    """The exporters by name, this project's own first."""
    return tuple(sorted(exporters, key=lambda name: (name != PARITY, name)))


def _counts(records: Iterable[Record]) -> dict[Status, int]:
    return dict(Counter(record.status for record in records))


def _by_opset(exporters: Sequence[str], cells: Iterable[Mapping[str, Record]]) -> Iterator[AtOpset]:
    found: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for at in cells:
        for exporter, record in at.items():
            found[exporter, record.opset].append(record)
    for exporter, opset in sorted(found, key=lambda key: (exporters.index(key[0]), key[1])):
        records = found[exporter, opset]
        seconds = [each.seconds[Stage.EXPORT] for each in records if each.nodes and Stage.EXPORT in each.seconds]
        yield AtOpset(exporter, opset, _counts(records), round(1e3 * median(seconds), 1) if seconds else None)


def _find_missed(cells: Iterable[Mapping[str, Record]]) -> Iterator[Record]:
    for at in cells:
        ours = at.get(PARITY)
        if ours is not None and ours.status not in (Status.PASSED, Status.ABSENT):
            yield ours


def _standing(records: Sequence[Record], exporter: str) -> Standing:
    counts = _counts(record for record in records if record.exporter == exporter)
    return Standing(sum(counts.values()), counts)


def _is_behind(at: dict[str, Record]) -> bool:
    ours = at.get(PARITY)
    return ours is not None and ours.status is not Status.PASSED and any(r.status is Status.PASSED for r in at.values())


def _graphs(found: dict[ComparedCell, dict[str, Record]]) -> Graphs:
    counts: Counter[int] = Counter()
    more = []
    for point, at in sorted(found.items()):
        nodes = {
            exporter: record.nodes
            for exporter, record in at.items()
            if record.kind is Kind.MODEL and record.status is Status.PASSED and record.nodes
        }
        if PARITY not in nodes or len(nodes) == 1:
            continue
        least = min(number for exporter, number in nodes.items() if exporter != PARITY)
        counts[(nodes[PARITY] > least) - (nodes[PARITY] < least)] += 1
        if nodes[PARITY] > least:
            more.append(LargerGraph(point, nodes))
    return Graphs(fewer=counts[-1], as_many=counts[0], more=tuple(more))

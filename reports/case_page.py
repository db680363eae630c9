"""The content of a case's page: its cells by variant and opset, and the operators that it traced and exported to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.record import OnnxUse, Record, Status
from onnx_parity.reports.arrangement import Case, variant
from onnx_parity.reports.coverage import Grid, RowHead, build_grid, where
from onnx_parity.reports.groups import safe_link
from onnx_parity.reports.outcomes import FACES, State, Tally, in_words, state_of, tally
from onnx_parity.reports.summary import StageTime, stage_times
from onnx_parity.reports.wording import (
    duration,
    error_size,
    headroom,
    message_excerpt,
    opset_ranges,
    plain_number,
    ulps,
)

AXES = ("dtype", "device", "shapes", "capture", "exporter", "runtime")


@dataclass(frozen=True, slots=True)
class CellView:
    anchor: str
    opset: int
    cell: str
    state: State
    status: str
    where: str
    reason: str
    link: str
    message: str
    #: Names and values; empty if nothing was compared.
    metrics: tuple[tuple[str, str], ...]
    headroom: str
    max_abs: str
    seconds: tuple[StageTime, ...]
    took: str
    nodes: int
    command: str


@dataclass(frozen=True, slots=True)
class VariantView:
    """The cells that differ only in their opset."""

    label: str
    summary: str
    #: Whether its cells are unfolded when the page opens. They are not if there are several variants and all passed.
    open: bool
    cells: tuple[CellView, ...]


@dataclass(frozen=True, slots=True)
class Emission:
    """The ONNX operators of an exported graph, and the opsets and variants that have this graph."""

    opsets: str
    variants: str
    nodes: str
    uses: tuple[OnnxUse, ...]


@dataclass(frozen=True, slots=True)
class CaseView:
    tally: Tally
    #: The axes that have the same value for all cells.
    shared_axes: tuple[tuple[str, str], ...]
    grid: Grid
    variants: tuple[VariantView, ...]
    aten: tuple[str, ...]
    emissions: tuple[Emission, ...]
    stages: tuple[StageTime, ...]


def view_case(case: Case) -> CaseView:
    by_variant: defaultdict[tuple[str, ...], list[Record]] = defaultdict(list)
    for record in case.records:
        by_variant[variant(record)].append(record)
    differing = [place for place in range(len(AXES)) if len({axes[place] for axes in by_variant}) > 1]
    labels = {axes: " · ".join(axes[place] for place in differing) or "every cell" for axes in by_variant}
    heads, variants = [], []
    for number, (axes, records) in enumerate(by_variant.items()):
        heads.append(RowHead(labels[axes], "", f"#v{number}", f"#v{number}-", records))
        variants.append(_view_variant(labels[axes], number, records, alone=len(by_variant) == 1))
    any_axes = next(iter(by_variant))
    return CaseView(
        tally=tally(case.records),
        shared_axes=tuple((AXES[at], any_axes[at]) for at in range(len(AXES)) if at not in differing),
        grid=build_grid(heads, sorted({record.opset for record in case.records})),
        variants=tuple(variants),
        aten=tuple(dict.fromkeys(name for record in case.records for name in record.aten)),
        emissions=_emissions(case, labels),
        stages=_total_stages(case.records),
    )


def _view_variant(label: str, number: int, records: Sequence[Record], alone: bool) -> VariantView:
    seen: defaultdict[int, int] = defaultdict(int)
    cells = []
    for record in records:
        # Two cells may have the same variant and opset if a newer version added an axis.
        again = f"-{seen[record.opset]}" if seen[record.opset] else ""
        seen[record.opset] += 1
        cells.append(_view_cell(record, f"v{number}-{record.opset}{again}"))
    counts = tally(records)
    all_right = counts[Status.PASSED] + counts[Status.ABSENT] == len(records)
    return VariantView(label, in_words(counts), alone or not all_right, tuple(cells))


def _view_cell(record: Record, anchor: str) -> CellView:
    state = state_of(record.status)
    metrics = record.metrics
    return CellView(
        anchor=anchor,
        opset=record.opset,
        cell=markup_text(record.cell),
        state=state,
        status=FACES[state].one,
        where="" if record.status is Status.PASSED else where(record),
        reason=markup_text(record.reason),
        link=safe_link(record.link),
        message=message_excerpt(record.message),
        metrics=_worded_metrics(record),
        headroom=headroom(metrics.headroom) if metrics is not None else "",
        max_abs=error_size(metrics.max_abs) if metrics is not None else "",
        seconds=stage_times(record.seconds),
        took=duration(sum(record.seconds.values())) if record.seconds else "",
        nodes=record.nodes,
        command=record.again,
    )


def _worded_metrics(record: Record) -> tuple[tuple[str, str], ...]:
    metrics = record.metrics
    if metrics is None:
        return ()
    at = f"output {metrics.output}"
    if metrics.index:
        at += f" at ({', '.join(map(str, metrics.index))})"
    return (
        ("headroom", headroom(metrics.headroom)),
        ("tolerance", error_size(metrics.tolerance)),
        ("max abs error", error_size(metrics.max_abs)),
        ("max rel error", error_size(metrics.max_rel)),
        ("ULPs p50 / p99 / max", f"{ulps(metrics.ulp_p50)} / {ulps(metrics.ulp_p99)} / {ulps(metrics.ulp_max)}"),
        ("worst element", at),
        ("runtime's value", plain_number(metrics.got)),
        ("expected", plain_number(metrics.expected)),
    )


def _emissions(case: Case, labels: dict[tuple[str, ...], str]) -> tuple[Emission, ...]:
    """One row for each distinct set of operators. Its variants are named unless all variants have it."""
    alike: defaultdict[tuple[OnnxUse, ...], list[Record]] = defaultdict(list)
    for record in case.records:
        if record.onnx:
            alike[tuple(sorted(record.onnx, key=lambda use: (use.domain, use.op, use.since_version)))].append(record)
    everywhere = {variant(record) for record in case.records if record.onnx}
    rows = []
    for uses, records in sorted(alike.items(), key=lambda item: min(record.opset for record in item[1])):
        here = dict.fromkeys(variant(record) for record in records)
        rows.append(
            Emission(
                opsets=opset_ranges(record.opset for record in records),
                variants="" if len(here) == len(everywhere) else "; ".join(labels[axes] for axes in here),
                nodes=", ".join(map(str, sorted({record.nodes for record in records}))),
                uses=uses,
            )
        )
    return tuple(rows)


def _total_stages(records: Sequence[Record]) -> tuple[StageTime, ...]:
    totals: defaultdict[str, float] = defaultdict(float)
    for record in records:
        for stage, seconds in record.seconds.items():
            totals[stage] += seconds
    return stage_times(totals)

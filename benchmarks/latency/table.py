"""What is printed of measured latencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import geometric_mean, median

from rich.table import Table

from benchmarks.jobs import Latency
from benchmarks.subjects import EXPORTERS, PEERS, Contender

#: Times of one and the same file differ by this much.
NOISE = 1.02


@dataclass(frozen=True)
class Setting:
    """How a model is exported and run."""

    opset: int
    batch: int
    dynamic: bool = False

    def __str__(self) -> str:
        return f"opset {self.opset}, batch {self.batch}{' (dynamic)' if self.dynamic else ''}"


def better_peer(latency: Latency) -> Contender | None:
    """The peer whose file is the faster one; None if there is no right one."""
    there = [peer for peer in PEERS if peer in latency.milliseconds]
    return min(there, key=lambda peer: median(latency.milliseconds[peer]), default=None)


def ratio_to_better_peer(latency: Latency) -> float | None:
    peer = better_peer(latency)
    return None if peer is None else latency.ratio(Contender.OURS, peer)


def is_slower(latency: Latency) -> bool:
    ratio = ratio_to_better_peer(latency)
    return ratio is not None and ratio > NOISE


def latencies(found: Mapping[tuple[str, Setting], Latency]) -> Table:
    table = Table(title="milliseconds of our file, and how many times as long as the peers' it takes; * if slower")
    for column in ("model", "setting", "exporter", "over TorchScript", "over dynamo", "over the better"):
        table.add_column(column, justify="left" if column in ("model", "setting") else "right")
    for (name, setting), latency in found.items():
        own = latency.milliseconds.get(Contender.OURS)
        ratios = [latency.ratio(Contender.OURS, peer) for peer in PEERS]
        shown = ["—" if ratio is None else f"{ratio:.3f}" for ratio in (*ratios, ratio_to_better_peer(latency))]
        shown[-1] = f"[bold red]{shown[-1]} *[/]" if is_slower(latency) else f"{shown[-1]}  "
        table.add_row(name, str(setting), "—" if own is None else f"{median(own):.2f}", *shown)
    means = [ratio for latency in found.values() if (ratio := ratio_to_better_peer(latency)) is not None]
    if means:
        table.add_section()
        table.add_row("geometric mean", "", "", "", "", f"{geometric_mean(means):.3f}  ")
    return table


def fusions(found: Mapping[tuple[str, Setting], Latency]) -> Iterator[str]:
    """What onnxruntime's optimiser made of each exporter's file, where it is not the same for all of them."""
    for (name, setting), latency in found.items():
        made = {subject: latency.fused[subject] for subject in EXPORTERS if subject in latency.fused}
        first = next(iter(made.values()), {})
        shared = dict(item for item in first.items() if all(item in each.items() for each in made.values()))
        yield f"{name}, {setting}: all: {_listed(shared)}"
        for subject, counts in made.items():
            own = {operator: count for operator, count in counts.items() if operator not in shared}
            if own:
                yield f"    {subject}: {_listed(own)}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{operator.removeprefix('com.microsoft.')} {count}" for operator, count in counts.items()) or "—"

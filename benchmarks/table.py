"""Prints the results as tables in the terminal."""

from __future__ import annotations

from collections.abc import Callable
from statistics import geometric_mean

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from benchmarks.models import MODELS, ModelGroup
from benchmarks.results import Lane, ModelResults, Results, Timed
from benchmarks.subjects import EXPORTERS, PEERS, Contender, Weights
from benchmarks.targets import Judgement, TargetStatus

_COLOURS = {TargetStatus.OK: "green", TargetStatus.SHORT: "bold red", TargetStatus.NOT_MEASURED: "dim"}

#: The short names of exporters, for narrow columns.
SHORT_NAMES = {
    Contender.OURS: "exporter",
    Contender.TORCHSCRIPT: "TorchScript",
    Contender.DYNAMO: "dynamo",
    Contender.FLOOR: "floor",
}


def render(results: Results, judgements: list[Judgement]) -> RenderableType:
    versions = ", ".join(f"{package} {version}" for package, version in results.packages.items())
    parts: list[RenderableType] = [Text(f"{versions}\n{results.machine}\n")]
    for lane in Lane:
        if any(lane in model.times for model in results.models.values()):
            title = f"{lane} export, warm: CPU (wall) seconds, and CPU over the exporter's"
            parts.append(times(title, results, lane, _warm, Timed.cpu))
    if any(Lane.STATIC in model.times for model in results.models.values()):
        title = "first export of a process: wall seconds, and over the exporter's"
        parts.append(times(title, results, Lane.STATIC, lambda timed: f"{timed.first_wall():.3f}", Timed.first_wall))
    if any(model.memory for model in results.models.values()):
        parts.append(memory(results))
    if results.models:
        parts.append(files(results))
    if any(reasons for _, reasons in _failures(results)):
        parts.append(failures(results))
    parts.append(targets(judgements))
    return Group(*parts)


def _warm(timed: Timed) -> str:
    return f"{timed.cpu():.4f} ({timed.wall():.4f})"


def times(
    title: str, results: Results, lane: Lane, show: Callable[[Timed], str], read: Callable[[Timed], float]
) -> Table:
    """One line for each model, with ratios beside the seconds, and the geometric means of networks below."""
    compared = (Contender.FLOOR, *PEERS) if lane is Lane.STATIC else PEERS
    table = _table(title, "model", SHORT_NAMES[Contender.OURS])
    for subject in compared:
        table.add_column(SHORT_NAMES[subject], justify="right")
        table.add_column("ratio", justify="right")
    ratios: dict[Contender, list[float]] = {subject: [] for subject in compared}
    for name, model in results.models.items():
        timed = model.times.get(lane)
        if timed is None:
            continue
        row = [name, _shown(timed.get(Contender.OURS), show)]
        for subject in compared:
            ratio = model.time_ratio(lane, subject, Contender.OURS, read)
            if ratio is not None and MODELS[name].kind is ModelGroup.NETWORK:
                ratios[subject].append(ratio)
            row += [_shown(timed.get(subject), show), _times(ratio)]
        table.add_row(*row)
    table.add_section()
    means = ["mean of networks", ""]
    for subject in compared:
        means += ["", _times(geometric_mean(ratios[subject]) if ratios[subject] else None)]
    table.add_row(*means)
    return table


def memory(results: Results) -> Table:
    table = _table("extra peak memory, and over the weights' bytes", "model", "weights, MB")
    columns = [(subject, weights) for subject in Contender for weights in Weights if _has(results, subject, weights)]
    for subject, weights in columns:
        table.add_column(f"{SHORT_NAMES[subject]}\n{weights}", justify="right")
    for name, model in results.models.items():
        sizes = [measured.weights for layouts in model.memory.values() for measured in layouts.values()]
        if not sizes:
            continue
        row = [name, f"{sizes[0] / 1e6:.1f}"]
        for subject, weights in columns:
            measured = model.memory.get(subject, {}).get(weights)
            ratio = model.memory_ratio(subject, weights)
            row.append(
                "—" if measured is None else f"{measured.extra / 1e6:.0f} MB {'' if ratio is None else ratio:.2f}x"
            )
        table.add_row(*row)
    return table


def _has(results: Results, subject: Contender, weights: Weights) -> bool:
    return any(weights in model.memory.get(subject, {}) for model in results.models.values())


def files(results: Results) -> Table:
    table = _table("the exported files: nodes, and onnxruntime's latency on one thread", "model")
    for subject in EXPORTERS:
        table.add_column(f"nodes\n{SHORT_NAMES[subject]}", justify="right")
    for subject in EXPORTERS:
        table.add_column(f"ms\n{SHORT_NAMES[subject]}", justify="right")
    for peer in PEERS:
        table.add_column(f"exporter /\n{SHORT_NAMES[peer]}", justify="right")
    for name, model in results.models.items():
        counts = [str(model.nodes.get(subject, "—")) for subject in EXPORTERS]
        ratios = [_times(model.latency_ratio(Contender.OURS, peer)) for peer in PEERS]
        table.add_row(name, *counts, *(_milliseconds(model, subject) for subject in EXPORTERS), *ratios)
    return table


def _milliseconds(model: ModelResults, subject: Contender) -> str:
    measured = model.latency.milliseconds.get(subject) if model.latency else None
    return f"{min(measured):.3f}" if measured else "—"


def failures(results: Results) -> Table:
    table = Table(title="failed", title_justify="left")
    for column in ("model", "what", "why"):
        table.add_column(column, overflow="fold")
    for name, reasons in _failures(results):
        for what, reason in reasons.items():
            table.add_row(name, what, Text(reason))
    return table


def _failures(results: Results) -> list[tuple[str, dict[str, str]]]:
    matrix = results.matrix.failures if results.matrix else {}
    return [*((name, model.failures) for name, model in results.models.items()), ("matrix", matrix)]


def targets(judgements: list[Judgement]) -> Table:
    table = Table(title="targets", title_justify="left")
    for column in ("target", "measured", ""):
        table.add_column(column, overflow="fold")
    for judgement in judgements:
        table.add_row(judgement.target, judgement.measured, Text(judgement.verdict, _COLOURS[judgement.verdict]))
    return table


def _table(title: str, first: str, *numbers: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for number in numbers:
        table.add_column(number, justify="right")
    return table


def _shown(timed: Timed | None, show: Callable[[Timed], str]) -> str:
    return "—" if timed is None else show(timed)


def _times(ratio: float | None) -> str:
    return "—" if ratio is None else f"{ratio:.2f}x"

"""The targets for the exporter's speed, memory and files, and whether measured figures meet them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from statistics import geometric_mean

from benchmarks.models import MODELS, ModelGroup
from benchmarks.results import Lane, MatrixResults, MatrixTime, ModelResults, Results, Timed
from benchmarks.subjects import LAYOUTS, PEERS, Contender, Weights

#: Latencies of two identical files differ by this much between processes of one machine.
LATENCY_NOISE = 0.03

#: The maximum extra memory, as a multiple of the weights' bytes.
EXTRA_MEMORY = 0.25


class TargetStatus(StrEnum):
    OK = "ok"
    SHORT = "short"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Judgement:
    target: str
    measured: str
    verdict: TargetStatus


CLOCKS: dict[str, Callable[[Timed], float]] = {"CPU": Timed.cpu, "wall": Timed.wall}

#: Figures by model; None if this project's exporter failed for it.
Figures = dict[str, float | None]


def judge(results: Results) -> list[Judgement]:
    """Every target, with the measured figure."""
    models, single, scripts = (
        {name: model for name, model in results.models.items() if MODELS[name].kind is kind} for kind in ModelGroup
    )
    judgements = []
    for lane, over_dynamo, over_torchscript in ((Lane.STATIC, 10.0, 4.0), (Lane.DYNAMIC, 5.0, 2.0)):
        for peer, wanted in ((Contender.DYNAMO, over_dynamo), (Contender.TORCHSCRIPT, over_torchscript)):
            for clock, read in CLOCKS.items():
                target = f"{lane} export, {clock}: at least {wanted:g}x faster than {peer}"
                judgements.append(mean_at_least(target, wanted, times(models, lane, peer, Contender.OURS, read)))
    for clock, read in CLOCKS.items():
        floor = times(models, Lane.STATIC, Contender.OURS, Contender.FLOOR, read)
        judgements.append(mean_at_most(f"static export, {clock}: within 2.5x of the floor", 2.5, floor))
    for kind, these in ((ModelGroup.OPERATOR, single), (ModelGroup.SCRIPT, scripts)):
        cpu = times(these, Lane.STATIC, Contender.OURS, Contender.TORCHSCRIPT, Timed.cpu)
        judgements.append(worst_at_most(f"{kind}, CPU: no slower than {Contender.TORCHSCRIPT}", 1.0, cpu))
    for peer in PEERS:
        first = times(results.models, Lane.STATIC, Contender.OURS, peer, Timed.first_wall)
        judgements.append(worst_at_most(f"first export of a process, wall: no slower than {peer}", 1.0, first))
    for weights in Weights:
        target = f"extra peak memory, {weights}: at most {EXTRA_MEMORY}x the weights"
        judgements.append(worst_at_most(target, EXTRA_MEMORY, memory(models, weights)))
    judgements.append(worst_at_most("nodes: no more than the better peer", 1.0, nodes(results.models)))
    latency = f"onnxruntime latency: no worse than the better peer ({LATENCY_NOISE:.0%} of noise allowed)"
    judgements.append(worst_at_most(latency, 1.0 + LATENCY_NOISE, latencies(results.models)))
    return judgements + matrix(results.matrix)


def matrix(measured: MatrixResults | None) -> list[Judgement]:
    """The rate over the operators' cells, and the time of the default tier of all declarations."""
    rate, tier = (
        "matrix: over 300 cells a second on operators at opsets 7 to 26",
        "matrix: the default tier under 4 minutes",
    )
    if measured is None:
        return [Judgement(target, "", TargetStatus.NOT_MEASURED) for target in (rate, tier)]
    operators, everything = measured.operators, measured.everything
    return [
        _judge_matrix(rate, operators, lambda time: f"{time.rate():.0f} a second", lambda time: time.rate() > 300),
        _judge_matrix(tier, everything, lambda time: f"{time.seconds:.0f} s", lambda time: time.seconds < 240),
    ]


def _judge_matrix(
    target: str, time: MatrixTime | None, show: Callable[[MatrixTime], str], keeps: Callable[[MatrixTime], bool]
) -> Judgement:
    if time is None:
        return Judgement(target, "pytest failed", TargetStatus.SHORT)
    measured = f"{show(time)}, {time.cells} cells"
    return Judgement(target, measured, TargetStatus.OK if keeps(time) else TargetStatus.SHORT)


def mean_at_least(target: str, bound: float, figures: Figures) -> Judgement:
    """The geometric mean over the models is at least `bound`."""
    return _judge_mean(target, figures, lambda mean: mean >= bound)


def mean_at_most(target: str, bound: float, figures: Figures) -> Judgement:
    """The geometric mean over the models is at most `bound`."""
    return _judge_mean(target, figures, lambda mean: mean <= bound)


def _judge_mean(target: str, figures: Figures, keeps: Callable[[float], bool]) -> Judgement:
    known = {name: figure for name, figure in figures.items() if figure is not None}
    if len(known) < len(figures):
        return _without_figure(target, figures)
    if not known:
        return Judgement(target, "", TargetStatus.NOT_MEASURED)
    mean = geometric_mean(known.values())
    measured = f"{mean:.2f}x over {len(known)} model{'s' if len(known) > 1 else ''}"
    return Judgement(target, measured, TargetStatus.OK if keeps(mean) else TargetStatus.SHORT)


def worst_at_most(target: str, bound: float, figures: Figures) -> Judgement:
    """The largest figure of any model is at most `bound`."""
    known = {name: figure for name, figure in figures.items() if figure is not None}
    if len(known) < len(figures):
        return _without_figure(target, figures)
    if not known:
        return Judgement(target, "", TargetStatus.NOT_MEASURED)
    worst = max(known, key=lambda name: known[name])
    measured = f"{known[worst]:.2f}x at worst, {worst}"
    return Judgement(target, measured, TargetStatus.OK if known[worst] <= bound else TargetStatus.SHORT)


def _without_figure(target: str, figures: Figures) -> Judgement:
    failed = ", ".join(name for name, figure in figures.items() if figure is None)
    return Judgement(target, f"no figure for {failed}", TargetStatus.SHORT)


def times(
    models: dict[str, ModelResults], lane: Lane, over: Contender, under: Contender, read: Callable[[Timed], float]
) -> Figures:
    """Ratios of the models that both exported. If a peer failed there is no figure; if this exporter failed, None."""
    figures: Figures = {}
    for name, model in models.items():
        measured = model.times.get(lane, {})
        other = over if under is Contender.OURS else under
        if other in measured:
            figures[name] = model.time_ratio(lane, over, under, read)
    return figures


def memory(models: dict[str, ModelResults], weights: Weights) -> Figures:
    """This exporter's ratios for models whose weights outweigh the recording, so that the floor is in bounds."""
    figures: Figures = {}
    for name, model in models.items():
        (floor_layout,) = LAYOUTS[Contender.FLOOR]
        floor = model.memory_ratio(Contender.FLOOR, floor_layout)
        if floor is not None and floor <= EXTRA_MEMORY:
            figures[name] = model.memory_ratio(Contender.OURS, weights)
    return figures


def nodes(models: dict[str, ModelResults]) -> Figures:
    """This exporter's node counts, divided by the smaller count of the peers."""
    figures: Figures = {}
    for name, model in models.items():
        peers = [model.nodes[peer] for peer in PEERS if peer in model.nodes]
        if peers:
            ours = model.nodes.get(Contender.OURS)
            figures[name] = None if ours is None else ours / min(peers)
    return figures


def latencies(models: dict[str, ModelResults]) -> Figures:
    """This exporter's latencies, divided by the smaller latency of the peers."""
    figures: Figures = {}
    for name, model in models.items():
        if model.latency is None or not any(peer in model.latency.milliseconds for peer in PEERS):
            continue
        ratios = [model.latency_ratio(Contender.OURS, peer) for peer in PEERS]
        known = [ratio for ratio in ratios if ratio is not None]
        figures[name] = max(known) if known else None
    return figures

"""Export times of about forty newer networks beside torch.onnx's: `python -m benchmarks.newer_networks`."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import children
from benchmarks.graphs import nodes_of
from benchmarks.jobs import Failure, TimeJob, Times
from benchmarks.newer_networks.models import NEWER
from benchmarks.options import KeepOption, Kept, choose, search
from benchmarks.subjects import EXPORTERS, PEERS, Contender

#: How many times faster than each peer the exports have to be, as geometric means.
TARGETS = {
    ("static", Contender.DYNAMO): 18.0,
    ("static", Contender.TORCHSCRIPT): 4.0,
    ("dynamic", Contender.DYNAMO): 15.0,
    ("dynamic", Contender.TORCHSCRIPT): 2.5,
    ("first static", Contender.DYNAMO): 4.0,
    ("first static", Contender.TORCHSCRIPT): 1.2,
    ("first dynamic", Contender.DYNAMO): 4.0,
    ("first dynamic", Contender.TORCHSCRIPT): 1.2,
}
_KINDS = ("static", "dynamic")
#: The names of the peers on the command line.
_PEERS = {"torchscript": Contender.TORCHSCRIPT, "dynamo": Contender.DYNAMO}
#: Warm exports in each process; the quickest counts, because other work on the machine only adds time.
WARM = 3
#: Seconds after which an exporter is not measured again: the time of a long export varies by little of it.
ENOUGH = 5.0
#: Processes whose first exports are measured. The quickest counts here too.
PROCESSES = 2
#: The most processes, for a model that takes about as long in the TorchScript exporter.
MOST_PROCESSES = 6
#: How many times as long one of the two takes, at most, for the two to be about as fast.
CLOSE = 1.25

#: Seconds by what was measured and by model and exporter.
Seconds = dict[str, dict[str, dict[Contender, float]]]

app = typer.Typer(add_completion=False)


class Figures(msgspec.Struct, frozen=True):
    """Of a model: processor seconds of a warm export, wall seconds of the first in a process, and nodes."""

    warm: float
    first: float
    nodes: int

    def least(self, other: Figures) -> Figures:
        return Figures(min(self.warm, other.warm), min(self.first, other.first), self.nodes)


#: What was measured of a model by exporter: its figures, or why there are none.
Outcomes = dict[Contender, Figures | str]


def _in_a_process(subject: Contender, name: str, kind: str) -> Figures | str:
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        path = Path(folder, "model.onnx")
        job = TimeJob(subject, name, path=str(path), dynamic=kind == "dynamic", warm=WARM, enough=ENOUGH)
        match children.run(job, Path(folder)):
            case Times(first, warm):
                return Figures(min(clock.cpu for clock in warm), first.wall, nodes_of(path))
            case Failure(reason):
                return reason
            case other:
                raise AssertionError(other)


def measured(
    subjects: Collection[Contender], known: Outcomes, measure: Callable[[Contender], Figures | str]
) -> Outcomes:
    """Measure a model in these exporters in turn, where `known` are the outcomes of others.

    They are measured more often if it takes about as long here and in the TorchScript exporter.
    """
    found: Outcomes = {}
    for number in range(MOST_PROCESSES):
        if number >= PROCESSES and not is_close({**known, **found}):
            break
        for subject in subjects:
            before = found.get(subject)
            if before is None:
                found[subject] = measure(subject)
            elif not isinstance(before, str) and before.first < ENOUGH:
                now = measure(subject)
                found[subject] = now if isinstance(now, str) else before.least(now)
    return found


def is_close(outcomes: Outcomes) -> bool:
    """Whether the model takes about as long here and in the TorchScript exporter."""
    own, peer = outcomes.get(Contender.OURS), outcomes.get(Contender.TORCHSCRIPT)
    if not isinstance(own, Figures) or not isinstance(peer, Figures):
        return False
    return any(1 / CLOSE < ratio < CLOSE for ratio in (peer.warm / own.warm, peer.first / own.first))


def _mean(ratios: Iterable[float]) -> float:
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def _ratio(times: dict[Contender, float], peer: Contender) -> float | None:
    return times[peer] / times[Contender.OURS] if peer in times and Contender.OURS in times else None


def _table(kind: str, seconds: dict[str, dict[Contender, float]]) -> Table:
    table = Table("model", title=f"{kind} export: seconds, and how many times as long the peers take")
    for column in ("exporter", *PEERS):
        table.add_column(column, justify="right")
    for name, times in seconds.items():
        ratios = [_ratio(times, peer) for peer in PEERS]
        own = f"{times[Contender.OURS]:.3f}" if Contender.OURS in times else "failed"
        table.add_row(name, own, *("—" if ratio is None else f"{ratio:.1f}x" for ratio in ratios))
    return table


def _more_nodes(nodes: dict[str, dict[Contender, int]]) -> Table:
    table = Table("model", "exporter", "better peer", title="models with more nodes than the better peer's")
    for name, counts in nodes.items():
        peers = [counts[peer] for peer in PEERS if peer in counts]
        if peers and counts.get(Contender.OURS, 0) > min(peers):
            table.add_row(name, str(counts[Contender.OURS]), str(min(peers)))
    return table


def slower(seconds: Seconds) -> list[str]:
    """The models that take longer than in the TorchScript exporter, and how many times as long that takes."""
    ratios = [
        (kind, name, _ratio(times, Contender.TORCHSCRIPT))
        for kind, models in seconds.items()
        for name, times in models.items()
    ]
    return [f"{name} ({kind}, {ratio:.2f}x)" for kind, name, ratio in ratios if ratio is not None and ratio < 1]


def _kept(seconds: Seconds, subjects: Collection[Contender], console: Console) -> bool:
    """Print the mean ratios to the peers among `subjects`, and return whether they reach the targets."""
    kept = True
    for (kind, peer), target in TARGETS.items():
        if peer not in subjects:
            continue
        ratios = [ratio for times in seconds[kind].values() if (ratio := _ratio(times, peer)) is not None]
        mean, least = _mean(ratios), min(ratios, default=math.nan)
        kept = kept and mean >= target
        verdict = "ok" if mean >= target else "short"
        means = f"{mean:.1f}x over {len(ratios)} models, worst {least:.2f}x"
        console.print(f"{kind}, {peer}: {means}; at least {target:g}x: {verdict}")
    if Contender.TORCHSCRIPT in subjects:
        names = slower(seconds)
        found = f"{', '.join(names)}: short" if names else "none: ok"
        console.print(f"models slower than {Contender.TORCHSCRIPT}: {found}", markup=False, highlight=False)
        kept = kept and not names
    return kept


@app.command()
def main(
    only: Annotated[str, typer.Option(help="A regular expression for the names of the models.")] = "",
    peer: Annotated[
        str, typer.Option(help="Only beside this one, torchscript or dynamo, which takes most of the time.")
    ] = "",
    kept: KeepOption = None,
) -> None:
    """Measure static, dynamic and first exports of newer networks. Exits with 1 if a target is missed, or if a model is
    slower than in the TorchScript exporter.

    Examples:

    python -m benchmarks.newer_networks --only 'swin|vit' --peer torchscript

    python -m benchmarks.newer_networks --kept times.jsonl
    """
    names = search("--only", only, NEWER)
    subjects = (Contender.OURS, *(_PEERS[name] for name in choose("--peer", [peer], _PEERS))) if peer else EXPORTERS
    store: Kept[Figures | str] = Kept(kept, Figures | str)
    seconds: Seconds = {f"{first}{kind}": defaultdict(dict) for first in ("", "first ") for kind in _KINDS}
    nodes: dict[str, dict[Contender, int]] = defaultdict(dict)
    failures: list[str] = []
    exports = [(name, kind) for name in names for kind in _KINDS]
    for name, kind in track(exports, "exports", console=Console(stderr=True), transient=True):
        keys = {subject: f"{name}, {subject}, {kind}" for subject in subjects}
        known = {subject: store[key] for subject, key in keys.items() if key in store}
        missing = [subject for subject in subjects if subject not in known]
        for subject, outcome in measured(missing, known, partial(_in_a_process, name=name, kind=kind)).items():
            store.add(keys[subject], outcome)
        for subject, key in keys.items():
            match store[key]:
                case Figures(warm, first, count):
                    seconds[kind][name][subject] = warm
                    seconds[f"first {kind}"][name][subject] = first
                    if kind == "static":
                        nodes[name][subject] = count
                case reason:
                    failures.append(f"{key}: {reason}")
    console = Console(width=140)
    for kind, times in seconds.items():
        console.print(_table(kind, times))
    console.print(_more_nodes(nodes))
    for failure in failures:
        console.print(failure, markup=False, highlight=False)
    raise typer.Exit(0 if _kept(seconds, subjects, console) else 1)


if __name__ == "__main__":
    app()

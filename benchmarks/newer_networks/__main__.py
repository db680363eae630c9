"""Export times of about forty newer networks beside torch.onnx's: `python -m benchmarks.newer_networks`."""

from __future__ import annotations

import math
import re
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable
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
from benchmarks.kept import KeepOption, Kept
from benchmarks.newer_networks.models import NEWER
from benchmarks.subjects import EXPORTERS, PEERS, Subject

#: How many times faster than each peer the exports have to be, as geometric means.
TARGETS = {
    ("static", Subject.DYNAMO): 18.0,
    ("static", Subject.TORCHSCRIPT): 4.0,
    ("dynamic", Subject.DYNAMO): 15.0,
    ("dynamic", Subject.TORCHSCRIPT): 2.5,
    ("first static", Subject.DYNAMO): 4.0,
    ("first static", Subject.TORCHSCRIPT): 1.2,
    ("first dynamic", Subject.DYNAMO): 4.0,
    ("first dynamic", Subject.TORCHSCRIPT): 1.2,
}
_KINDS = ("static", "dynamic")
#: The names of the peers on the command line.
_PEERS = {"torchscript": Subject.TORCHSCRIPT, "dynamo": Subject.DYNAMO}
#: Warm exports in each process; the quickest counts, because other work on the machine only adds time.
WARM = 3
#: Processes whose first exports are measured. The quickest counts here too.
PROCESSES = 3

#: Seconds by what was measured and by model and exporter.
Seconds = dict[str, dict[str, dict[Subject, float]]]

app = typer.Typer(add_completion=False)


class Figures(msgspec.Struct, frozen=True):
    """Of a model: processor seconds of a warm export, wall seconds of the first in a process, and nodes."""

    warm: float
    first: float
    nodes: int


def _measured(subject: Subject, name: str, kind: str, folder: Path) -> Figures | str:
    """The figures, or why there are none."""
    path = folder / "model.onnx"
    job = TimeJob(subject, name, path=str(path), dynamic=kind == "dynamic", warm=WARM)
    firsts, warms = [], []
    for _ in range(PROCESSES):
        match children.run(job, folder):
            case Times(first, warm):
                firsts.append(first.wall)
                warms += [clock.cpu for clock in warm]
            case Failure(reason):
                return reason
            case other:
                raise AssertionError(other)
    return Figures(min(warms), min(firsts), nodes_of(path))


def _mean(ratios: Iterable[float]) -> float:
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def _ratio(times: dict[Subject, float], peer: Subject) -> float | None:
    return times[peer] / times[Subject.OURS] if peer in times and Subject.OURS in times else None


def _table(kind: str, seconds: dict[str, dict[Subject, float]]) -> Table:
    table = Table("model", title=f"{kind} export: seconds, and how many times as long the peers take")
    for column in ("exporter", *PEERS):
        table.add_column(column, justify="right")
    for name, times in seconds.items():
        ratios = [_ratio(times, peer) for peer in PEERS]
        own = f"{times[Subject.OURS]:.3f}" if Subject.OURS in times else "failed"
        table.add_row(name, own, *("—" if ratio is None else f"{ratio:.1f}x" for ratio in ratios))
    return table


def _more_nodes(nodes: dict[str, dict[Subject, int]]) -> Table:
    table = Table("model", "exporter", "better peer", title="models with more nodes than the better peer's")
    for name, counts in nodes.items():
        peers = [counts[peer] for peer in PEERS if peer in counts]
        if peers and counts.get(Subject.OURS, 0) > min(peers):
            table.add_row(name, str(counts[Subject.OURS]), str(min(peers)))
    return table


def slower(seconds: Seconds) -> list[str]:
    """The models that take longer than in the TorchScript exporter, and how many times as long that takes."""
    ratios = [
        (kind, name, _ratio(times, Subject.TORCHSCRIPT))
        for kind, models in seconds.items()
        for name, times in models.items()
    ]
    return [f"{name} ({kind}, {ratio:.2f}x)" for kind, name, ratio in ratios if ratio is not None and ratio < 1]


def _kept(seconds: Seconds, subjects: Collection[Subject], console: Console) -> bool:
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
    if Subject.TORCHSCRIPT in subjects:
        names = slower(seconds)
        found = f"{', '.join(names)}: short" if names else "none: ok"
        console.print(f"models slower than {Subject.TORCHSCRIPT}: {found}", markup=False, highlight=False)
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
    names = [name for name in NEWER if re.search(only, name)]
    if not names:
        raise typer.BadParameter(f"no model matches; there are {', '.join(NEWER)}", param_hint="--only")
    if peer and peer not in _PEERS:
        raise typer.BadParameter(f"no such peer; there are {' and '.join(_PEERS)}", param_hint="--peer")
    subjects = (Subject.OURS, _PEERS[peer]) if peer else EXPORTERS
    store: Kept[Figures | str] = Kept(kept, Figures | str)
    seconds: Seconds = {f"{first}{kind}": defaultdict(dict) for first in ("", "first ") for kind in _KINDS}
    nodes: dict[str, dict[Subject, int]] = defaultdict(dict)
    failures: list[str] = []
    jobs = [(name, kind, subject) for name in names for kind in _KINDS for subject in subjects]
    for name, kind, subject in track(jobs, "exports", console=Console(stderr=True), transient=True):
        key = f"{name}, {subject}, {kind}"
        if key not in store:
            with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
                store.add(key, _measured(subject, name, kind, Path(folder)))
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

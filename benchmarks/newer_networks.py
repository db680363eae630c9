"""Export times of about forty newer networks beside torch.onnx's: `python -m benchmarks.newer_networks`."""

from __future__ import annotations

import math
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import onnx
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import children
from benchmarks.jobs import Failure, TimeJob, Times
from benchmarks.measure import count
from benchmarks.newer_models import NEWER
from benchmarks.results import Lane
from benchmarks.subjects import EXPORTERS, PEERS, Subject

#: How many times faster than each peer the exports have to be, as geometric means.
TARGETS = {
    ("static", Subject.DYNAMO): 18.0,
    ("static", Subject.TORCHSCRIPT): 4.0,
    ("dynamic", Subject.DYNAMO): 15.0,
    ("dynamic", Subject.TORCHSCRIPT): 2.5,
    ("first", Subject.DYNAMO): 4.0,
    ("first", Subject.TORCHSCRIPT): 1.2,
}
#: Warm exports in each process; the quickest counts, because other work on the machine only adds time.
WARM = 3

#: Seconds by what was measured and by model and exporter.
Seconds = dict[str, dict[str, dict[Subject, float]]]

app = typer.Typer(add_completion=False)


def _measured(name: str, folder: Path, seconds: Seconds, nodes: dict[str, dict[Subject, int]]) -> Iterator[str]:
    """Measure a model, and yield what was measured or why it was not."""
    for lane, kind in ((Lane.STATIC, "static"), (Lane.DYNAMIC, "dynamic")):
        for subject in EXPORTERS:
            path = folder / f"{kind}-{subject.name}.onnx"
            job = TimeJob(subject, name, path=str(path), dynamic=lane is Lane.DYNAMIC, warm=WARM)
            match children.run(job, folder):
                case Times(first, warm):
                    seconds[kind][name][subject] = min(clock.cpu for clock in warm)
                    if lane is Lane.STATIC:
                        seconds["first"][name][subject] = first.wall
                        nodes[name][subject] = count(onnx.load(path, load_external_data=False).graph)
                    path.unlink()
                    yield ""
                case Failure(reason):
                    yield f"{name}: {subject}, {kind}: {reason}"


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


def _kept(seconds: Seconds, console: Console) -> bool:
    kept = True
    for (kind, peer), target in TARGETS.items():
        ratios = [ratio for times in seconds[kind].values() if (ratio := _ratio(times, peer)) is not None]
        mean, least = _mean(ratios), min(ratios, default=math.nan)
        kept = kept and mean >= target
        verdict = "ok" if mean >= target else "short"
        means = f"{mean:.1f}x over {len(ratios)} models, worst {least:.2f}x"
        console.print(f"{kind}, {peer}: {means}; at least {target:g}x: {verdict}")
    return kept


@app.command()
def main(
    only: Annotated[str, typer.Option(help="A regular expression for the names of the models.")] = "",
) -> None:
    """Measure static, dynamic and first exports of newer networks. Exits with 1 if a target is missed."""
    names = [name for name in NEWER if re.search(only, name)]
    if not names:
        raise typer.BadParameter(f"no model matches; there are {', '.join(NEWER)}", param_hint="--only")
    seconds: Seconds = {kind: defaultdict(dict) for kind in ("static", "dynamic", "first")}
    nodes: dict[str, dict[Subject, int]] = defaultdict(dict)
    failures = []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder, Progress(console=Console(stderr=True)) as shown:
        task = shown.add_task("exports", total=len(names) * 2 * len(EXPORTERS))
        for name in names:
            shown.update(task, description=name)
            for failure in _measured(name, Path(folder), seconds, nodes):
                failures += [failure] if failure else []
                shown.advance(task)
    console = Console(width=140)
    for kind, times in seconds.items():
        console.print(_table(kind, times))
    console.print(_more_nodes(nodes))
    for failure in failures:
        console.print(failure, markup=False, highlight=False)
    raise typer.Exit(0 if _kept(seconds, console) else 1)


if __name__ == "__main__":
    app()

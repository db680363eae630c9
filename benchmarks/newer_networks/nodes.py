"""The nodes of newer networks' graphs beside those of torch.onnx's: `python -m benchmarks.newer_networks.nodes`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import children
from benchmarks.graphs import nodes_of
from benchmarks.jobs import Exported, ExportJob, Failure, Variant
from benchmarks.newer_networks.models import FURTHER, NEWER
from benchmarks.options import KeepOption, Kept, search
from benchmarks.subjects import EXPORTERS, HIGHEST_OPSET, Contender

#: The models that are exported: `resnet50` and `densenet121` stand for the classic ones.
NAMES = ("resnet50", "densenet121", *NEWER, *FURTHER)
_BATCH = 2

#: The number of nodes of a file, or why there is none.
Count = int | str

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Way:
    """A way to export: an opset, and whether the batch is dynamic."""

    opset: int
    dynamic: bool

    def __str__(self) -> str:
        return f"{'dynamic' if self.dynamic else 'static'}, opset {self.opset}"


def measured(subject: Contender, name: str, ways: Sequence[Way], folder: Path) -> dict[Way, Count]:
    """The nodes of one exporter's files of a model, all of which one process writes."""
    possible = [way for way in ways if way.opset <= HIGHEST_OPSET[subject]]
    variants = [
        Variant(way.opset, way.dynamic, _BATCH, str(folder / f"{way.opset}-{way.dynamic}.onnx")) for way in possible
    ]
    outcome = children.run(ExportJob(subject, name, variants), folder)
    match outcome:
        case Exported(failures):
            return {
                way: failure or nodes_of(Path(variant.path))
                for way, variant, failure in zip(possible, variants, failures, strict=True)
            }
        case Failure(reason):
            return dict.fromkeys(possible, reason)
    raise AssertionError(outcome)


def has_more(counts: Mapping[Contender, Count]) -> bool:
    """Whether this project's exporter failed where another did not, or its file has more nodes than the better one."""
    numbers = {subject: count for subject, count in counts.items() if isinstance(count, int)}
    own = numbers.pop(Contender.OURS, None)
    return bool(numbers) and (own is None or own > min(numbers.values()))


def table(found: Mapping[str, Mapping[Way, Mapping[Contender, Count]]], ways: Sequence[Way]) -> Table:
    shown = Table("model", title="nodes of the exporter's, TorchScript's and dynamo's files; * where ours has more")
    for way in ways:
        shown.add_column(str(way), justify="right")
    for name, of_ways in found.items():
        cells = []
        for way in ways:
            counts = of_ways.get(way, {})
            numbers = [counts.get(subject) for subject in EXPORTERS]
            text = " / ".join(f"{each:,}" if isinstance(each, int) else "—" for each in numbers)
            cells.append(f"[bold red]{text} *[/]" if has_more(counts) else f"{text}  ")
        shown.add_row(name, *cells)
    return shown


@app.command()
def main(
    models: Annotated[str, typer.Option(help="A regular expression for their names. Default: all.")] = "",
    opsets: Annotated[str, typer.Option(help="Comma-separated.")] = "18,23",
    kept: KeepOption = None,
) -> None:
    """Count the nodes of exported files, with a static and a dynamic batch. Exits with 1 where ours has more.

    Nodes of branches, loop bodies and functions are counted too. TorchScript's exporter ends at opset 20.

    Examples:

    python -m benchmarks.newer_networks.nodes --models 'bert|gpt2'

    python -m benchmarks.newer_networks.nodes --kept nodes.jsonl
    """
    names = search("--models", models, NAMES)
    ways = [Way(int(opset), dynamic) for opset in opsets.split(",") for dynamic in (False, True)]
    store: Kept[Count] = Kept(kept, Count)
    found: dict[str, dict[Way, dict[Contender, Count]]] = {}
    failures = []
    for name in track(names, "models", console=Console(stderr=True), transient=True):
        for subject in EXPORTERS:
            keys = {way: f"{name}, {subject}, {way}" for way in ways}
            if lacking := [way for way, key in keys.items() if key not in store]:
                with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
                    for way, count in measured(subject, name, lacking, Path(folder)).items():
                        store.add(keys[way], count)
            for way, key in keys.items():
                if key in store:
                    found.setdefault(name, {}).setdefault(way, {})[subject] = store[key]
                    failures += [f"{key}: {store[key]}"] if isinstance(store[key], str) else []
    console = Console(width=160)
    console.print(table(found, ways))
    for failure in failures:
        console.print(failure, markup=False, highlight=False)
    more = sum(has_more(counts) for of_ways in found.values() for counts in of_ways.values())
    console.print(f"{sum(map(len, found.values()))} graphs; ours has more nodes than the better peer's in {more}")
    raise typer.Exit(1 if more else 0)


if __name__ == "__main__":
    app()

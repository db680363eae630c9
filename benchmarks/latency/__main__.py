"""The latency of exported models in onnxruntime beside torch.onnx's: `python -m benchmarks.latency`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from benchmarks import children
from benchmarks.jobs import Exported, ExportJob, Failure, Latency, LatencyJob, Variant
from benchmarks.latency.table import Setting, fusions, is_slower, latencies
from benchmarks.newer_networks.models import FURTHER
from benchmarks.options import KeepOption, Kept, search
from benchmarks.subjects import EXPORTERS, HIGHEST_OPSET, Contender

#: Those whose names end in 256 have four layers of that width; the others have their usual size.
NAMES = ("resnet50", "efficientnet_b0", "convnext_tiny", "swin_t", "vit_b_16", *FURTHER)

app = typer.Typer(add_completion=False)


def measured(
    name: str, settings: Sequence[Setting], sessions: int, rounds: int, folder: Path
) -> Iterator[tuple[Setting, Latency | str]]:
    """Export a model for all settings, one process for each exporter, and run the files of each setting in turn."""
    paths: dict[Setting, dict[Contender, str]] = {setting: {} for setting in settings}
    failures: dict[Setting, list[str]] = {setting: [] for setting in settings}
    for subject in EXPORTERS:
        possible = [setting for setting in settings if setting.opset <= HIGHEST_OPSET[subject]]
        variants = [
            Variant(setting.opset, setting.dynamic, setting.batch, str(folder / f"{subject.name}-{number}.onnx"))
            for number, setting in enumerate(possible)
        ]
        outcome = children.run(ExportJob(subject, name, variants), folder)
        reasons = outcome.failures if isinstance(outcome, Exported) else [str(outcome)] * len(variants)
        for setting, variant, reason in zip(possible, variants, reasons, strict=True):
            if reason:
                failures[setting].append(f"{subject}: {reason}")
            else:
                paths[setting][subject] = variant.path
    for setting in settings:
        if Contender.OURS not in paths[setting] or len(paths[setting]) == 1:
            yield setting, "; ".join(failures[setting]) or "no other exporter has this opset"
            continue
        match children.run(LatencyJob(name, paths[setting], sessions, rounds, setting.batch), folder):
            case Latency() as latency:
                yield setting, latency
            case Failure(reason):
                yield setting, reason


@app.command()
def main(
    models: Annotated[str, typer.Option(help="A regular expression for their names. Default: all.")] = "",
    opsets: Annotated[str, typer.Option(help="Comma-separated.")] = "18,23",
    batches: Annotated[str, typer.Option(help="Comma-separated.")] = "1,8",
    dynamic: Annotated[bool, typer.Option(help="Export with a dynamic batch.")] = False,
    sessions: Annotated[int, typer.Option(min=1, help="The number of sessions for each file.")] = 6,
    rounds: Annotated[int, typer.Option(min=1, help="How often each session runs.")] = 10,
    kept: KeepOption = None,
) -> None:
    """Compare the speed of exported files in onnxruntime on one thread. Exits with 1 if ours is slower anywhere.

    The files of all exporters take turns in one process, after each has been checked against the model's own output.
    A ratio is the median over the sessions; slower means more than 1.02 times the better peer's time. Below, it
    says which operators onnxruntime's optimiser made of each file.

    Examples:

    python -m benchmarks.latency --models 'resnet50|bert' --opsets 18 --batches 1

    python -m benchmarks.latency --kept latency.jsonl
    """
    names = search("--models", models, NAMES)
    settings = [
        Setting(int(opset), int(batch), dynamic=dynamic) for opset in opsets.split(",") for batch in batches.split(",")
    ]
    store: Kept[Latency | str] = Kept(kept, Latency | str)
    for name in track(names, "models", console=Console(stderr=True), transient=True):
        if lacking := [setting for setting in settings if f"{name}, {setting}" not in store]:
            with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
                for setting, outcome in measured(name, lacking, sessions, rounds, Path(folder)):
                    store.add(f"{name}, {setting}", outcome)
    found = {(name, setting): store[f"{name}, {setting}"] for name in names for setting in settings}
    measurements = {key: outcome for key, outcome in found.items() if isinstance(outcome, Latency)}
    console = Console(width=140)
    console.print(latencies(measurements))
    for line in fusions(measurements):
        console.print(line, markup=False, highlight=False)
    for (name, setting), outcome in found.items():
        reasons = list(outcome.wrong.values()) if isinstance(outcome, Latency) else [outcome]
        for reason in reasons:
            console.print(f"{name}, {setting}: {reason}", markup=False, highlight=False)
    slower = sum(is_slower(latency) for latency in measurements.values())
    console.print(f"{len(measurements)} measured; ours is slower than the better peer's file in {slower}")
    raise typer.Exit(1 if slower else 0)


if __name__ == "__main__":
    app()

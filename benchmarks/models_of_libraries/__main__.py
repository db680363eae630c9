"""Models of libraries exported beside torch.onnx: which are right, and how long it takes.

    pip install kornia torch-geometric segmentation-models-pytorch
    python -m benchmarks.models_of_libraries

The models are those of `model_zoo/libraries`, of the libraries that are installed.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import geometric_mean
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from benchmarks.children import RestartedWorker
from benchmarks.models_of_libraries.worker import Asked, Fate, Figures
from benchmarks.options import KeepOption, Kept, search
from onnx_parity.harness.axes import PARITY, TORCH_DYNAMO, TORCH_SCRIPT, Shapes
from onnx_parity.harness.running.child_process import ProcessEndedError

#: The shares of the models that have to be exported right, of those that PyTorch runs.
TARGETS = {Shapes.STATIC: 0.98, Shapes.DYNAMIC: 0.95}
#: How many times as long the TorchScript exporter has to take for dynamic axes, as a geometric mean.
DYNAMIC_TARGET = 3.0
#: What is exported unless something else is asked for: models of each kind that take seconds.
FEW = (
    r"kornia\[(gaussian_blur|rgb_to_lab|warp)|segmentation_models_pytorch\[(unet|fpn)\]|vit_pytorch\[(vit|cct)\]"
    r"|torch_geometric\[(gcn|gat)|monai\[unet|x_transformers\[decoder|nflows\[|rtdl_revisiting_models\["
    r"|neuralforecast\[nhits|stable_baselines3\[ppo|julius\["
)

app = typer.Typer(add_completion=False)


def _figures(worker: RestartedWorker, asked: Asked) -> list[Figures]:
    try:
        found: list[Figures] = worker.answer(asked, list[Figures])
    except ProcessEndedError as ending:
        return [
            Figures(asked.model, shapes, exporter, Fate.CRASHED, str(ending))
            for shapes in Shapes
            for exporter in asked.exporters
        ]
    return found


def _measured(
    names: Sequence[str], exporters: Sequence[str], worker: RestartedWorker, kept: Kept[list[Figures]]
) -> Iterator[Figures]:
    key = ", ".join(exporters)
    for name in track(names, "models", console=Console(stderr=True), transient=True):
        if f"{name}: {key}" not in kept:
            kept.add(f"{name}: {key}", _figures(worker, Asked(name, exporters)))
        yield from kept[f"{name}: {key}"]


def ratios(found: Iterable[Figures], shapes: str, peer: str) -> dict[str, float]:
    """How many times as long a peer takes, by the models that it exports too, right or wrong."""
    seconds: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for each in found:
        if each.shapes == shapes and each.seconds is not None:
            seconds[each.model][each.exporter] = each.seconds
    return {
        model: of_them[peer] / of_them[PARITY] for model, of_them in seconds.items() if {peer, PARITY} <= of_them.keys()
    }


def right_of(found: Iterable[Figures], shapes: str, exporter: str) -> tuple[int, int]:
    """How many models are exported right, and how many PyTorch runs."""
    fates = Counter(each.fate for each in found if (each.shapes, each.exporter) == (shapes, exporter))
    return fates[Fate.RIGHT], fates.total() - fates[Fate.NOT_RUN]


def table(found: Sequence[Figures], exporters: Sequence[str]) -> Table:
    """A row for each model and kind of axes: the seconds and nodes of what is right, or what became of it."""
    shown = Table("model", "axes", *exporters, title="seconds and nodes of models that are right")
    rows: defaultdict[tuple[str, str], dict[str, Text]] = defaultdict(dict)
    for each in found:
        cell = f"{each.seconds:.3f} s, {each.nodes:,}" if each.seconds is not None else ""
        is_right = each.fate is Fate.RIGHT
        rows[each.model, each.shapes][each.exporter] = Text(cell) if is_right else Text(f"{each.fate} {cell}", "red")
    for (model, shapes), cells in rows.items():
        shown.add_row(model, shapes, *(cells.get(exporter, "") for exporter in exporters))
    return shown


def _judge(found: Sequence[Figures], exporters: Sequence[str], console: Console) -> bool:
    """Print the shares and ratios, and what is not exported; return whether the targets are reached."""
    kept = True
    for shapes, target in TARGETS.items():
        shares = {exporter: right_of(found, shapes, exporter) for exporter in exporters}
        right, number = shares[PARITY]
        kept &= 0 < target * number <= right
        texts = ", ".join(f"{exporter} {right} of {number}" for exporter, (right, number) in shares.items())
        console.print(f"{shapes}, exported and right: {texts}; at least {target:.0%}")
        for peer in exporters[1:]:
            of_them = ratios(found, shapes, peer)
            slower = ", ".join(f"{model} {ratio:.2f}x" for model, ratio in of_them.items() if ratio < 1) or "none"
            mean = geometric_mean(of_them.values()) if of_them else math.nan
            if shapes is Shapes.DYNAMIC and peer == TORCH_SCRIPT:
                kept &= mean >= DYNAMIC_TARGET and slower == "none"
            console.print(
                f"{shapes}, {peer} takes {mean:.2f}x as long over {len(of_them)} models; quicker in: {slower}"
            )
    reasons: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in found:
        if each.exporter == PARITY and each.fate is not Fate.RIGHT:
            reasons[each.fate, each.reason].append(f"{each.model} ({each.shapes})")
    for (fate, reason), models in reasons.items():
        console.print(f"{fate}: {', '.join(models)}: {reason}")
    return kept


@app.command()
def main(
    only: Annotated[str, typer.Option(help="A regular expression for names such as `kornia[canny]`.")] = FEW,
    every: Annotated[int, typer.Option(help="Of these, take each so-manieth.", min=1)] = 1,
    peers: Annotated[
        str, typer.Option(help=f"{TORCH_SCRIPT}, {TORCH_DYNAMO}, both with a comma between, or nothing.")
    ] = TORCH_SCRIPT,
    timeout: Annotated[float, typer.Option(help="Seconds that a model may take, all exports together.")] = 400.0,
    kept: KeepOption = None,
) -> None:
    """Export models of libraries with static and with dynamic axes, and judge and time them beside torch.onnx's.

    Exits with 1 if a share of right models, or the ratio to the TorchScript exporter with dynamic axes, is too small.
    A time is of the quickest of several exports in one process, in which the exporters take turns. A model is right if
    onnxruntime gives PyTorch's results for the example, for other values and, if it is dynamic, at other sizes.

    Examples:

    python -m benchmarks.models_of_libraries --only kornia

    python -m benchmarks.models_of_libraries --only . --peers torch_script,torch_dynamo --kept models.jsonl
    """
    exporters = (PARITY, *filter(None, peers.split(",")))
    if not {TORCH_SCRIPT, TORCH_DYNAMO}.issuperset(exporters[1:]):
        raise typer.BadParameter(f"there are {TORCH_SCRIPT} and {TORCH_DYNAMO}", param_hint="--peers")
    worker = RestartedWorker("benchmarks.models_of_libraries.worker", timeout)
    try:
        known = worker.names()
        if not known:
            raise typer.BadParameter("no library of model_zoo/libraries is installed here")
        names = search("--only", only, known)[::every]
        found = list(_measured(names, exporters, worker, Kept(kept, list[Figures])))
    finally:
        worker.end()
    console = Console(width=150, highlight=False, markup=False)
    console.print(table(found, exporters))
    raise typer.Exit(0 if _judge(found, exporters, console) else 1)


if __name__ == "__main__":
    app()

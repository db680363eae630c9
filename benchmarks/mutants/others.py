"""Plants faults in onnxruntime and in a transformation, and counts which of them the matrix and a search find.

    python -m benchmarks.mutants.others --search 60

Each fault makes one operator slightly wrong at one size. It is planted in a process of its own, in which some cells are
run, and in another one that searches. All seconds are those of the processor.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
import torch
import typer
from rich.console import Console
from rich.progress import Progress

from benchmarks.mutants import faulty_model
from benchmarks.mutants.fate import CELL_SECONDS, SILENT, limited, spread
from benchmarks.mutants.faulty_model import Fault, with_fault
from benchmarks.options import choose
from onnx_parity.harness.axes import ONNXRUNTIME, Device, Selection, Tier
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.project import find_project
from onnx_parity.harness.record import Blame, Status
from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.search.messages import Order
from onnx_parity.harness.search.searcher import Searcher
from onnx_parity.harness.subjects.delivered import proto_of
from onnx_parity.harness.subjects.runtimes import OnnxRuntime

#: The operators that are wrong, and the declarations whose cells are run.
OPERATORS = {
    "Add": "arithmetic/add", "Mul": "arithmetic/mul", "Div": "arithmetic/true_divide", "Neg": "arithmetic/neg",
    "Relu": "activation/relu", "Sigmoid": "activation/sigmoid", "Softmax": "activation/softmax",
    "Elu": "activation/elu",
    "ReduceSum": "reduction/sum_", "ReduceMean": "reduction/mean", "Where": "comparison/where*", "CumSum": "running/*",
    "Concat": "joining/cat*", "Transpose": "shape/*", "MatMul": "linear/*", "Gather": "indexing/*",
}  # fmt: skip
SIZES = (2, 3)
TRANSFORMATION = "benchmarks.mutants.faulty_model:transform"
#: The shares that must be noticed by cells, blamed rightly, and found by a search.
NOTICED, BLAMED, SEARCHED = 0.97, 0.97, 0.85


class FaultResult(msgspec.Struct):
    """What became of one fault: the seconds after which cells and a search found it, and who was blamed."""

    fault: str
    noticed: float | None = None
    blame: str = ""
    searched: float | None = None


def _plant_in_runtime(fault: Fault) -> None:
    load = OnnxRuntime.load

    def faulty(self: OnnxRuntime, model: bytes | Path, device: Device) -> object:
        return load(self, with_fault(proto_of(model), fault).SerializeToString(), device)

    OnnxRuntime.load = faulty  # type: ignore[method-assign, assignment]


def _plant_in_transformation(fault: Fault) -> None:
    faulty_model.planted = fault


@dataclass(frozen=True, slots=True)
class Way:
    """Where faults are planted: who is to be blamed, whom a search names, and what is done to the models of cells."""

    place: str
    plant: Callable[[Fault], None]
    blame: Blame
    culprit: str
    transforms: tuple[str, ...] = ()


WAYS = (
    Way(ONNXRUNTIME, _plant_in_runtime, Blame.RUNTIME, ONNXRUNTIME),
    Way("a transformation", _plant_in_transformation, Blame.TRANSFORMATION, TRANSFORMATION, (TRANSFORMATION,)),
)


def _in_copy(serve: Callable[[], object], aside: Path) -> bytes:
    """What a function returns in a copy of this process."""

    def served(channel: Channel) -> None:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        channel.send(msgspec.json.encode(serve()))

    child = ChildProcess.forked(served, aside)
    try:
        return child.answer(SILENT)
    finally:
        child.kill()


def _noticed(cells: Sequence[Cell]) -> tuple[float, str] | None:
    """After how many seconds a cell fails, and whom it blames."""
    bench, start = Bench(0), time.process_time()
    for cell in cells:
        with limited(CELL_SECONDS):
            outcome = bench.run(cell)
        if outcome.status is Status.FAILED:
            return time.process_time() - start, outcome.blame or ""
    return None


def _searcher(probe: str) -> Searcher:
    """One for all faults: it knows the declarations, and has exported nothing."""
    declarations = tuple(str(place) for place in find_project(Path.cwd()).declarations)
    return Searcher(Order(0, declarations, (probe,), (), (13, 18, 21), {}), reduces=False)


def _searched(searcher: Searcher, culprit: str, seconds: float) -> float | None:
    """After how many seconds a search finds a fault of this culprit."""
    number, lasted = 0, 0.0
    while lasted < seconds:
        with limited(CELL_SECONDS):
            report = searcher.look_at(number)
        lasted += report.seconds
        if any(found.culprit == culprit for found in report.found):
            return lasted
        number += 1
    return None


def _cells(pattern: str) -> list[Cell]:
    """The cells of the default tier of these declarations, of every case in turn."""
    found: list[Cell] = []
    selection = Selection(tier=Tier.DEFAULT, devices=(Device.CPU,), runtimes=(ONNXRUNTIME,))
    for place in find_project(Path.cwd()).declarations:
        for file in sorted(place.glob(f"{pattern.partition('/')[0]}.py")):
            for name, declaration in declared_under(file):
                if fnmatchcase(f"{file.stem}/{name}", pattern):
                    found += cells_of(name, declaration, selection)
    return spread(found)


def main(
    search: Annotated[float, typer.Option(min=0, help="Also search for each fault, for so many seconds.")] = 0,
    most: Annotated[int, typer.Option(min=1, help="Cells that are run for one fault.")] = 100,
    operators: Annotated[
        list[str] | None, typer.Option("--operator", help=f"Of {', '.join(OPERATORS)}. Default: all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every fault, as JSON.")] = False,
) -> None:
    """Plant faults in onnxruntime and in a transformation, and count which of them are found.

    Exit codes: 0 all targets are met; 1 one is not; 2 used wrongly.
    """
    terminal = Console(stderr=True)
    met, chosen = True, choose("--operator", operators, OPERATORS)
    with Progress(console=terminal, transient=True) as progress, tempfile.TemporaryDirectory() as folder:
        aside = Path(folder) / "stderr"
        task = progress.add_task("faults", total=len(WAYS) * len(chosen) * len(SIZES))
        for way in WAYS:
            outcomes, searcher = [], _searcher(way.culprit) if search else None
            for operator in chosen:
                cells = [replace(cell, transforms=way.transforms) for cell in _cells(OPERATORS[operator])[:most]]
                for size in SIZES:
                    outcomes.append(_outcome(way, Fault(operator, size), cells, searcher, search, aside))
                    progress.advance(task)
            met = _print(outcomes, way, Console(stderr=as_json), searching=search > 0) and met
            if as_json:
                typer.echo(msgspec.json.encode(outcomes))
    raise typer.Exit(0 if met else 1)


def _outcome(
    way: Way, fault: Fault, cells: Sequence[Cell], searcher: Searcher | None, search: float, aside: Path
) -> FaultResult:
    def in_cells() -> object:
        way.plant(fault)
        return _noticed(cells)

    outcome = FaultResult(f"{way.place}: {fault}")
    noticed = msgspec.json.decode(_in_copy(in_cells, aside), type=tuple[float, str] | None)
    if noticed is not None:
        outcome.noticed, outcome.blame = noticed
    if searcher is not None:
        search_with = searcher

        def in_search() -> object:
            way.plant(fault)
            return _searched(search_with, way.culprit, search)

        outcome.searched = msgspec.json.decode(_in_copy(in_search, aside))
    return outcome


def _print(outcomes: Sequence[FaultResult], way: Way, terminal: Console, *, searching: bool) -> bool:
    for each in outcomes:
        if each.noticed is None or each.blame != way.blame or (searching and each.searched is None):
            told = f"blamed on {each.blame}" if each.noticed is not None else "not noticed by cells"
            if searching:
                found = "not found" if each.searched is None else f"found after {each.searched:.0f} s"
                told += f", {found} by search"
            terminal.print(f"{each.fault}: {told}", markup=False, highlight=False, soft_wrap=True)
    noticed = [each for each in outcomes if each.noticed is not None]
    figures = [
        ("noticed by cells", len(noticed), len(outcomes), NOTICED),
        (f"blamed on the {way.blame}", sum(each.blame == way.blame for each in noticed), len(noticed), BLAMED),
    ]
    if searching:
        searched = sum(each.searched is not None for each in outcomes)
        figures.append(("found by search alone", searched, len(outcomes), SEARCHED))
    terminal.print(f"{len(outcomes)} faults of {way.place}", highlight=False)
    met = [_met(terminal, *figure) for figure in figures]
    return all(met)


def _met(terminal: Console, what: str, number: int, of: int, least: float) -> bool:
    """Print a share, and whether it is at least what it must be. A share of nothing is not."""
    met = of > 0 and number >= least * of
    told = f"{number / max(of, 1):6.1%} {what} ({number} of {of}; at least {least:.0%})"
    terminal.print(f"{'ok   ' if met else 'short'}  {told}", highlight=False)
    return met


if __name__ == "__main__":
    typer.run(main)

"""Makes a run of any number of cells, of the shape of a run of the full tier, to measure what reads runs.

python -m benchmarks.at_scale.made_run FOLDER --cells 1000000
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count, islice, product
from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.record import (
    EXACT_HEADROOM,
    SCHEMA_VERSION,
    Blame,
    Kind,
    Metrics,
    OnnxUse,
    Record,
    RunEnd,
    RunInfo,
    Stage,
    Status,
)
from onnx_parity.harness.results.public_names import names_for
from onnx_parity.harness.store import RecordWriter, create_run, read_columns, write_end

_OPSETS = range(7, 27)
_DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
)  # fmt: skip
_SHAPES = ("static", "dynamic")
_OPERATORS = (
    "Add", "Cast", "Clip", "Concat", "Conv", "Div", "Expand", "Gather", "MatMul", "Mul", "Pad", "ReduceSum", "Reshape",
    "ScatterND", "Shape", "Slice", "Sub", "Transpose", "Where",
)  # fmt: skip
_CALLS = ("abs", "add", "cat", "conv2d", "index_select", "matmul", "nn.functional.elu", "nn.functional.pad", "sum")
_CASES_OF_A_DECLARATION = 3


def made_records(cells: int, variation: int = 0, first_case: int = 0) -> Iterator[Record]:
    """Records of `cells` cells. Another `variation` has the same cells with other times, and some other outcomes."""
    return islice((record for number in count(first_case) for record in _case(number, variation)), cells)


def _case(number: int, variation: int) -> Iterator[Record]:
    declaration, attribute = divmod(number, _CASES_OF_A_DECLARATION)
    name = f"made_{declaration}"
    family = f"family_{declaration % 40}"
    draw = random.Random(number)
    times = random.Random(f"{number} {variation}")
    uses = [OnnxUse(op, 1 + draw.randrange(9)) for op in draw.sample(_OPERATORS, draw.randint(1, 5))]
    since = draw.choice((7, 7, 7, 7, 9, 11, 13))
    is_wrong = number % 97 == variation % 97
    for dtype, shapes in product(_DTYPES, _SHAPES):
        metrics = _metrics(draw) if "float" in dtype else _EXACT
        for opset in _OPSETS:
            case = f"{name}[attribute={attribute}]"
            dynamic = "-dynamic" if shapes == "dynamic" else ""
            cell = f"{case}-{dtype}-opset{opset}-cpu-trace-onnxruntime{dynamic}"
            status, stage, reason, blame = _outcome(dtype, opset, since, is_wrong)
            ran = status is not Status.ABSENT
            emitted = ran and status is not Status.UNSUPPORTED
            yield Record(
                cell=cell, case=case, name=name, family=family, kind=Kind.OPERATOR, file=f"op_cases/{family}.py",
                line=10 + declaration // 40, nodeid=f"op_cases/{family}.py::{name}::{cell}", opset=opset, dtype=dtype,
                device="cpu", capture="trace", exporter="parity", runtime="onnxruntime", shapes=shapes, status=status,
                stage=stage, seconds=_seconds(times, stage) if ran else {}, reason=reason,
                message=f"{cell}\n  {reason}" if status is Status.FAILED else "", blame=blame,
                metrics=metrics if emitted else None, aten=(f"aten::{name}",) if ran else (),
                calls=(f"torch.{_CALLS[declaration % len(_CALLS)]}",) if ran else (),
                onnx=tuple(OnnxUse(use.op, max(use.since_version, 13 if opset >= 13 else 1)) for use in uses)
                if emitted else (),
                nodes=len(uses) if emitted else 0, worker=f"gw{number % 2}", began=1.7e9 + times.random() * 5e3,
                elapsed=times.random() / 50, export_cpu=times.random() / 100, memory=700 + number % 50,
                source=f"{declaration:016x}",
            )  # fmt: skip


def _outcome(dtype: str, opset: int, since: int, is_wrong: bool) -> tuple[Status, Stage, str, Blame | None]:
    if dtype == "complex64":
        return Status.ABSENT, Stage.REFERENCE, "torch has no kernel for ComplexFloat", None
    if opset < (13 if dtype == "bfloat16" else since):
        return Status.UNSUPPORTED, Stage.EXPORT, f"ONNX has this only from opset {max(since, 13)} on", None
    if is_wrong and dtype == "float16" and opset < 13:
        return Status.FAILED, Stage.COMPARE, "output 0 at (0, 1): error 4.9e-01", Blame.EXPORTER
    return Status.PASSED, Stage.RERUN_VALUES, "", None


_EXACT = Metrics(0.0, 0.0, 0.0, 0.0, 0.0, EXACT_HEADROOM, 1e-6, 0, (0, 0), 1.0, 1.0)


def _metrics(draw: random.Random) -> Metrics:
    error, expected = 10 ** draw.uniform(-9, -6), draw.uniform(-3, 3)
    ulps = error / 6e-8
    index = (draw.randrange(3), draw.randrange(8))
    relative = error / abs(expected)
    return Metrics(
        error, relative, ulps / 8, ulps / 2, ulps, 1.2e-6 / error, 1.2e-6, 0, index, expected + error, expected
    )


def _seconds(draw: random.Random, last: Stage) -> dict[str, float]:
    stages = list(Stage)
    return {stage.value: draw.uniform(1e-5, 1e-2) for stage in stages[: stages.index(last) + 1]}


def make_run(root: Path, run_id: str, cells: int, variation: int = 0, first_case: int = 0) -> Path:
    """Write a run under `root`, as two workers would."""
    info = RunInfo(
        id=run_id, started="2026-01-31T10:15:00+00:00", seed=0, tier="full",
        packages={"torch": "2.13.0", "onnx": "1.23.2", "onnxruntime": "1.31.1"}, platform="Linux", cpus=2,
        schema_version=SCHEMA_VERSION,
    )  # fmt: skip
    run = create_run(root, info)
    writers = {worker: RecordWriter(run, worker) for worker in ("gw0", "gw1")}
    for record in made_records(cells, variation, first_case):
        writers[record.worker].append(record)
    for writer in writers.values():
        writer.close()
    write_end(run, RunEnd("2026-01-31T11:45:00+00:00", whole=True))
    return run


def prepared_run(run: Path, cells: int, variation: int, first_case: int, has_columns: bool) -> str:
    """Make a run, if it has not been made, with all that commands write when they first read it; without its columns
    if they are to be written by what is measured.
    """
    if not (run / "end.json").exists():
        make_run(run.parent, run.name, cells, variation, first_case)
    if has_columns:
        read_columns(run)
        # The first report of a folder of runs writes them, which imports torch.
        names_for(run)
    return str(run)


def main(
    root: Annotated[Path, typer.Argument(help="The folder under which the run's folder is created.")],
    cells: Annotated[int, typer.Option(min=0, help="The number of its cells.")] = 1_000_000,
    run_id: Annotated[str, typer.Option("--id", help="The name of its folder.")] = "made",
    variation: Annotated[int, typer.Option(help="Another number gives other times and outcomes.")] = 0,
) -> None:
    """Make a run with the records of a run of the full tier, to measure what reads it."""
    typer.echo(make_run(root, run_id, cells, variation))


if __name__ == "__main__":
    typer.run(main)

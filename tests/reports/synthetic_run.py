"""A made-up run with the shape of a real one: operators and models over opsets, with cells of every status.

`python -m tests.reports.synthetic_run FOLDER [CELLS]` writes one, with its report, and prints what that took.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

from msgspec.structs import replace

from onnx_parity.harness.record import Blame, Kind, Metrics, OnnxUse, Record, RunInfo, Stage, Status
from onnx_parity.reports.site import write_report
from tests.records import RECORD, write_run

OPSETS = range(7, 27)

#: A cell that passed, of a case without attributes.
PASSING = replace(
    RECORD,
    cell="elu-float32-opset18-cpu-trace-onnxruntime",
    case="elu",
    nodeid="op_cases/activation.py::elu-float32-opset18-cpu-trace-onnxruntime",
    opset=18,
)


@dataclass(frozen=True)
class Made:
    """An operator or a model as the synthetic run declares it."""

    family: str
    name: str
    onnx: tuple[tuple[str, int], ...]
    variants: tuple[str, ...] = ("",)
    #: The first opset that can say it, and that can say its second half of variants.
    since: int = 7
    since_for_all: int = 7
    kind: Kind = Kind.OPERATOR
    #: What is traced, where that is not the operator of the same name.
    aten: tuple[str, ...] = ()


OPERATORS = (
    Made("activation", "elu", (("Elu", 6),), ("alpha=1.0", "alpha=0.5")),
    Made("activation", "gelu", (("Gelu", 20), ("Erf", 9)), ("approximate=none", "approximate=tanh"), 9),
    Made("activation", "glu", (("Split", 2), ("Sigmoid", 6), ("Mul", 7)), ("dim=-1", "dim=0")),
    Made("activation", "hardtanh", (("Clip", 6),), ("min_val=-1,max_val=1", "min_val=0,max_val=6")),
    Made("activation", "leaky_relu", (("LeakyRelu", 6),), ("negative_slope=0.01", "negative_slope=-0.2")),
    Made("activation", "log_softmax", (("LogSoftmax", 1),), ("dim=1", "dim=-1", "dim=0")),
    Made("activation", "prelu", (("PRelu", 7),), ("weight=1", "weight=3")),
    Made("activation", "relu", (("Relu", 6),)),
    Made("activation", "sigmoid", (("Sigmoid", 6),)),
    Made("activation", "softmax", (("Softmax", 1),), ("dim=1", "dim=-1", "dim=0")),
    Made("activation", "tanh", (("Tanh", 6),)),
    Made("activation", "threshold", (("Greater", 7), ("Where", 9)), ("threshold=0.1,value=20",), 9),
    Made("arithmetic", "add", (("Add", 7),), ("", "alpha=2", "alpha=2,int64", "broadcast")),
    Made("arithmetic", "addmm", (("Gemm", 7),), ("beta=1,alpha=1", "beta=0.5,alpha=2")),
    Made("arithmetic", "div", (("Div", 7),), ("", "rounding_mode=floor", "rounding_mode=trunc"), 7, 10),
    Made("arithmetic", "mm", (("MatMul", 1),)),
    Made("arithmetic", "mul", (("Mul", 7),), ("", "broadcast")),
    Made("arithmetic", "neg", (("Neg", 6),)),
    Made("arithmetic", "pow", (("Pow", 7),), ("exponent=2", "exponent=0.5")),
    Made("arithmetic", "sqrt", (("Sqrt", 6),)),
    Made("arithmetic", "sub", (("Sub", 7),), ("", "alpha=2")),
    Made("arithmetic", "sum", (("ReduceSum", 1),), ("", "dim=1", "dim=(0,2),keepdim=True")),
    Made("convolution", "conv1d", (("Conv", 1),), ("", "stride=2", "groups=2")),
    Made("convolution", "conv2d", (("Conv", 1),), ("", "stride=2", "dilation=2", "padding=same")),
    Made("convolution", "conv_transpose2d", (("ConvTranspose", 1),), ("", "output_padding=1")),
    Made("normalization", "batch_norm", (("BatchNormalization", 7),), ("eval", "train"), 7, 14),
    Made("normalization", "dropout", (("Identity", 1),), ("p=0.5,eval",)),
    Made("pooling", "avg_pool2d", (("AveragePool", 7), ("Pad", 2)), ("", "ceil_mode=True", "count_include_pad=False")),
    Made("pooling", "max_pool2d", (("MaxPool", 8),), ("", "ceil_mode=True", "return_indices=True"), 7, 8),
    Made("pooling", "adaptive_avg_pool2d", (("GlobalAveragePool", 1),), ("output_size=1", "output_size=(3, 5)")),
    Made("shape", "cat", (("Concat", 4),), ("dim=0", "dim=-1")),
    Made("shape", "chunk", (("Split", 2),), ("chunks=3",)),
    Made("shape", "expand", (("Expand", 8),), (), 8),
    Made("shape", "index_put", (("ScatterND", 11),), ("accumulate=False", "accumulate=True"), 11, 16),
    Made("shape", "permute", (("Transpose", 1),)),
    Made("shape", "reshape", (("Reshape", 5),)),
    Made("shape", "slice", (("Slice", 1),), ("x[:, 1:3]", "x[::2]", "x[:, 0] = y"), 7, 10),
    Made("shape", "squeeze", (("Squeeze", 1),), ("", "dim=1")),
    Made("shape", "topk", (("TopK", 1),), ("k=2", "k=10", "largest=False"), 7, 11),
    Made("shape", "view", (("Reshape", 5),), ("«größe»=2×3",)),
)
MODELS = tuple(
    Made(
        family, name, (("Conv", 1), ("Relu", 6), ("Gemm", 7)), ("", "batch"), kind=Kind.MODEL,
        aten=("aten::conv2d", "aten::relu", "aten::addmm"),
    )
    for family, name in (
        ("alexnet", "alexnet"), ("densenet", "densenet121"), ("resnet", "resnet18"), ("resnet", "resnet50"),
        ("vgg", "vgg16"),
    )
) + tuple(
    Made("rnn", name, (("LSTM", 7),), ("", "batch"), kind=Kind.MODEL, aten=("aten::lstm",))
    for name in ("lstm", "lstm_bidirectional")
)  # fmt: skip


def info(run_id: str = "20260131-101500") -> RunInfo:
    return RunInfo(
        id=run_id,
        started="2026-01-31T10:15:00Z",
        seed=20260131,
        tier="default",
        argv=("pytest", "-n", "auto", "--tier", "default"),
        packages={
            "python": "3.11.9", "torch": "2.13.0", "torchvision": "0.28.0", "onnx": "1.23.2",
            "onnxruntime": "1.31.1", "onnx_ir": "1.1.0", "numpy": "2.4.6",
        },
        platform="Linux x86_64",
        cpus=2,
        commit="3f9c2ab",
        missing={"cuda": "no CUDA device"},
    )  # fmt: skip


def records(
    made: Iterable[Made] = (*OPERATORS, *MODELS),
    dtypes: tuple[str, ...] = ("float32",),
    opsets: Iterable[int] = OPSETS,
) -> Iterator[Record]:
    """Every cell of `made`, on cpu and on the cuda that is not there. The same ones each time."""
    for one in made:
        for number, variant in enumerate(one.variants or ("",)):
            for dtype, device, opset in product(dtypes, ("cpu", "cuda"), opsets):
                yield _record(one, variant, number, dtype, device, opset)


def make_records(count: int) -> Iterator[Record]:
    """The first `count` cells, by as many dtypes as that takes."""
    in_one_dtype = sum(1 for _ in records())
    needed = -(-count // in_one_dtype)
    return islice(records(dtypes=tuple(f"float{32 + n}" for n in range(needed))), count)


def _record(made: Made, variant: str, number: int, dtype: str, device: str, opset: int) -> Record:
    case = f"{made.name}[{variant}]" if variant else made.name
    cell = f"{case}-{dtype}-opset{opset}-{device}-trace-onnxruntime"
    draw = random.Random(cell)
    status, stage, reason, blame = _outcome(made, variant, number, device, opset)
    folder = "op_cases" if made.kind is Kind.OPERATOR else "model_zoo"
    file = f"{folder}/{made.family}.py"
    absent = status is Status.ABSENT
    metrics = _metrics(draw, status, made.name) if stage is Stage.COMPARE or status is Status.PASSED else None
    return Record(
        cell=cell,
        case=case,
        name=made.name,
        family=made.family,
        kind=made.kind,
        file=file,
        line=10 + 3 * len(made.name),
        nodeid=f"{file}::{cell}",
        opset=opset,
        dtype=dtype,
        device=device,
        capture="trace",
        exporter="parity",
        runtime="onnxruntime",
        shapes="dynamic" if variant == "batch" else "static",
        status=status,
        stage=stage,
        seconds={} if absent else _seconds(draw, stage, made.kind),
        reason=reason,
        link="https://github.com/microsoft/onnxruntime/issues/0000" if status is Status.KNOWN else "",
        message=_message(cell, status, stage, reason, blame, file),
        blame=blame,
        metrics=metrics,
        aten=() if absent else made.aten or (f"aten::{made.name}",),
        onnx=() if absent or status is Status.UNSUPPORTED else _uses(made, opset),
        nodes=0 if absent or status is Status.UNSUPPORTED else len(made.onnx),
        worker=f"gw{draw.randrange(2)}",
    )


def _outcome(made: Made, variant: str, number: int, device: str, opset: int) -> tuple[Status, Stage, str, Blame | None]:
    if device == "cuda":
        return Status.ABSENT, Stage.BUILD, "no CUDA device", None
    since = made.since_for_all if number >= len(made.variants) / 2 else made.since
    if opset < since:
        why = f"ONNX cannot say aten::{made.name} ({variant or 'as called'}) before opset {since}"
        return Status.UNSUPPORTED, Stage.EXPORT, why, None
    match made.name, variant:
        case "avg_pool2d", "ceil_mode=True" if opset < 10:
            why = "output 0 at (0, 1, 3, 3): runtime 0.7500, torch 1.0000; error 2.5e-01, tolerance 1.2e-06"
            return Status.FAILED, Stage.COMPARE, why, Blame.EXPORTER
        case "topk", "k=2" if opset < 10:
            return Status.KNOWN, Stage.LOAD, "CPU kernel takes k as an attribute only before opset 10", Blame.RUNTIME
        case "conv_transpose2d", "output_padding=1" if opset == 22:
            return Status.CRASHED, Stage.RUN, "killed by SIGSEGV (11) in ConvTranspose", Blame.RUNTIME
        case "batch_norm", "train" if opset == 15:
            return Status.UNEXPECTED_PASS, Stage.RERUN_VALUES, "expected to fail at compare: training mode", None
    return Status.PASSED, Stage.RERUN_VALUES, "", None


def _metrics(draw: random.Random, status: Status, name: str) -> Metrics:
    if status is Status.FAILED:
        return Metrics(0.25, 0.25, 0.5, 2.1e6, 2.1e6, 4.8e-6, 1.2e-6, 0, (0, 1, 3, 3), 0.75, 1.0)
    if name in ("relu", "cat", "permute", "reshape", "view", "slice", "squeeze", "neg", "expand"):
        return Metrics(0.0, 0.0, 0.0, 0.0, 0.0, 1e9, 1.2e-6, 0, (0, 0), 1.5, 1.5)
    error = 10 ** draw.uniform(-8.5, -6.2)
    expected = draw.uniform(-3, 3)
    ulp_max = error / 6e-8
    return Metrics(
        error, error / abs(expected), ulp_max / 8, ulp_max / 2, ulp_max, 1.2e-6 / error, 1.2e-6,
        0, (0, draw.randrange(3), draw.randrange(8)), expected + error, expected,
    )  # fmt: skip


def _seconds(draw: random.Random, last: Stage, kind: Kind) -> dict[str, float]:
    scale = 3e-4 if kind is Kind.OPERATOR else 3e-2
    stages = list(Stage)
    return {stage.value: scale * draw.uniform(0.2, 3) for stage in stages[: stages.index(last) + 1]}


def _message(cell: str, status: Status, stage: Stage, reason: str, blame: Blame | None, file: str) -> str:
    if status in (Status.PASSED, Status.ABSENT):
        return ""
    return (
        f"{cell}        {stage} ✗  {blame or ''}\n  {reason}\n"
        f"  first divergence: {file}:41; onnx.reference agrees with onnxruntime, so the graph is wrong\n"
        f'  again:  pytest "{file}::{cell}"'
    )


def _uses(made: Made, opset: int) -> tuple[OnnxUse, ...]:
    """With versions that move at 11 and 13, as many operators' do."""
    moved = max((version for version in (11, 13) if version <= opset), default=0)
    return tuple(OnnxUse(op, max(since, moved)) for op, since in made.onnx)


def main() -> None:
    root, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    run = write_run(root, make_records(count) if count else records(), info())
    began = time.perf_counter()
    index = write_report(run, run / "report")
    took = time.perf_counter() - began
    pages = sorted(page.stat().st_size for page in index.parent.rglob("*.html"))
    print(index)
    print(f"{len(pages)} pages, {sum(pages) / 1e6:.1f} MB in {took:.2f} s; index {index.stat().st_size / 1e3:.0f} kB, "
          f"largest {pages[-1] / 1e3:.0f} kB, median {pages[len(pages) // 2] / 1e3:.0f} kB")  # fmt: skip


if __name__ == "__main__":
    main()

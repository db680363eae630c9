"""What is measured along each axis, from small to large, and how what it takes may grow."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import nn

import onnx_parity
from benchmarks.at_scale.made_run import prepared_run
from benchmarks.child import memory, settled_memory
from benchmarks.number_of_nodes.programs import KINDS
from benchmarks.without_data import write_empty_files
from onnx_parity.harness.results.causes import causes_of
from onnx_parity.harness.store import read_records

__all__ = ["AXES", "Axis", "Taken", "measured"]

#: The steps of a loop have two nodes each.
_NODES_OF_A_STEP = 2
#: A model has so many weights, however large they are.
_WEIGHTS = 100
_PARITY = (sys.executable, "-m", "onnx_parity", "run", "--no-report", "--tier", "smoke", "--devices", "cpu")


@dataclass(frozen=True)
class Taken:
    """What one measurement took: seconds of processor time, and bytes of memory beyond what was there before."""

    seconds: float
    memory: int


@dataclass(frozen=True)
class Axis:
    name: str
    #: What is done at each size.
    what: str
    sizes: tuple[int, ...]
    #: Sizes that take minutes, or more of the machine than it may have.
    large: tuple[int, ...]
    #: Makes what a size needs in a folder, and returns what is measured.
    prepare: Callable[[int, Path], Callable[[], object]]
    #: Whether cost stays the same or, if not, grows with the size at most.
    is_constant: bool = False


def _exports(kind: str, parts_of: Callable[[int], int]) -> Callable[[int, Path], Callable[[], object]]:
    def prepare(size: int, folder: Path) -> Callable[[], object]:
        program = KINDS[kind](parts_of(size))
        names = [f"x{place}" for place in range(len(program.args))]
        return lambda: onnx_parity.export(program.function, program.args, folder / "model.onnx", input_names=names)

    return prepare


def _sparse_weights(size: int, folder: Path) -> Callable[[], object]:
    width = max(int((size / _WEIGHTS / 4) ** 0.5), 1)
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(_WEIGHTS))).eval()
    files = write_empty_files(model.state_dict(), folder)
    kept = onnx_parity.ExternalData(safetensors=files)
    return lambda: onnx_parity.export(model, (torch.ones(2, width),), folder / "model.onnx", external_data=kept)


def _records(size: int, folder: Path) -> Callable[[], object]:
    # With what the first command that reads a run writes, as `benchmarks.at_scale` has it.
    run = Path(prepared_run(folder / "made", size, variation=0, first_case=0, has_columns=True))
    return lambda: causes_of(read_records(run))


def _workers(size: int, folder: Path) -> Callable[[], object]:
    command = [*_PARITY, "-n", str(size), "--runs", str(folder), "op_cases/comparison.py"]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


AXES = (
    Axis("nodes", "export of a loop", (10, 100, 1_000, 10_000), (100_000, 1_000_000),
         _exports("steps of a loop", lambda size: max(size // _NODES_OF_A_STEP, 1))),
    Axis("inputs", "export of their sum", (1, 10, 100, 1_000), (10_000,), _exports("inputs", lambda size: size)),
    Axis("bytes of weights", f"export of {_WEIGHTS} weights in sparse files",
         (10**6, 10**8, 10**10, 10**11), (), _sparse_weights, is_constant=True),
    Axis("records", "causes of what failed in a run", (10, 1_000, 10_000, 100_000), (1_000_000, 10_000_000), _records),
    Axis("workers", "processor time of the smoke tier of a file", (1, 2), (4, 8, 16, 32, 64), _workers),
)  # fmt: skip


def measured(axis: Axis, size: int) -> Taken:
    """Measure one size in a process of its own, which is forked when all is imported."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder, get_context("fork").Pool(1) as others:
        return others.apply(_measure, (AXES.index(axis), size, folder))


def _measure(axis: int, size: int, folder: str) -> Taken:
    warnings.simplefilter("ignore")
    action = AXES[axis].prepare(size, Path(folder))
    before, began = settled_memory(), _processor_seconds()
    action()
    seconds = _processor_seconds() - began
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    return Taken(seconds, max(memory("VmHWM") - before, of_children))


def _processor_seconds() -> float:
    """Of this process and of those that it has started and that have ended."""
    return sum(os.times()[:4])

"""Random edits of the exporter, of what judges, of declarations and of versions: no outcome that changes is used again.

An edit of code is a fault, as `benchmarks.mutants` plants them: in a process of its own, whose hashes are those of a
process with the edited file.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import onnx_parity.exporter
from benchmarks.mutants.codes import Functions, functions_below
from benchmarks.mutants.fate import limited
from benchmarks.mutants.sites import Mutant, mutants_of, plant
from onnx_parity.exporter.recording.fakes import result_cache
from onnx_parity.harness.axes import Shapes
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Record, Status
from onnx_parity.harness.results.content import room_folder
from onnx_parity.harness.reuse import reuse as module
from onnx_parity.harness.reuse.hashes import Grounds
from onnx_parity.harness.reuse.reuse import Reuse
from onnx_parity.harness.reuse.store import Store
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.store import read_records
from onnx_parity.harness.subjects.runtimes import RUNTIMES
from tests.harness.fakes import LyingRuntime, cell
from tests.harness.faults import LEAN, run_project
from tests.records import RECORD

#: How many edits the long test makes, and the short one.
MANY, FEW = 300, 2
_SECONDS = 20
_ROOT = room_folder("exporter").parent
#: Where edits are made, each as often: what exports, and what runs and judges a model.
_ROOMS = (
    ("exporter/operators/",),
    ("exporter/operators/activation/", "exporter/operators/pooling/", "exporter/operators/normalization/"),
    ("exporter/lowering/", "exporter/rewrites/", "exporter/files/"),
    ("exporter/recording/", "exporter/tracing/", "exporter/registry/", "exporter/graph/", "exporter/sizes/"),
    ("exporter/verification/", "exporter/arrays.py", "exporter/runtime/", "exporter/fallback/"),
    ("harness/judging/", "harness/running/stages.py", "harness/subjects/", "harness/transformations/"),
)
_DECLARED = {
    "elu": op(F.elu, floats(2, 3), alpha=0.5, dynamic={"x": {0: "batch"}}),
    "pool": op(F.max_pool2d, floats(1, 2, 6, 6), kernel_size=2, ceil_mode=True, without_nan="the kernel leaves it out"),
    "norm": op(F.layer_norm, floats(2, 3, 4), normalized_shape=(4,)),
    "odd": op(F.glu, floats(2, 3)),
    "conv": op(F.conv1d, floats(1, 2, 6), weight=floats(3, 2, 3), padding=1),
    "sorted": op(lambda x: x.sort(dim=1).values, floats(2, 5)),
    "sum": op(lambda x: torch.logsumexp(x * 3, 1), floats(2, 5)),
}


def _cells() -> list[Cell]:
    found = [(name, cell(declaration, opset=opset)) for name, declaration in _DECLARED.items() for opset in (9, 18)]
    found.append(("elu", cell(_DECLARED["elu"], shapes=Shapes.DYNAMIC)))
    found.append(("elu", cell(_DECLARED["elu"], runtime="onnx.reference")))
    return [replace(it, case=next(it.case.declaration.cases(name))) for name, it in found]


def _left(cells: Iterable[Cell], *, lies: bool, reuse: Reuse | None = None) -> Iterator[tuple[Cell, Record]]:
    """What the stages leave of cells. In a runtime that lies, they fail, and who is to blame is found out."""
    liars = {name: LyingRuntime(lambda output: output + np.float32(0.25), name) for name in RUNTIMES} if lies else {}
    bench = Bench(0, runtimes={**RUNTIMES, **liars}, reuse=reuse)
    for it in cells:
        outcome = bench.run(it)
        left = outcome.onto(msgspec.structs.replace(RECORD, cell=it.id, line=it.case.declaration.line))
        if reuse is not None:
            reuse.settle(outcome, left, (), partial(_nothing_else, left))
        yield it, left


def _nothing_else(left: Record) -> Record:
    return left


@cache
def _code() -> Mapping[str, str]:
    return Grounds(0).code


def _reuse(folder: Path, edit: Mutant | None = None, *, lies: bool = False) -> Reuse:
    grounds = Grounds(int(lies))  # The seed keeps those of the runtime that lies apart, whose code is this file.
    vars(grounds)["code"] = {**_code(), **({edit.file: str(edit)} if edit is not None else {})}
    return Reuse(Store(folder), grounds, "first", folder, 1e9)


class _Seen(msgspec.Struct):
    """How many cells ended otherwise after an edit, how many were reused, of how many nothing was run, and which of
    these should have been run."""

    changed: int
    reused: int
    known: int
    wrong: list[str]


def _see(mutant: Mutant, functions: Functions, folder: Path, before: dict[tuple[str, bool], Record]) -> _Seen:
    plant(mutant, _ROOT / mutant.file, functions)
    result_cache._static_results.clear()  # Which a process with the edited file would not have.
    seen = _Seen(0, 0, 0, [])
    for lies in (False, True):
        reuse, cells = _reuse(folder, mutant, lies=lies), _cells()
        known = {it.id: kept for it in cells if (kept := reuse.before_export(it)) is not None}
        for (it, truth), (_, used) in zip(_left(cells, lies=lies), _left(cells, lies=lies, reuse=reuse), strict=True):
            if it.id in known:
                used = msgspec.structs.replace(known[it.id].record, reused="first")
            seen.changed += module._differ(before[it.id, lies], truth)
            seen.reused += bool(used.reused)
            seen.known += it.id in known
            if used.reused and module._differ(truth, used):
                seen.wrong.append(f"{it.id}: {mutant}: {truth.status} {truth.reason} and not {used.reason}")
    return seen


def _in_fork(see: Callable[[], _Seen]) -> _Seen | None:
    """What is seen in a process of its own; None if the fault ends it, or cannot be planted."""
    ours, theirs = get_context("fork").Pipe(duplex=False)

    def send(to: Connection) -> None:
        with limited(_SECONDS):
            to.send_bytes(msgspec.json.encode(see()))

    process = get_context("fork").Process(target=send, args=(theirs,))
    process.start()
    theirs.close()
    try:
        return msgspec.json.decode(ours.recv_bytes(), type=_Seen)
    except EOFError:
        return None
    finally:
        process.join()


def _draw(number: int, seed: int, functions: Functions) -> Iterator[Mutant]:
    """Faults of functions that this process has, since the cells may have called them."""
    rng, turns = random.Random(seed), itertools.cycle(_ROOMS)
    while number:
        name = rng.choice([each for each in _code() if each.startswith(next(turns))])
        found = mutants_of(_ROOT / name, name)
        if mutants := [each for each in found if (str(_ROOT / name), each.function) in functions]:
            number -= 1
            yield rng.choice(mutants)


def _edit_at_random(folder: Path, number: int, seed: int) -> None:
    assert onnx_parity.exporter is not None
    before: dict[tuple[str, bool], Record] = {}
    for lies in (False, True):
        reuse = _reuse(folder, lies=lies)
        before |= {(it.id, lies): left for it, left in _left(_cells(), lies=lies, reuse=reuse)}
        reuse.flush()
    statuses = [record.status for record in before.values()]
    assert statuses.count(Status.PASSED) == 14
    assert statuses.count(Status.FAILED) == len(statuses) - 14
    functions = functions_below(_ROOT)
    seen = [_in_fork(partial(_see, mutant, functions, folder, before)) for mutant in _draw(number, seed, functions)]
    told = [each for each in seen if each is not None]
    assert [wrong for each in told for wrong in each.wrong] == []
    if number == MANY:  # Otherwise little was tested. Of a few, any may be without effect, or end its process.
        assert len(told) > number / 2
        assert sum(each.changed > 0 for each in told) > number / 20
        assert sum(each.reused > 0 for each in told) > number / 4
        assert sum(each.known > 0 for each in told) > number / 8


def test_after_few_random_edits_no_outcome_that_changed_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARE", 1 << 62)
    _edit_at_random(tmp_path, FEW, seed=0)


@pytest.mark.slow
def test_after_many_random_edits_no_outcome_that_changed_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARE", 1 << 62)
    _edit_at_random(tmp_path, MANY, seed=1)


_HELPER = "def factor():\n    return {}\n"
_PROJECT = """
import pathlib, sys
import torch.nn.functional as F
from beside import factor
from onnx_parity.harness.case import floats, op
def _scaled(x):
    return x * factor() + {added}
def _read(x):
    return x * float((pathlib.Path(__file__).parent / "data.txt").read_text())
scaled = op(_scaled, floats(2, {size}))
read = op(_read, floats(2, 3))
leaky = op(F.leaky_relu, floats(2, 3), negative_slope={slope})
patched = op(lambda x: x + getattr(sys, "offset", 0), floats(2, 3))
"""


@pytest.mark.slow
def test_after_random_edits_of_a_project_and_its_packages_no_outcome_that_changed_is_used(tmp_path: Path) -> None:
    """Each run compares all of its outcomes with those that the runs before have kept, whatever state they saw."""
    rng = random.Random(0)
    state = {"added": 0, "size": 3, "slope": 0.1, "factor": 2, "data": 3, "offset": 0, "numpy": 1, "seed": 0}
    reused = 0
    for number in range(40):
        state[rng.choice(list(state))] = rng.randrange(1, 5)
        (tmp_path / "beside.py").write_text(_HELPER.format(state["factor"]))
        (tmp_path / "data.txt").write_text(str(state["data"]))
        (tmp_path / "conftest.py").write_text(f"import sys\nsys.offset = {state['offset']}\n")
        (tmp_path / "cases.py").write_text(_PROJECT.format_map(state))
        metadata = tmp_path / "numpy-2.dist-info" / "METADATA"
        metadata.parent.mkdir(exist_ok=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: numpy\nVersion: 2.{state['numpy']}\n")
        options = ("--opsets", "9", "--devices", "cpu", "-n", "0", "--reuse", "store", "--seed", str(state["seed"]))
        for days in ("0", "7"):
            run_project(tmp_path, "pytest", *LEAN, *options, "--reuse-days", days, "cases.py")
            records = read_records(tmp_path / "runs" / "last")
            assert len(records) == 4
            assert {record.status for record in records} == {Status.PASSED}, (number, state, records)
            reused += sum(bool(record.reused) for record in records)
    assert reused > 100

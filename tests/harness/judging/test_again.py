"""The command that is printed with a failure runs that very cell again: over every axis, with its seed and limits."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest

from onnx_parity.harness.record import Status
from onnx_parity.harness.store import read_records
from tests.records import RECORD
from tests.thinned import one_in

pytest_plugins = "pytester"

_LEAN = ("-p", "onnx_parity", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "--assert=plain")
_CASES = """
import torch
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

relu = op(F.relu, floats(2, 3), dynamic={"x": {0: "batch"}})
elu = op(F.elu, floats(2, 3), alpha=[1.0, 0.5])

def shout(x):
    raise RuntimeError(f"the input begins with {x.flatten()[0].item()}")

loud = op(shout, floats(2, 3))
"""
#: Each names cells that the default tier does not have.
_OPTIONS = {
    "opset": ["--opsets", "28", "--devices", "cpu"],
    "dtype": ["--opsets", "9", "--dtypes", "bfloat16", "--devices", "cpu"],
    "device": ["--opsets", "9", "--devices", "cuda"],
    "capture": ["--opsets", "9", "--captures", "script,exported_program", "--devices", "cpu"],
    "exporter": ["--opsets", "9", "--exporters", "torch_script,theirs:to_onnx", "--devices", "cpu"],
    "runtime": ["--opsets", "9", "--runtimes", "onnxruntime:none,backend:onnxruntime.backend", "--devices", "cpu"],
    "transforms": ["--opsets", "9", "--transforms", "ort:basic,convert:11+copy:copy", "--devices", "cpu"],
    "tier": ["--tier", "full", "-k", "drawn or opset12"],
}


@pytest.fixture
def cases(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(cases=_CASES, theirs="def to_onnx(*arguments, **keywords):\n    raise NotImplementedError\n")
    return pytester


def collected(pytester: pytest.Pytester, *words: str) -> list[str]:
    result = pytester.runpytest_inprocess(*_LEAN, "--collect-only", "-q", *words)
    return [line for line in result.outlines if line.startswith("cases.py::")]


@pytest.mark.parametrize("axis", one_in(2, _OPTIONS))
def test_a_node_id_says_all_that_a_cell_is(cases: pytest.Pytester, axis: str) -> None:
    chosen = collected(cases, "cases.py", *_OPTIONS[axis])
    assert chosen
    assert not set(chosen) & set(collected(cases, "cases.py", "--opsets", "9", "--devices", "cpu"))
    assert sorted(collected(cases, *chosen)) == sorted(chosen)


def test_an_id_that_no_cell_has_is_refused(cases: pytest.Pytester) -> None:
    for cell in ("relu-float32-opset99-cpu-trace-onnxruntime", "relu-int64-opset9-cpu-trace-onnxruntime", "relu-x"):
        result = cases.runpytest_inprocess(*_LEAN, f"cases.py::relu::{cell}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR


def failure(pytester: pytest.Pytester, *words: str) -> tuple[str, list[str]]:
    """The message of the failing cell, and the words of the command that runs it again."""
    pytester.runpytest_inprocess(*_LEAN, "--in-process", *words)
    (record,) = (each for each in read_records(pytester.path / "runs" / "last") if each.status is Status.FAILED)
    again = record.message.splitlines()[-1].partition("again:  ")[2]
    assert again == record.again
    return record.reason, shlex.split(again)


@pytest.mark.slow
def test_the_seed_and_the_limits_are_those_of_the_run(cases: pytest.Pytester) -> None:
    chosen = ("cases.py::loud::loud-float32-opset9-cpu-trace-onnxruntime",)
    with_seed, again = failure(cases, *chosen, "--seed", "3", "--stage-seconds", "60,export=90")
    assert again == ["pytest", *chosen, "--parity-seed=3", "--parity-stage-seconds=60,export=90"]
    assert failure(cases, *again[1:])[0] == with_seed
    without, again = failure(cases, *chosen)
    assert again == ["pytest", *chosen]
    assert without != with_seed


@pytest.mark.parametrize(
    ("nodeid", "line"),
    [
        ("op_cases/pooling.py::avg_pool2d[ceil_mode=True]", 'pytest "op_cases/pooling.py::avg_pool2d[ceil_mode=True]"'),
        ("a.py::x['$HOME']", """pytest 'a.py::x['"'"'$HOME'"'"']'"""),
        ("a.py::x[\\n]", r"pytest 'a.py::x[\n]'"),
    ],
)
def test_the_command_survives_a_shell(nodeid: str, line: str) -> None:
    record = msgspec.structs.replace(RECORD, nodeid=nodeid)
    assert record.again == line
    assert shlex.split(line) == ["pytest", nodeid]
    assert msgspec.structs.replace(record, options=("--parity-seed=3",)).again == f"{line} --parity-seed=3"


def test_a_bundle_without_a_model_runs_the_same_words(cases: pytest.Pytester) -> None:
    _, again = failure(cases, "cases.py::loud::loud-float32-opset9-cpu-trace-onnxruntime", "--seed", "3")
    (record,) = read_records(cases.path / "runs" / "last")
    bundle = cases.path / "runs" / "last" / record.bundle
    assert Path(bundle / "repro.py").exists()
    assert shlex.join(again[2:]) in (bundle / "bundle.json").read_text()

"""The plug-in, in pytest processes of its own: what it collects, what it selects, and that nothing is lost."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

# Before pytester notes which modules there are, and forgets those that come later: torch cannot be imported twice.
import exporter  # noqa: F401
import harness.items  # noqa: F401
import harness.stages  # noqa: F401
from harness.record import Blame, Record, Stage, Status
from harness.store import read_info, read_records

pytest_plugins = "pytester"

_PASSING = """
import torch.nn.functional as F
from harness.case import floats, op

elu = op(F.elu, floats(2, 3), alpha=[1.0, 0.5])
relu = op(F.relu, floats(2, 3), dynamic={"x": {0: "batch"}})
_private = op(F.relu, floats(2, 3))
"""

_FAULTS = """
import ctypes
import os
import signal

import torch
import torch.nn.functional as F

from harness.case import floats, op

@torch.library.custom_op("parity_tests::unheard_of", mutates_args=())
def unheard_of(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

unheard_of.register_fake(torch.empty_like)

def kill(x):
    os.kill(os.getpid(), signal.SIGKILL)

def overrun(x):
    ctypes.string_at(0)

elu = op(F.elu, floats(2, 3))
refused = op(unheard_of, floats(2, 3))
killed = op(kill, floats(2, 3))
crashed = op(overrun, floats(2, 3))
odd = op(F.glu, floats(2, 3))
odd_known = op(F.glu, floats(2, 3))
even_known = op(F.glu, floats(2, 4))
tanh = op(torch.tanh, floats(2, 3))
"""

_EXPECTATIONS = """
[[known]]
cells = "odd_known-*"
stage = "reference"
reason = "three is odd"
link = "https://example.org/odd"

[[known]]
cells = "even_known-*-opset<10-*"
stage = "reference"
reason = "four is odd"
link = "https://example.org/even"

[[known]]
cells = "no_such_case-*"
stage = "load"
reason = "it was removed"
link = "https://example.org/gone"
"""


@dataclass(frozen=True)
class Run:
    """What a pytest process left behind."""

    code: int
    text: str
    folder: Path

    def records(self) -> dict[str, Record]:
        return {f"{record.name} {record.opset}": record for record in read_records(self.folder)}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One distributed run over every way in which a cell can end."""
    root = tmp_path_factory.mktemp("project")
    (root / "pytest.ini").write_text("[pytest]\npython_files = faulty_cases/*.py\n")
    cases = root / "faulty_cases"
    cases.mkdir()
    (cases / "__init__.py").touch()
    (cases / "faults.py").write_text(_FAULTS)
    (cases / "expectations.toml").write_text(_EXPECTATIONS)
    options = ["-p", "harness.plugin", "-n", "2", "--dist", "worksteal", "-o", "pythonpath=.", "--devices", "cpu"]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--opsets", "9,18", "faulty_cases"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Run(finished.returncode, finished.stdout, root / "runs" / "last")


def test_every_cell_leaves_a_record_whatever_became_of_it(faults: Run) -> None:
    statuses = {name: record.status for name, record in faults.records().items()}
    assert statuses == {
        "elu 9": Status.PASSED,
        "elu 18": Status.PASSED,
        "refused 9": Status.UNSUPPORTED,
        "refused 18": Status.UNSUPPORTED,
        "killed 9": Status.CRASHED,
        "killed 18": Status.CRASHED,
        "crashed 9": Status.CRASHED,
        "crashed 18": Status.CRASHED,
        "odd 9": Status.FAILED,
        "odd 18": Status.FAILED,
        "odd_known 9": Status.KNOWN,
        "odd_known 18": Status.KNOWN,
        "even_known 9": Status.UNEXPECTED_PASS,
        "even_known 18": Status.PASSED,
        "tanh 9": Status.PASSED,
        "tanh 18": Status.PASSED,
    }
    assert faults.code == 1


def test_a_crash_names_its_cell_stage_and_signal(faults: Run) -> None:
    killed, crashed = faults.records()["killed 9"], faults.records()["crashed 9"]
    assert re.fullmatch(r"worker gw\d+ was killed by SIGKILL in stage reference", killed.reason)
    assert re.fullmatch(r"worker gw\d+ was killed by SIGSEGV in stage reference", crashed.reason)
    assert killed.stage is crashed.stage is Stage.REFERENCE
    assert killed.case == "killed"
    assert killed.file == "faulty_cases/faults.py"
    assert killed.line == 1 + _FAULTS.splitlines().index("killed = op(kill, floats(2, 3))")
    assert "Fatal Python error: Segmentation fault" in crashed.message
    assert "in overrun" in crashed.message


def test_a_failure_tells_a_stranger_everything(faults: Run) -> None:
    record = faults.records()["odd 9"]
    assert (record.stage, record.blame) == (Stage.REFERENCE, Blame.CASE)
    assert record.message.splitlines()[:2] == [
        "odd  float32  opset 9  cpu  trace → onnxruntime        reference ✗  case",
        "  RuntimeError: Halving dimension must be even, but dimension 1 is size 3",
    ]
    again = "faulty_cases/faults.py::odd::odd-float32-opset9-cpu-trace-onnxruntime"
    assert record.message.splitlines()[-1] == f'  again:  pytest "{again}"'
    assert record.nodeid == again
    assert record.message in faults.text
    assert f"FAILED {again}" in faults.text


def test_the_terminal_counts_by_status_and_says_where_the_run_is(faults: Run) -> None:
    assert re.search(r"^=+ 8 failed, 5 passed, 2 known, 2 unsupported in ", faults.text, re.MULTILINE)
    summary = "16 cells: 4 crashed, 2 failed, 1 unexpected pass, 2 known, 2 unsupported, 5 passed; "
    assert summary in faults.text
    assert f"records: {faults.folder.resolve()}; pages: parity report" in faults.text
    refusal = "unsupported: refused float32  opset 9, 18  export: parity_tests::unheard_of: "
    assert refusal in faults.text
    assert "known: odd_known float32  opset 9, 18  reference: three is odd" in faults.text


def test_expectations_are_strict_both_ways(faults: Run) -> None:
    passing = faults.records()["even_known 9"]
    assert passing.reason == (
        "expected to fail at reference: four is odd. It passes now: narrow or remove 'even_known-*-opset<10-*'"
    )
    assert passing.message.splitlines()[0].endswith("rerun_values passed unexpectedly")
    assert "faulty_cases/expectations.toml: 'no_such_case-*' matches no cell of faulty_cases/." in faults.text
    assert "FAILED faulty_cases/expectations.toml::no_such_case-*" in faults.text


def test_the_run_says_what_it_was(faults: Run) -> None:
    info = read_info(faults.folder)
    assert (info.seed, info.tier) == (0, "default")
    assert "--opsets" in info.argv
    assert {"python", "torch", "onnx", "onnxruntime", "numpy"} <= set(info.packages)
    assert {record.worker for record in read_records(faults.folder)} <= {f"gw{number}" for number in range(10)}
    assert len({record.worker for record in read_records(faults.folder)}) >= 2


@pytest.fixture
def cases(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(cases=_PASSING)
    return pytester


def collected(pytester: pytest.Pytester, *options: str) -> list[str]:
    """The ids of the cells that pytest would run."""
    result = pytester.runpytest_inprocess("-p", "harness.plugin", "--collect-only", "-q", *options)
    return [line.rpartition("::")[2] for line in result.outlines if line.startswith("cases.py::")]


def test_a_declaration_file_is_its_own_test_file(cases: pytest.Pytester) -> None:
    ids = collected(cases, "cases.py", "--opsets", "9", "--devices", "cpu")
    assert ids == [
        "elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime",
        "elu[alpha=0.5]-float32-opset9-cpu-trace-onnxruntime",
        "relu-float32-opset9-cpu-trace-onnxruntime",
        "relu-float32-opset9-cpu-trace-onnxruntime-dynamic",
    ]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["cases.py"], 80 + 3),
        (["cases.py", "--tier", "smoke"], 12 + 3),
        (["cases.py", "--tier", "full", "--dtypes", "float32"], 88 + 3),
        (["cases.py", "-k", "elu and opset9 and not relu"], 2),
        (["cases.py", "-k", "alpha and not opset2"], 2 * 13),
        (["cases.py", "-k", "dynamic"], 20),
        (["cases.py", "-k", "cuda"], 3),
        (["cases.py::relu", "--devices", "cpu"], 40),
        (["cases.py::elu::elu[alpha=0.5]-float32-opset9-cpu-trace-onnxruntime"], 1),
        (["cases.py", "--opsets", "7-9", "--devices", "cpu,cuda"], 3 * 4 * 2),
        (["cases.py", "--opsets", "9", "--devices", "cpu", "--exporters", "parity,torch_dynamo"], 8),
        (["cases.py", "--opsets", "9", "--devices", "cpu", "--runtimes", "onnxruntime,onnx.reference"], 8),
    ],
)
def test_cells_are_selected_by_path_by_keyword_and_by_option(
    cases: pytest.Pytester, options: list[str], count: int
) -> None:
    assert len(collected(cases, *options)) == count


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--opsets", "6"], "--opsets 6: there is no opset 6 here, only 7 to 28."),
        (["--devices", "tpu"], "--devices tpu: there is no 'tpu', only cpu, cuda."),
        (
            ["--exporters", "tf2onnx"],
            "--exporters tf2onnx: there is no 'tf2onnx', only parity, torch_dynamo, torch_script.",
        ),
        (["--runtimes", "ort"], "--runtimes ort: there is no 'ort', only onnxruntime, onnx.reference."),
    ],
)
def test_an_option_that_makes_no_sense_ends_the_run(cases: pytest.Pytester, options: list[str], message: str) -> None:
    result = cases.runpytest_inprocess("-p", "harness.plugin", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_two_declarations_of_one_name_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(first=_PASSING, second=_PASSING)
    result = pytester.runpytest_inprocess("-p", "harness.plugin", "first.py", "second.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: elu is declared twice: *first.py:5 and *second.py:5. Rename one of them."])


def test_a_declaration_that_makes_no_sense_fails_its_collection(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(cases="from harness.case import floats, op\nbad = op(abs, floats(2), it=[1, 1])\n")
    result = pytester.runpytest_inprocess("-p", "harness.plugin", "cases.py")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*cases.py:2: bad[[]it=1[]] is declared twice. Drop one of the two values."])


def test_without_workers_cells_run_in_the_same_process(cases: pytest.Pytester) -> None:
    result = cases.runpytest_inprocess("-p", "harness.plugin", "cases.py", "--opsets", "9,26", "--seed", "5", "-k", "elu[")
    result.assert_outcomes(passed=4, skipped=2, deselected=8)
    (run,) = (path for path in (cases.path / "runs").iterdir() if not path.is_symlink())
    assert sorted(path.name for path in run.iterdir()) == ["in-flight-main", "records-main.jsonl", "run.json"]
    records = list(read_records(run))
    assert [record.status for record in records] == ["passed", "passed", "absent"] * 2
    assert {record.reason for record in records} == {"", "no CUDA device"}
    assert read_info(run).seed == 5
    assert read_info(run).missing["cuda"] == "no CUDA device"


def test_refusals_fail_the_run_where_that_is_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        cases="""
        import torch
        from harness.case import floats, op

        refused = op(torch.ops.aten.special_bessel_j0, floats(2))
        """
    )
    options = ["-p", "harness.plugin", "cases.py", "--opsets", "9", "--devices", "cpu", "-p", "no:cacheprovider"]
    assert pytester.runpytest_inprocess(*options).ret == pytest.ExitCode.OK
    strict = pytester.runpytest_inprocess(*options, "--strict-unsupported")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines(["refused  float32  opset 9  cpu  trace → onnxruntime        export unsupported"])


def test_a_run_without_cells_leaves_no_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_plain="def test_it():\n    assert True\n")
    pytester.runpytest_inprocess("-p", "harness.plugin").assert_outcomes(passed=1)
    assert not (pytester.path / "runs").exists()

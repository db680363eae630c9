"""Runs of the matrix by the plug-in: records, crashes, failures, expectations, the summary and the exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.record import Blame, Stage, Status
from onnx_parity.harness.store import read_end, read_info, read_records
from tests.harness.pytest_run import PASSING, Run, run_pytest

_FAULTS = """
import ctypes
import os
import signal

import torch
import torch.nn.functional as F

from onnx_parity.harness.case import floats, op

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
even_known = op(F.elu, floats(2, 4))
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


def run_faults(root: Path) -> Run:
    """One distributed run over every way in which a cell can end."""
    (root / "pytest.ini").write_text("[pytest]\npython_files = faulty_cases/*.py\n")
    cases = root / "faulty_cases"
    cases.mkdir()
    (cases / "__init__.py").touch()
    (cases / "faults.py").write_text(_FAULTS)
    (cases / "expectations.toml").write_text(_EXPECTATIONS)
    (cases / "unsupported.toml").write_text('tier = "default"\n[faults]\n"*" = ["refused"]\n')
    options = ("-n", "2", "--dist", "worksteal", "-o", "pythonpath=.", "--devices", "cpu", "--opsets", "9")
    return run_pytest(root, *options, "faulty_cases")


def check_that_every_cell_has_a_record(faults: Run) -> None:
    statuses = {name: record.status for name, record in faults.records().items()}
    assert statuses == {
        "elu": Status.PASSED,
        "refused": Status.UNSUPPORTED,
        "killed": Status.CRASHED,
        "crashed": Status.CRASHED,
        "odd": Status.FAILED,
        "odd_known": Status.KNOWN,
        "even_known": Status.UNEXPECTED_PASS,
        "tanh": Status.PASSED,
    }
    assert faults.code == 1


def check_that_a_crash_names_its_cell_stage_and_signal(faults: Run) -> None:
    killed, crashed = faults.records()["killed"], faults.records()["crashed"]
    assert killed.reason == "was killed by SIGKILL (as the system does when memory runs out) in stage reference"
    assert crashed.reason == "was killed by SIGSEGV in stage reference"
    assert killed.stage is crashed.stage is Stage.REFERENCE
    assert killed.case == "killed"
    assert killed.file == "faulty_cases/faults.py"
    assert killed.line == 1 + _FAULTS.splitlines().index("killed = op(kill, floats(2, 3))")
    assert "Fatal Python error: Segmentation fault" in crashed.message
    assert "in overrun" in crashed.message


def check_that_a_failure_is_shown_with_its_details(faults: Run) -> None:
    record = faults.records()["odd"]
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


def check_that_a_failure_and_nothing_else_has_a_bundle(faults: Run) -> None:
    bundles = {name: record.bundle for name, record in faults.records().items() if record.bundle}
    assert bundles == {"odd": "failures/odd-float32-opset9-cpu-trace-onnxruntime"}
    assert (faults.folder / bundles["odd"] / "repro.py").exists()
    assert (
        faults.records()["odd"].message.splitlines()[-2]
        == f"  bundle: runs/{faults.folder.resolve().name}/{bundles['odd']}"
    )


def check_that_the_terminal_shows_the_counts_by_status_and_the_folder_of_the_run(faults: Run) -> None:
    # Three passes of pytest's are lines of the two lists that match a cell, and a failure is one that does not.
    counted = re.search(r"^=+ (.*) in [\d.]+s", faults.text, re.MULTILINE)
    assert counted is not None
    assert set(counted[1].split(", ")) == {"5 failed", "5 passed", "1 known", "1 unsupported"}
    summary = "8 cells: 2 crashed, 1 failed, 1 unexpected pass, 1 known, 1 unsupported, 2 passed; "
    assert summary in faults.text
    assert f"records: {faults.folder.resolve()}; pages: parity report\n" in faults.text
    extent = "1 cell, opset 9, float32"
    assert f"unsupported: parity_tests::unheard_of  export  {extent}: parity_tests::unheard_of: " in faults.text
    assert f"known: odd_known  reference (case)  {extent}: three is odd" in faults.text


def check_that_expectations_are_strict_both_ways(faults: Run) -> None:
    passing = faults.records()["even_known"]
    assert passing.reason == (
        "expected to fail at reference: four is odd. It passes now: narrow or remove 'even_known-*-opset<10-*'"
    )
    assert passing.message.splitlines()[0].endswith("rerun_values passed unexpectedly")
    assert (
        "faulty_cases/expectations.toml: the expectation 'no_such_case-*' matches no cell of faulty_cases/."
        in faults.text
    )
    assert "FAILED faulty_cases/expectations.toml::no_such_case-*" in faults.text


def check_that_the_run_is_described(faults: Run) -> None:
    info = read_info(faults.folder)
    assert (info.seed, info.tier) == (0, "default")
    assert "--opsets" in info.argv
    assert {"python", "torch", "onnx", "onnxruntime", "numpy"} <= set(info.packages)
    assert {record.worker for record in read_records(faults.folder)} <= {f"gw{number}" for number in range(10)}
    assert len({record.worker for record in read_records(faults.folder)}) >= 2


def test_every_kind_of_outcome_in_one_run(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """One run of pytest, for it takes four worker processes; looked at from every side."""
    faults = run_faults(tmp_path)
    for check in (
        check_that_every_cell_has_a_record,
        check_that_a_crash_names_its_cell_stage_and_signal,
        check_that_a_failure_is_shown_with_its_details,
        check_that_a_failure_and_nothing_else_has_a_bundle,
        check_that_the_terminal_shows_the_counts_by_status_and_the_folder_of_the_run,
        check_that_expectations_are_strict_both_ways,
        check_that_the_run_is_described,
    ):
        with subtests.test(check.__name__):
            check(faults)


def test_without_workers_cells_run_in_the_same_process(tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text(
        PASSING + "refused = op(torch._standard_gamma_grad, floats(2, 2), floats(2, 2))\n"
    )
    (tmp_path / "unsupported.toml").write_text('tier = "default"\n[cases]\n"*" = ["refused"]\n')
    run = run_pytest(tmp_path, "cases.py", "--opsets", "26", "--seed", "5", "--strict-unsupported", "-k", "not elu[")
    files = sorted(path.name for path in run.folder.iterdir())
    assert files == ["end.json", "in-flight-main", "records-main.jsonl", "run.json"]
    statuses = [(record.name, record.device, record.shapes, record.status) for record in read_records(run.folder)]
    assert statuses == [
        ("relu", "cpu", "static", "passed"),
        ("relu", "cuda", "static", "absent"),
        ("relu", "cpu", "dynamic", "passed"),
        ("refused", "cpu", "static", "unsupported"),
        ("refused", "cuda", "static", "absent"),
    ]
    assert read_info(run.folder).seed == 5
    assert read_info(run.folder).missing["cuda"] == "no CUDA device"
    # What is absent is no pass, and what the exporter refuses is a failure where that is asked for.
    assert run.code == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"1 failed, 2 passed, 2 skipped, 4 deselected in", run.text)
    assert (
        "refused  float32  opset 26  cpu  trace → onnxruntime        export unsupported\n"
        "  1 operator cannot be exported to opset 26:\n"
        "    - aten::_standard_gamma_grad: "
    ) in run.text


@pytest.mark.slow
def test_the_pace_of_a_run_is_printed_in_lines(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = cases.py\n")
    (tmp_path / "cases.py").write_text(PASSING)
    found = run_pytest(
        tmp_path, "-q", "--pace", "-o", "console_output_style=classic", "--opsets", "9,18", "--devices", "cpu"
    )
    assert found.code == 0
    lines = found.text.splitlines()
    assert any(line.startswith("8 of 8 cells") for line in lines)
    assert not any(line.strip(".") == "" and line for line in lines)


@pytest.mark.slow
def test_a_run_in_another_folder_prints_the_command_for_its_report(tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text(PASSING)
    found = run_pytest(tmp_path, "cases.py", "-k", "relu and opset9", "--devices", "cpu", "--runs", "kept")
    (kept,) = {path.resolve().name for path in (tmp_path / "kept").iterdir()}
    assert f"records: kept/{kept}; pages: parity report kept/{kept}\n" in found.text


def test_usage_errors_of_a_worker_are_reported(tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text(PASSING)
    run = run_pytest(tmp_path, "-n", "1", "cases.py::nothing")
    assert run.code == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: not found: {tmp_path}/cases.py::nothing" in run.text


@pytest.mark.slow
def test_tests_run_after_cells_whose_folder_has_other_tests_too(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = cases/*.py test_*.py\n")
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "later.py").write_text(PASSING)
    (tmp_path / "cases" / "expectations.toml").write_text(
        '[[known]]\ncells = "gone-*"\nstage = "load"\nreason = "gone"\nlink = "https://example.org"\n'
    )
    (tmp_path / "test_last.py").write_text("def test_last(tmp_path): assert tmp_path.exists()\n")
    run = run_pytest(tmp_path, "-o", "pythonpath=.", "--devices", "cpu", "--opsets", "9", "cases", "test_last.py")
    assert "1 failed, 5 passed" in run.text, run.text
    assert "FAILED cases/expectations.toml::gone-*" in run.text


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.slow), "2"])
def test_errors_of_collection_are_not_failures_of_cells(tmp_path: Path, workers: str) -> None:
    (tmp_path / "cases.py").write_text(PASSING)
    (tmp_path / "broken.py").write_text("from onnx_parity.harness.case import op\nbroken = op(\n")
    given = ("-n", workers, "--opsets", "9", "--devices", "cpu", "cases.py", "broken.py")
    run = run_pytest(tmp_path, *given)
    assert run.code == pytest.ExitCode.INTERRUPTED, run.text
    if workers == "2":  # Its workers run what they did collect.
        end = read_end(run.folder)
        assert end is not None
        assert not end.whole
        assert end.why == "a file of declarations could not be read"
        told = f"This run is unfinished: {end.why}. To run the missing cells: parity run --resume"
        assert f"{told} {run.folder.resolve()}\n" in run.text


@pytest.mark.slow
def test_a_run_that_stops_at_a_failure_prints_how_to_resume(tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text(PASSING + "odd = op(F.glu, floats(2, 3))\nlater = op(F.relu, floats(2))\n")
    given = ("--opsets", "9", "--devices", "cpu", "cases.py")
    stopped = run_pytest(tmp_path, *given, "-x")
    assert stopped.code == pytest.ExitCode.TESTS_FAILED
    told = "This run is unfinished: it ended early, stopping after 1 failures; 1 of its cells were not run. To run the"
    assert f"{told} missing cells: parity run --resume {stopped.folder.resolve()}\n" in stopped.text
    assert "unfinished" not in run_pytest(tmp_path, *given).text


_INTERRUPTED = """
def pytest_runtest_logreport(report):
    if "opset10" in report.nodeid:
        raise KeyboardInterrupt
"""


@pytest.mark.slow
def test_a_cell_that_was_begun_ahead_of_an_interruption_is_not_lacking(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_INTERRUPTED)
    (tmp_path / "cases.py").write_text(
        "import torch.nn.functional as F\n"
        "from onnx_parity.harness.case import floats, op\n"
        "relu = op(F.relu, floats(2))\n"
    )
    run = run_pytest(tmp_path, "--opsets", "9-13", "--devices", "cpu", "--dtypes", "float32", "cases.py")
    assert run.code == pytest.ExitCode.INTERRUPTED, run.text
    assert sorted(record.opset for record in read_records(run.folder)) == [9, 10, 11]
    end = read_end(run.folder)
    assert end is not None
    assert (end.whole, end.why, end.cells, end.lacking) == (False, "it was interrupted", 3, 2)
    assert "it was interrupted; 2 of its cells were not run. To run the missing cells" in run.text


_FULL = """
import errno, os
from onnx_parity.harness.pytest_plugin import matrix

def write_end(run, end):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(run / "end.json"))

matrix.write_end = write_end
"""


def test_an_end_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_FULL)
    (tmp_path / "cases.py").write_text(PASSING)
    run = run_pytest(tmp_path, "--opsets", "9", "--devices", "cpu", "cases.py")
    assert run.code == pytest.ExitCode.INTERNAL_ERROR
    path = run.folder.resolve() / "end.json"
    assert f"the end of the run could not be written: [Errno 28] No space left on device: '{path}'; free" in run.text
    assert "Traceback" not in run.text
    assert len(run.records()) == 2


_WEIGHTED = """
from pathlib import Path

from torch import nn
from onnx_parity.harness.case import floats, op

linear = op(nn.Linear(3, 2), floats(2, 3))
with (Path(__file__).parent / "drawn.txt").open("a") as file:
    print(linear.program.weight.tolist(), file=file)
"""


@pytest.mark.slow
def test_layers_in_a_file_of_declarations_have_the_same_weights_wherever_it_is_imported(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text("import torch\nfrom onnx_parity.harness.case import op\ntorch.rand(3)\n")
    (tmp_path / "weighted.py").write_text(_WEIGHTED)
    for options in (["weighted.py"], ["first.py", "weighted.py"], ["weighted.py", "-n", "2"]):
        assert run_pytest(tmp_path, *options, "--opsets", "18").code == 0
    assert [name for name, _ in declared_under(tmp_path / "weighted.py")] == ["linear"]
    drawn = (tmp_path / "drawn.txt").read_text().splitlines()
    assert len(drawn) == 5
    assert len(set(drawn)) == 1


def test_the_summary_of_a_run_with_a_progress_line_says_what_failed(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "from torch.nn.functional import glu\n"
        "from onnx_parity.harness.case import floats, op\n\n"
        "odd = op(glu, floats(3))\n"
    )
    run = run_pytest(tmp_path, "odd.py", "--opsets", "18", "-q", "--parity-pace", "-o", "console_output_style=classic")
    assert run.code == 1
    assert "1 of 2 cells" in run.text or "2 of 2 cells" in run.text
    assert "\nFAILED odd.py::odd::odd-float32-opset18-cpu-trace-onnxruntime" in run.text

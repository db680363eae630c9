"""The `parity` command: its help, its runs, its exit codes, and its errors."""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

import onnx_parity
from onnx_parity.harness import cli
from onnx_parity.harness.commands import stopping
from onnx_parity.harness.pytest_plugin.options import with_prefix
from onnx_parity.harness.store import read_records
from tests import forked
from tests.records import INFO, RECORD, write_run

_CASES = """
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

elu = op(F.elu, floats(2, 3), alpha=[1.0, 0.5])
relu = op(F.relu, floats(2, 3))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports_as_before: None) -> Path:
    """A clone with one file of declarations."""
    for directory in ("listed_cases", "listed_models"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "__init__.py").touch()
    (tmp_path / "listed_cases" / "some.py").write_text(_CASES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.parity]\ndeclarations = ["listed_cases", "listed_models"]\n')
    return tmp_path


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, arguments)
    return result.exit_code, result.output


def test_the_version() -> None:
    assert invoke("--version") == (0, f"onnx-parity {onnx_parity.__version__}\n")


def test_cases_are_listed_with_their_place_and_their_number_of_cells(project: Path) -> None:
    code, text = invoke("list")
    assert code == 0
    assert text.splitlines() == [
        "elu[alpha=1.0]     6 cells  listed_cases/some.py:5",
        "elu[alpha=0.5]     3 cells  listed_cases/some.py:5",
        "relu               7 cells  listed_cases/some.py:6",
        "3 cases, 16 cells",
    ]
    assert invoke("list", "relu", "--tier", "smoke")[1].splitlines()[0] == "relu     4 cells  listed_cases/some.py:6"


def test_cells_are_listed_by_their_ids(project: Path) -> None:
    _, text = invoke("list", "elu*", "--cells", "--opsets", "9")
    assert text.splitlines()[0] == "elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime"
    assert "2 cases, 4 cells" in text


def test_wrong_options_are_refused(project: Path) -> None:
    code, text = invoke("list", "--opsets", "6")
    assert (code, text) == (2, "--opsets 6: there is no opset 6 here, only 7 to 28.\n")
    assert invoke("list", "--opsets", "") == (
        2,
        "--opsets : '' is neither an opset nor a range. Write 9,13-18.\n",
    )
    code, text = invoke("report", "nowhere")
    assert (code, text) == (2, "nowhere is not a run: it has no run.json. `parity run` makes one.\n")


#: The process that has written `INFO`, as its id says.
PROCESS = 1


@pytest.fixture
def commands(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is run instead of pytest: each leaves a run of one cell, and fails."""
    given: list[list[str]] = []

    def run(command: list[str], stdout: object, begun: object) -> tuple[int, int]:
        given.append(command)
        write_run(Path("runs"), [RECORD])
        return 1, PROCESS

    monkeypatch.setattr(importlib.import_module("onnx_parity.harness.commands.run"), "exit_code_of", run)
    return given


def test_options_reach_pytest_and_its_exit_code_comes_back(project: Path, commands: list[list[str]]) -> None:
    options = ["-k", "elu and opset9", "--tier", "smoke", "--opsets", "9", "-n", "3", "--dtypes=float16"]
    code, text = invoke("run", *options, "listed_cases/some.py")
    assert code == 1
    handed = ["-n", "3", "-k", "elu and opset9", "--parity-tier=smoke", "--parity-opsets=9"]
    handed += ["-o", "testpaths=listed_cases listed_models", "--parity-dtypes=float16"]
    shown = ["-q", "-o", "console_output_style=classic", "--parity-pace", "-p", "no:warnings"]
    assert commands[0][1:] == ["-m", "pytest", *shown, *handed, "listed_cases/some.py"]
    assert f"report: {project}/runs/{INFO.id}/report/index.html" in text
    assert (project / "runs" / "last" / "report" / "index.html").exists()


def test_a_run_that_began_meanwhile_in_the_same_folder_is_another(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], stdout: object, begun: object) -> tuple[int, int]:
        write_run(Path("runs"), [RECORD])
        write_run(Path("runs"), [], replace(INFO, id="20260131-101501-11"))
        return 0, PROCESS

    monkeypatch.setattr(importlib.import_module("onnx_parity.harness.commands.run"), "exit_code_of", run)
    result = json.loads(CliRunner().invoke(cli.app, ["run", "--json"]).stdout)
    assert (result["run"], result["cells"]) == (f"{project}/runs/{INFO.id}", 1)


def test_json_is_all_that_standard_output_has(project: Path, commands: list[list[str]]) -> None:
    result = CliRunner().invoke(cli.app, ["run", "--json", "listed_cases/some.py"])
    assert json.loads(result.stdout) == {
        "run": f"{project}/runs/{INFO.id}",
        "report": f"{project}/runs/{INFO.id}/report/index.html",
        "exit_code": 1,
        "cells": 1,
        "counts": {"passed": 1},
        "absent": {},
        "causes": [],
        "shortcomings": [],
        "whole": True,
    }
    assert result.stderr.startswith("$ pytest -q")
    assert json.loads(invoke("report", "--json")[1]) == {"report": "runs/last/report/index.html"}
    Path("taken").touch()
    assert invoke("report", "--out", "taken") == (
        2,
        "The report cannot be written to taken: this is a file, but a report is a folder. Choose another name, or "
        "remove the file.\n",
    )
    listed = json.loads(invoke("list", "relu", "--tier", "smoke", "--json")[1])
    assert [(each["case"], each["place"], len(each["cells"])) for each in listed] == [
        ("relu", "listed_cases/some.py:6", 4)
    ]


def test_an_option_of_almost_this_name_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.import_module("onnx_parity.harness.commands.run"),
        "exit_code_of",
        lambda command, stdout, begun: (4, 1),
    )
    assert invoke("run", "--opset", "13")[1].endswith("There is no option --opset. Did you mean --opsets?\n")
    assert invoke("run", "--baseline", "x")[1].endswith(
        "no option --baseline: it is one of `parity report` and `parity gate`.\n"
    )


def test_a_run_that_selected_nothing_writes_no_report(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.import_module("onnx_parity.harness.commands.run"),
        "exit_code_of",
        lambda command, stdout, begun: (5, 1),
    )
    code, text = invoke("run", "-k", "rellu or nothing")
    assert code == 2
    assert "report:" not in text
    assert text.endswith("No cell of this tier matches -k 'rellu or nothing'. Similar names: relu, elu.\n")
    assert invoke("run", "-k", "nothing")[1].endswith("`parity list --cells` shows all ids.\n")
    text = invoke("run", "listed_cases/some.py", "--dtypes", "int8")[1]
    assert text.endswith("No cell is selected. What is declared: parity list listed_cases/some.py\n")
    assert json.loads(CliRunner().invoke(cli.app, ["run", "-k", "nothing", "--json"]).stdout) == {
        "run": None,
        "report": None,
        "exit_code": 2,
        "cells": 0,
        "counts": {},
        "absent": {},
        "causes": [],
        "shortcomings": [],
        "whole": False,
    }


@pytest.mark.parametrize(("pytests", "ours"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 2), (5, 2)])
def test_a_run_ends_as_every_command_does(
    project: Path, monkeypatch: pytest.MonkeyPatch, pytests: int, ours: int
) -> None:
    monkeypatch.setattr(
        importlib.import_module("onnx_parity.harness.commands.run"),
        "exit_code_of",
        lambda command, stdout, begun: (pytests, 1),
    )
    assert invoke("run")[0] == ours


def test_places_that_options_take_are_not_where_pytest_looks_for_its_configuration(
    project: Path, commands: list[list[str]]
) -> None:
    invoke("run", "--since", "/elsewhere/run", "--shard", "1/2", "--durations-of", "/elsewhere/run", "--runs", "/else")
    handed = commands[0][commands[0].index("-n") :]
    assert "--parity-since=/elsewhere/run" in handed
    assert "--parity-durations-of=/elsewhere/run" in handed
    assert "--parity-runs=/else" in handed
    assert not [word for word in handed if word.startswith("/")]


def test_runs_that_are_kept_elsewhere_have_their_report_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], stdout: object, begun: object) -> tuple[int, int]:
        (kept,) = [Path(word.removeprefix("--parity-runs=")) for word in command if "--parity-runs=" in word]
        write_run(kept, [RECORD])
        return 0, PROCESS

    monkeypatch.setattr(importlib.import_module("onnx_parity.harness.commands.run"), "exit_code_of", run)
    code, text = invoke("run", "--runs", "else/where")
    assert code == 0
    assert f"report: {project}/else/where/{INFO.id}/report/index.html" in text
    assert (project / "else" / "where" / "last" / "report" / "index.html").exists()


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_teaches_by_example(command: str) -> None:
    code, text = invoke(command, "--help")
    assert code == 0
    assert "Examples:" in text
    assert f"parity {command}" in text


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("attach", "parity run --follow JOB --on http://HEAD:8265"),
        ("compare", "parity run op_cases/opinfo.py op_cases/operator_database.py --samples 4"),
        ("documents", "python -m documents"),
        ("operators", "parity report --operators docs/operators.md"),
        ("submit", "parity run --on http://HEAD:8265"),
        ("torchscript", "parity report --torchscript docs/torchscript.md"),
        ("versions", "python -m documents versions"),
    ],
)
def test_an_earlier_command_says_what_replaces_it(command: str, instead: str) -> None:
    code, text = invoke(command, "--any", "option")
    assert code == 2
    assert text.startswith(f"`parity {command}` was removed: ")
    assert text.count("\n") == 1
    assert f"`{instead}" in text
    assert command not in cli.COMMANDS


def test_runs_as_a_module() -> None:
    command = (sys.executable, "-m", "onnx_parity", "runn")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Usage: parity" in done.stderr
    assert "Did you mean 'run'?" in done.stderr


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_speaks_json(command: str) -> None:
    assert "--json" in invoke(command, "--help")[1]


def test_completion_of_shells() -> None:
    """As a shell asks: of `parity run --tier `."""
    asked = {"_PARITY_COMPLETE": "complete_bash", "COMP_WORDS": "parity run --tier ", "COMP_CWORD": "3"}
    result = CliRunner().invoke(cli.app, [], env=asked, prog_name="parity")
    assert result.output.split() == ["smoke", "default", "full"]


def test_a_pattern_of_nothing_is_refused(project: Path) -> None:
    folders = "listed_cases/ and listed_models/"
    assert invoke("list", "rellu") == (2, f"No case of {folders} is named rellu. Similar names: relu, elu.\n")
    assert invoke("list", "zzz", "--json") == (
        2,
        f"No case of {folders} is named zzz. `parity list` shows all names.\n",
    )
    (project / "listed_cases" / "some.py").unlink()
    assert invoke("list") == (2, f"There are no declarations in {folders}.\n")


@pytest.mark.parametrize("workers", ["-1", "two", "1.5", ""])
def test_a_number_of_processes_is_one(project: Path, commands: list[list[str]], workers: str) -> None:
    message = f"-n {workers} is not a number of processes. Write 0 or a larger number, auto, or logical.\n"
    assert invoke("run", "-n", workers) == (2, message)
    assert commands == []


def test_options_beside_resume_are_refused(project: Path, commands: list[list[str]]) -> None:
    run = write_run(Path("runs"), [])
    assert invoke("run", "--resume", str(run), "-k", "elu", "--seed", "7", "--tier=full", "--strange", "some.py") == (
        2,
        "--resume continues a run with the options that it was started with: remove -k --tier --seed 7 --strange "
        "some.py. Only -n, --on, --report, --no-report, --profile and --json may be given with it.\n",
    )
    assert commands == []
    assert invoke("run", "--resume", str(run), "-n", "logical", "--no-report", "--json")[0] == 1
    assert commands[0][-3:] == ["-n", "logical", f"--parity-resume={run.resolve()}"]


def test_an_axis_of_nothing_reaches_pytest_which_refuses_it(project: Path, commands: list[list[str]]) -> None:
    invoke("run", "--opsets", "", "--devices", "")
    assert {"--parity-opsets=", "--parity-devices="} <= set(commands[0])


#: Ignores the signals that it is told to ignore, and no others: the tests may run in the background of a script.
_MAIN = """
import signal, sys
from onnx_parity.harness.commands.stopping import exit_code_of
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
for name in sys.argv[1].split():
    signal.signal(signal.Signals[name], signal.SIG_IGN)
sys.exit(exit_code_of([sys.executable, *sys.argv[2:]], None)[0])
"""


def _begun(program: str, told: Path, ignores: str = "") -> subprocess.Popen[bytes]:
    """A process that ends with the `exit_code_of` a program, once this one has said that it has begun."""
    program += f"\nimport pathlib, time\npathlib.Path({str(told)!r}).touch()\ntime.sleep(60)"
    command = [sys.executable, "-c", _MAIN, ignores, "-c", program]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[3], start_new_session=True)
    deadline = time.monotonic() + 30
    while not told.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


#: Takes its time to end, which a second interrupt would cut short.
_IN_ORDER = """
import signal, sys
def end(*_):
    signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
    time.sleep(0.5)
    print("ended in order", flush=True)
    sys.exit(2)
signal.signal(signal.SIGINT, end)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_stopped_ends_in_order(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """As a terminal does it, which tells all of its group, and as `kill` does."""
    with _begun(_IN_ORDER, tmp_path / "told") as process:
        os.killpg(process.pid, number)
        assert process.wait(30) == 2
    assert capfd.readouterr().out == "ended in order\n"


def test_a_second_signal_ends_a_run_at_once(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    with _begun(deaf, tmp_path / "told") as process:
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert process.wait(30) == 2


def test_what_is_ignored_goes_on_to_be(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As under `nohup`, and in the background of a script, where an end is still one in order."""
    with _begun(_IN_ORDER, tmp_path / "told", ignores="SIGHUP SIGINT") as process:
        for number in (signal.SIGHUP, signal.SIGINT):
            process.send_signal(number)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 2
    assert capfd.readouterr().out == "ended in order\n"


@pytest.mark.parametrize(("option", "code"), [("--in-process", 5), ("--pdb", 5), ("--pace", 6)])
def test_a_debugger_is_in_the_foreground_group(option: str, code: int) -> None:
    text = "import os, sys; sys.exit(5 if os.getpgid(0) == os.getpgid(os.getppid()) else 6)"
    command = [sys.executable, "-c", text, with_prefix(option)]
    assert stopping.exit_code_of(command, None)[0] == code


def test_handlers_are_as_before_when_a_run_has_ended() -> None:
    before = [signal.getsignal(number) for number in signal.Signals]
    assert stopping.exit_code_of([sys.executable, "-c", "raise SystemExit(5)"], None)[0] == 5
    assert stopping.exit_code_of([sys.executable, "-c", "raise SystemExit(5)", "--pdb"], None)[0] == 5
    assert [signal.getsignal(number) for number in signal.Signals] == before


def test_a_pytest_that_is_killed_has_failed_itself(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.import_module("onnx_parity.harness.commands.run"),
        "exit_code_of",
        lambda command, stdout, begun: (-9, 1),
    )
    code, text = invoke("run")
    assert (code, text.splitlines()[-1]) == (
        3,
        "pytest was killed by SIGKILL. `parity run --resume` runs the cells that are missing.",
    )


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/full/end.json"), "/full/end.json: No space left on device"),
        (TimeoutError("nobody answers"), "nobody answers"),
        (KeyboardInterrupt(), "stopped"),
    ],
)
def test_errors_of_any_command_are_reported_in_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, told: str
) -> None:
    def fail(file: Path) -> None:
        raise error

    monkeypatch.setattr("onnx_parity.harness.cases.declarations.declared_in_file", fail)
    assert invoke("list") == (2, f"{told}\n")


def test_a_folder_that_cannot_be_created_is_reported_in_one_line(project: Path) -> None:
    run = write_run(Path("runs"), [])
    Path("taken").touch()
    code, text = invoke("merge", str(run), "--into", "taken/runs", "--partial")
    assert (code, text.count("\n")) == (2, 1)
    assert text.startswith("taken/runs/.") and text.endswith(": Not a directory\n")


def test_a_reader_who_leaves_is_no_error_of_the_command(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: Path) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("onnx_parity.harness.cases.declarations.declared_in_file", fail)
    assert invoke("list") == (1, "")


@pytest.fixture
def runs_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `parity run` run a pytest that need not import torch again."""

    def run(command: Sequence[str], stdout: object, begun: object) -> tuple[int, int]:
        assert list(command[:3]) == [sys.executable, "-m", "pytest"]
        ended = forked.run(Path.cwd(), *command[2:])
        return ended.code, ended.process

    monkeypatch.setattr("onnx_parity.harness.commands.run.exit_code_of", run)


@pytest.mark.slow
@pytest.mark.usefixtures("runs_forked")
def test_values_of_pytest_s_options_are_no_places(project: Path) -> None:
    (project / "test_beside.py").write_text("def test_never_run(): assert False\n")
    code, _ = invoke("run", "-n", "0", "--opsets", "9", "--devices", "cpu", "--no-report", "--exporters", "parity")
    assert code == 0
    assert {record.name for record in read_records(project / "runs" / "last")} == {"elu", "relu"}


@pytest.mark.slow
@pytest.mark.usefixtures("runs_forked")
def test_a_run_says_where_its_time_went(project: Path) -> None:
    given = ("-n", "0", "--opsets", "13", "--devices", "cpu", "--no-report", "--profile")
    code, said = invoke("run", *given)
    lines = [line.split() for line in said.splitlines()]
    assert code == 0
    assert ["part", "seconds", "share", "ms", "per", "cell"] in lines
    assert [line[0] for line in lines[-2:]] == ["worker", "main"] and lines[-1][1] == "3"
    code, said = invoke("run", *given, "--json")
    profile = json.loads(said.splitlines()[-1])["profile"]
    assert profile["workers"]["main"]["cells"] == 3
    assert profile["parts"]["export"] > 0
    assert sum(profile["workers"]["main"]["stages"].values()) < profile["workers"]["main"]["in_cells"]


@pytest.mark.slow
@pytest.mark.usefixtures("runs_forked")
def test_a_run_of_several_exporters_shows_them_beside_each_other(project: Path) -> None:
    given = ("-n", "0", "--opsets", "13", "--devices", "cpu", "--no-report", "--exporters", "parity,torch_script")
    _, said = invoke("run", *given)
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines[lines.index("cells passed") + 1 :][:2] == ["parity 3", "torch_script 3"]

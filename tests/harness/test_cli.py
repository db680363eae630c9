"""The `parity` command: what it lists, what it runs, how it ends."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness import cli
from harness.commands import places
from harness.store import RecordWriter, create_run, read_records
from tests.harness.test_store import INFO, RECORD

_CASES = """
import torch.nn.functional as F
from harness.case import floats, op

elu = op(F.elu, floats(2, 3), alpha=[1.0, 0.5])
relu = op(F.relu, floats(2, 3))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with one file of declarations."""
    for directory in ("listed_cases", "listed_models"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "__init__.py").touch()
    (tmp_path / "listed_cases" / "some.py").write_text(_CASES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(places, "DECLARATIONS", (Path("listed_cases"), Path("listed_models")))
    return tmp_path


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, arguments)
    return result.exit_code, result.output


def test_cases_are_listed_with_their_place_and_their_number_of_cells(project: Path) -> None:
    code, text = invoke("list")
    assert code == 0
    assert text.splitlines() == [
        "elu[alpha=1.0]    21 cells  listed_cases/some.py:5",
        "elu[alpha=0.5]    11 cells  listed_cases/some.py:5",
        "relu              21 cells  listed_cases/some.py:6",
        "3 cases, 53 cells",
    ]
    assert invoke("list", "relu", "--tier", "smoke")[1].splitlines()[0] == "relu     4 cells  listed_cases/some.py:6"


def test_cells_are_listed_by_their_ids(project: Path) -> None:
    _, text = invoke("list", "elu*", "--cells", "--opsets", "9")
    assert text.splitlines()[0] == "elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime"
    assert "2 cases, 4 cells" in text


def test_wrong_options_are_refused(project: Path) -> None:
    code, text = invoke("list", "--opsets", "6")
    assert (code, text) == (2, "--opsets 6: there is no opset 6 here, only 7 to 28.\n")
    code, text = invoke("report", "nowhere")
    assert (code, text) == (2, "nowhere is not a run: it has no run.json. `parity run` makes one.\n")


@pytest.fixture
def commands(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is run instead of pytest: each leaves a run of one cell, and fails."""
    given: list[list[str]] = []

    def run(command: list[str], stdout: object) -> int:
        given.append(command)
        writer = RecordWriter(create_run(Path("runs"), INFO), "gw0")
        writer.append(RECORD)
        writer.close()
        return 1

    monkeypatch.setattr(importlib.import_module("harness.commands.run"), "exit_code_of", run)
    return given


def test_options_reach_pytest_and_its_exit_code_comes_back(project: Path, commands: list[list[str]]) -> None:
    options = ["-k", "elu and opset9", "--tier", "smoke", "--opsets", "9", "-n", "3", "--dtypes=float16"]
    code, text = invoke("run", *options, "listed_cases/some.py")
    assert code == 1
    handed = ["-n", "3", "--tier", "smoke", "-k", "elu and opset9", "--opsets", "9"]
    handed += ["-o", "testpaths=listed_cases listed_models", "--dtypes=float16"]
    shown = ["-q", "-o", "console_output_style=classic", "--pace", "-p", "no:warnings"]
    assert commands[0][1:] == ["-m", "pytest", *shown, *handed, "listed_cases/some.py"]
    assert f"report: {project}/runs/{INFO.id}/report/index.html" in text
    assert (project / "runs" / "last" / "report" / "index.html").exists()


def test_json_is_all_that_standard_output_has(project: Path, commands: list[list[str]]) -> None:
    result = CliRunner().invoke(cli.app, ["run", "--json", "listed_cases/some.py"])
    assert json.loads(result.stdout) == {
        "run": f"{project}/runs/{INFO.id}",
        "report": f"{project}/runs/{INFO.id}/report/index.html",
        "exit_code": 1,
        "cells": 1,
        "counts": {"passed": 1},
    }
    assert result.stderr.startswith("$ pytest -q")
    assert json.loads(invoke("report", "--json")[1]) == {"report": "runs/last/report/index.html"}
    Path("taken").touch()
    assert invoke("report", "--out", "taken") == (
        2,
        "taken is a file; a report is a folder. Choose another name or remove it.\n",
    )
    listed = json.loads(invoke("list", "relu", "--tier", "smoke", "--json")[1])
    assert [(each["case"], each["place"], len(each["cells"])) for each in listed] == [
        ("relu", "listed_cases/some.py:6", 4)
    ]


def test_a_run_that_selected_nothing_writes_no_report(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("harness.commands.run"), "exit_code_of", lambda command, stdout: 5)
    code, text = invoke("run", "-k", "nothing")
    assert code == 2
    assert "report:" not in text
    assert json.loads(CliRunner().invoke(cli.app, ["run", "-k", "nothing", "--json"]).stdout) == {
        "run": None,
        "report": None,
        "exit_code": 2,
        "cells": 0,
        "counts": {},
    }


@pytest.mark.parametrize(("pytests", "ours"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 2), (5, 2)])
def test_a_run_ends_as_every_command_does(
    project: Path, monkeypatch: pytest.MonkeyPatch, pytests: int, ours: int
) -> None:
    monkeypatch.setattr(
        importlib.import_module("harness.commands.run"), "exit_code_of", lambda command, stdout: pytests
    )
    assert invoke("run")[0] == ours


def test_places_that_options_take_are_not_where_pytest_looks_for_its_configuration(
    project: Path, commands: list[list[str]]
) -> None:
    invoke("run", "--since", "/elsewhere/run", "--shard", "1/2", "--durations-of", "/elsewhere/run", "--runs", "/else")
    handed = commands[0][commands[0].index("-n") :]
    assert "--since=/elsewhere/run" in handed
    assert "--durations-of=/elsewhere/run" in handed
    assert "--runs=/else" in handed
    assert not [word for word in handed if word.startswith("/")]


def test_runs_that_are_kept_elsewhere_have_their_report_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], stdout: object) -> int:
        (kept,) = [Path(word.removeprefix("--runs=")) for word in command if word.startswith("--runs=")]
        RecordWriter(create_run(kept, INFO), "gw0").append(RECORD)
        return 0

    monkeypatch.setattr(importlib.import_module("harness.commands.run"), "exit_code_of", run)
    code, text = invoke("run", "--runs", "else/where")
    assert code == 0
    assert f"report: {project}/else/where/{INFO.id}/report/index.html" in text
    assert (project / "else" / "where" / "last" / "report" / "index.html").exists()


_COMMANDS = [command.name or getattr(command.callback, "__name__", "") for command in cli.app.registered_commands]


@pytest.mark.parametrize("command", _COMMANDS)
def test_help_teaches_by_example(command: str) -> None:
    code, text = invoke(command, "--help")
    assert code == 0
    assert "Examples:" in text
    assert f"parity {command}" in text


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_command_speaks_json(command: str) -> None:
    assert "--json" in invoke(command, "--help")[1]


def test_shells_are_told_how_to_complete() -> None:
    """As a shell asks: of `parity run --tier `."""
    asked = {"_PARITY_COMPLETE": "complete_bash", "COMP_WORDS": "parity run --tier ", "COMP_CWORD": "3"}
    result = CliRunner().invoke(cli.app, [], env=asked, prog_name="parity")
    assert result.output.split() == ["smoke", "default", "full"]


def test_an_interrupted_run_ends_in_order() -> None:
    """The interrupt reaches both processes, and pytest takes its time to say what it has."""
    program = "import os, signal, sys, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(1); sys.exit(2)"
    module = importlib.import_module("harness.commands.run")
    assert module.exit_code_of([sys.executable, "-c", program], None) == 2


def test_values_of_pytest_s_options_are_no_places(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\npython_files = listed_cases/*.py test_*.py\npythonpath = .\n")
    (project / "test_beside.py").write_text("def test_never_run(): assert False\n")
    code, _ = invoke("run", "-n", "0", "--opsets", "9", "--devices", "cpu", "--no-report", "--exporters", "parity")
    assert code == 0
    assert {record.name for record in read_records(project / "runs" / "last")} == {"elu", "relu"}


def test_a_run_of_several_exporters_shows_them_beside_each_other(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\npython_files = listed_cases/*.py\npythonpath = .\n")
    given = ("-n", "0", "--opsets", "13", "--devices", "cpu", "--no-report", "--exporters", "parity,torch_script")
    _, said = invoke("run", *given)
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines[lines.index("cells passed") + 1 :][:2] == ["parity 3", "torch_script 3"]

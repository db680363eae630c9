"""The project of a folder: which settings it has, where its declarations are, and how `parity init` begins one."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onnx_parity.harness import cli
from onnx_parity.harness.project import Settings, SettingsError, find_project, holds_declarations

pytest_plugins = "pytester"
pytestmark = pytest.mark.usefixtures("imports_as_before")

_CASES = """
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

relu = op(F.relu, floats(2, 3))
"""
_SETTINGS = """
[tool.parity]
declarations = ["cases", "more.py"]
tier = "smoke"
opsets = "9,18"
devices = ["cpu"]
runtimes = ["onnxruntime", "onnx.reference"]
seed = 4
"""


def written(folder: Path, settings: str) -> Path:
    (folder / "cases").mkdir(exist_ok=True)
    (folder / "cases" / "first.py").write_text(_CASES)
    (folder / "more.py").write_text(_CASES.replace("relu", "selu"))
    (folder / "pyproject.toml").write_text(settings)
    return folder


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, arguments)
    return result.exit_code, result.output


def test_the_nearest_file_with_settings_is_the_project_s(tmp_path: Path) -> None:
    below = written(tmp_path, _SETTINGS) / "cases"
    (below / "pyproject.toml").write_text("[tool.black]\nline-length = 88\n# nothing of parity\n")
    project = find_project(below)
    assert (project.root, project.is_configured) == (tmp_path, True)
    assert project.declarations == (below, tmp_path / "more.py")
    assert project.runs == tmp_path / "runs"
    assert project.settings.value_of("runtimes") == "onnxruntime,onnx.reference"
    assert project.settings.value_of("exporters") is None


def test_without_settings_the_files_of_the_folder_are_looked_at(tmp_path: Path) -> None:
    written(tmp_path, "")
    (tmp_path / "unrelated.py").write_text("harness = 'case'\n")
    project = find_project(tmp_path)
    assert (project.root, project.is_configured, project.settings) == (tmp_path, False, Settings())
    assert project.declarations == (tmp_path / "more.py",)
    assert holds_declarations(tmp_path / "cases") and not holds_declarations(tmp_path / "unrelated.py")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("teir = 'smoke'", "[tool.parity] has teir, which is no setting. Did you mean tier?"),
        ("colour = 'red'", "[tool.parity] has colour, which is no setting. It may hold declarations, tier, opsets, "),
        ("opsets = 9", "[tool.parity]: Expected `str | null`, got `int` - at `$.opsets`. opsets, tier and policy are "),
        ("opsets = '6'", "[tool.parity]: opsets 6: there is no opset 6 here, only 7 to 28."),
        ("tier = 'huge'", "[tool.parity]: tier huge: there is no 'huge', only smoke, default, full."),
        ("declarations = ['gone']", "[tool.parity] has declarations in gone, and "),
    ],
)
def test_settings_that_make_no_sense_are_told_by_commands_and_by_pytest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, told: str
) -> None:
    written(tmp_path, f"[tool.parity]\n{table}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError) as raised:
        find_project(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / 'pyproject.toml'}: {told}")
    assert invoke("list") == (2, f"{raised.value}\n")


def test_what_is_no_table_or_no_toml_is_told(tmp_path: Path) -> None:
    written(tmp_path, "[tool]\nparity = 3\n")
    with pytest.raises(SettingsError, match=r"is no table\. Write its settings below it: declarations, tier, "):
        find_project(tmp_path)
    written(tmp_path, "[tool.parity\n")
    with pytest.raises(SettingsError, match=r"pyproject\.toml: Expected ']'"):
        find_project(tmp_path)
    (tmp_path / "pyproject.toml").write_bytes(b"[tool.parity]\nname = '\xe9'\n")
    with pytest.raises(SettingsError, match=r"pyproject\.toml: line 2 is not UTF-8\. Save the file in this encoding"):
        find_project(tmp_path)


@pytest.mark.slow
def test_commands_and_pytest_follow_the_settings(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    root = written(pytester.path, _SETTINGS)
    monkeypatch.chdir(root)
    listed = invoke("list", "--cells")[1].splitlines()
    assert [line for line in listed if line.startswith("relu")] == [
        f"relu-float32-opset{opset}-cpu-trace-{runtime}"
        for opset in (9, 18)
        for runtime in ("onnxruntime", "onnx.reference")
    ]
    lean = ("-p", "onnx_parity", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "--collect-only", "-q")
    collected = pytester.runpytest_inprocess(*lean).outlines
    assert [line.rpartition("::")[2] for line in collected if "::" in line] == [line for line in listed if "-" in line]
    # The command line wins.
    collected = pytester.runpytest_inprocess(*lean, "cases", "--runtimes=onnxruntime", "--opsets=13").outlines
    assert [line for line in collected if "::" in line] == [
        "cases/first.py::relu::relu-float32-opset13-cpu-trace-onnxruntime"
    ]


def test_declarations_are_run_from_the_project_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = written(tmp_path, _SETTINGS) / "cases"
    monkeypatch.chdir(below)
    assert invoke("run") == (
        2,
        f"The declarations of this project are run in its folder, or by their names: cd {tmp_path}\n",
    )
    assert invoke("list", "relu")[1].splitlines()[0].endswith("first.py:5")
    (tmp_path / "empty").mkdir()
    (tmp_path / "pyproject.toml").unlink()
    monkeypatch.chdir(tmp_path / "empty")
    for command in ("run", "list"):
        code, told = invoke(command)
        assert (code, told.startswith("There are no declarations here: ")) == (2, True)


def test_a_module_that_python_finds_elsewhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "[tool.parity]\ndeclarations = ['cases']\n")
    (tmp_path / "cases" / "first.py").rename(tmp_path / "cases" / "json.py")
    monkeypatch.chdir(tmp_path)
    code, told = invoke("list")
    assert code == 2
    assert told.startswith("cases/json.py cannot be imported: Python finds ")
    assert told.endswith("by the name json. Rename the file, or put an __init__.py into cases/.\n")


def test_init_writes_first_files_and_never_changes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"')
    workflow = tmp_path / ".github" / "workflows" / "parity.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("mine")
    code, told = invoke("init", "own_cases")
    assert code == 0
    assert "kept: .github/workflows/parity.yml, which exists" in told
    assert "written: own_cases/first.py" in told and "  parity run  " in told
    assert workflow.read_text() == "mine"
    settings = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert settings == {"project": {"name": "mine"}, "tool": {"parity": {"declarations": ["own_cases"]}}}
    assert holds_declarations(tmp_path / "own_cases" / "first.py")
    code, told = invoke("init")
    assert (code, told.partition(" has a ")[2]) == (2, "[tool.parity] already. `parity list` lists what it declares.\n")


@pytest.mark.parametrize(
    ("recorded", "requirement", "says_more"),
    [
        (None, "'onnx-parity[harness]'", False),
        ({"url": "file:///home/me/onnx%20parity"}, "--find-links wheels 'onnx-parity[harness]'", True),
        (
            {"url": "https://git.example/onnx-parity", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "'onnx-parity[harness] @ git+https://git.example/onnx-parity@c0ffee'",
            False,
        ),
    ],
)
def test_the_workflow_of_init_installs_from_where_this_was_installed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorded: dict[str, object] | None,
    requirement: str,
    says_more: bool,
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if recorded is None else json.dumps(recorded)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed())
    _, told = invoke("init")
    workflow = (tmp_path / ".github" / "workflows" / "parity.yml").read_text()
    assert f"      - run: pip install {requirement}\n" in workflow
    assert ("pip wheel --no-deps --wheel-dir wheels '/home/me/onnx parity'" in told) is says_more


def test_init_says_what_it_wrote_and_refuses_strange_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("../cases", "/cases", "my cases"):
        assert invoke("init", folder)[0] == 2
    code, told = invoke("init", "--json")
    assert (code, json.loads(told)["written"]) == (
        0,
        ["parity_cases/first.py", ".github/workflows/parity.yml", "pyproject.toml"],
    )

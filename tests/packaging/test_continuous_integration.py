"""The gate's action and docs/continuous_integration.md: their steps are run as a runner would run them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import start

ROOT = Path(start.__file__).parent
ACTION = ROOT / ".github" / "actions" / "gate" / "action.yml"
PAGE = ROOT / "docs" / "continuous_integration.md"
_BLOCK = re.compile(r"^```(\w+)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_DECLARED = """
import torch
from onnx_parity.harness.case import floats, op

scaled = op(lambda x: x * 2, floats(2, 3))
kept = op(torch.relu, floats(2, 3))
"""
#: A change that makes something worse: a pair of cells that passed now fails.
_WORSE = _DECLARED.replace("x * 2", "x * (2 + torch.onnx.is_in_onnx_export())")
_SETTINGS = '[tool.parity]\ndeclarations = ["parity_cases"]\nopsets = "9,18"\ndevices = ["cpu"]\n'


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    return found


def files_of_the_page() -> dict[str, str]:
    """The files that the page shows, by name."""
    return {name: text for _, name, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))}


def test_every_script_is_one_of_its_shell() -> None:
    scripts = [step["run"] for step in steps() if "run" in step]
    assert len(scripts) == 4
    for script in (*scripts, files_of_the_page()["parity_gate.sh"]):
        checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


def test_every_step_has_what_it_names() -> None:
    """An expression of a step that is misspelt is empty, and nothing says so."""
    text = ACTION.read_text()
    action = yaml.safe_load(text)
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    ids = {step["id"]: step for step in steps() if "id" in step}
    for step, output in re.findall(r"steps\.(\w+)\.outputs\.(\w+)", text):
        assert f'"{output}=' in ids[step]["run"]
    for step in steps():
        assert ("uses" in step) != ("run" in step)
        assert "run" not in step or step["shell"] == "bash"


def test_the_workflow_of_the_page_uses_the_action() -> None:
    files = files_of_the_page()
    workflow = yaml.safe_load(files[".github/workflows/parity.yml"])
    last = workflow["jobs"]["parity"]["steps"][-1]
    assert last["uses"].partition("@")[0] == "OWNER/onnx-parity/" + ACTION.parent.relative_to(ROOT).as_posix()
    assert set(last["with"]) <= set(yaml.safe_load(ACTION.read_text())["inputs"])
    job = yaml.safe_load(files[".gitlab-ci.yml"])["parity"]
    assert job["cache"]["paths"] == [".parity/baseline", ".parity/store"]


class Runner:
    """What a runner of GitHub gives to the steps of an action, and what it keeps of one job for the next."""

    def __init__(self, project: Path, variables: Mapping[str, str]) -> None:
        self.project = project
        self.variables = variables
        self.said = ""

    def job(self, *, on_main: bool) -> bool:
        """Run every script of the action as its conditions say. Return whether the job succeeded."""
        outputs: dict[str, str] = {}
        succeeded = True
        summary = self.project / "step_summary"
        summary.write_text("")
        for step in (each for each in steps() if "run" in each):
            condition = step.get("if", "")
            if "default_branch" in condition and not (on_main and succeeded):
                continue
            if not condition and not succeeded:
                continue
            output = self.project / "step_output"
            output.write_text("")
            environment = {
                name: value.replace("${{ inputs.arguments }}", "-n 0")
                .replace("${{ inputs.policy }}", "")
                .replace("${{ steps.run.outputs.code }}", outputs.get("code", ""))
                for name, value in step.get("env", {}).items()
            }
            assert not any("${{" in value for value in environment.values())
            ran = run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                self.project,
                {
                    **self.variables,
                    **environment,
                    "GITHUB_ACTIONS": "true",
                    "GITHUB_OUTPUT": str(output),
                    "GITHUB_STEP_SUMMARY": str(summary),
                },
            )
            self.said = f"$ {step['name']}\n{ran.stdout}{ran.stderr}"
            assert "Traceback" not in self.said, self.said
            succeeded &= ran.returncode == 0
            outputs |= dict(line.split("=", 1) for line in output.read_text().splitlines())
        assert (Path(outputs["report"]) / "index.html").exists()
        return succeeded

    @property
    def summary(self) -> str:
        return (self.project / "step_summary").read_text()


def run(command: list[str], project: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "parity_cases").mkdir()
    (tmp_path / "parity_cases" / "some.py").write_text(_DECLARED)
    (tmp_path / "pyproject.toml").write_text(_SETTINGS)
    return tmp_path


@pytest.fixture
def variables(environment: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("GITHUB_")
    }
    return kept | {"PATH": f"{environment}{os.pathsep}{kept['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.slow
def test_the_steps_of_the_action_gate_a_change(project: Path, variables: dict[str, str]) -> None:
    runner = Runner(project, variables)
    assert runner.job(on_main=True), runner.said
    assert "There is no baseline yet" in runner.summary
    baseline = (project / ".parity" / "baseline" / "run.json").read_text()
    assert runner.job(on_main=False), runner.said
    assert runner.summary.startswith("## ✅ parity: no regression")
    assert re.search(r"[234] of 4 cells \(\d+%\) reused", runner.summary)
    (project / "parity_cases" / "some.py").write_text(_WORSE)
    assert not runner.job(on_main=True), runner.said
    assert "regressed: new failure (2 cells, 1 cause)" in runner.summary
    assert (project / ".parity" / "gate.xml").exists()
    # What is worse does not become the baseline.
    assert (project / ".parity" / "baseline" / "run.json").read_text() == baseline


@pytest.mark.slow
def test_the_script_of_the_page_gates_a_change(project: Path, variables: dict[str, str]) -> None:
    files = files_of_the_page()
    (project / "parity_gate.sh").write_text(files["parity_gate.sh"])
    job = yaml.safe_load(files[".gitlab-ci.yml"])["parity"]
    variables |= {"PARITY_ARGUMENTS": "-n 0", "CI_DEFAULT_BRANCH": "main"}

    def pipeline(branch: str) -> int:
        # GitLab puts the lines together, and ends at the first that fails.
        ran = run(["bash", "-ec", "\n".join(job["script"])], project, variables | {"CI_COMMIT_BRANCH": branch})
        assert "Traceback" not in ran.stderr
        return ran.returncode

    assert pipeline("main") == 0
    assert pipeline("change") == 0
    (project / "parity_cases" / "some.py").write_text(_WORSE)
    assert pipeline("change") == 1
    for path in job["artifacts"]["paths"]:
        assert (project / path / "index.html").exists()
    assert (project / job["artifacts"]["reports"]["junit"]).exists()


def test_the_scoreboard_s_script_names_runners_that_are_there() -> None:
    script = (ROOT / ".ci/scoreboard").read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    runners = ROOT / "harness/conformance/runners"
    assert re.findall(r"^    for runtime in (.+); do$|^for runtime in (.+); do$", script, re.MULTILINE) == [
        ("", "onnxruntime tract"),
        ("onnxruntime-node onnxruntime-web onnxruntime-chromium", ""),
    ]
    assert all((runners / "c" / f"{name}.c").exists() for name in ("onnxruntime", "tract"))
    assert all((runners / "js" / f"onnxruntime-{name}.mjs").exists() for name in ("node", "web", "chromium"))
    workflow = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["site"]["steps"]
    assert {".venv/bin/python -m documents site site", ".ci/scoreboard site/scoreboard"} <= {
        step.get("run") for step in steps
    }
    assert {"path": "site"} in [step.get("with") for step in steps]


def test_a_release_is_installed_with_every_python_before_it_is_published() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    assert jobs["publish"]["needs"] == "install" and jobs["install"]["needs"] == "build"
    assert jobs["install"]["strategy"]["matrix"]["python"] == [f"{major}.{minor}" for major, minor in start.SUPPORTED]
    # The index trusts the workflow, and no token is stored.
    assert jobs["publish"]["permissions"] == {"id-token": "write", "attestations": "write"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    script = (ROOT / ".ci/try-install").read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0

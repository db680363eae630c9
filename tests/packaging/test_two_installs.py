"""A plain installation exports and verifies; the harness is the extra `harness`, and says so where it is missing."""

from __future__ import annotations

import os
import subprocess
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import start
from onnx_parity.harness.extra import PACKAGES, how_to_install
from tests.packaging.conftest import link_packages

ROOT = Path(start.__file__).parent
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

_EXPORT = """
import torch, onnx_parity
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ELU())
names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
program = onnx_parity.export(model, (torch.ones(2, 4),), "model.onnx", opset_version=11, verify=True, **names)
print(program(torch.ones(5, 4)).shape)
"""
_DECLARATIONS = """
import torch
from onnx_parity.harness.case import floats, op

relu = op(torch.relu, floats(2, 3))
"""


def test_the_extra_is_listed_once_for_pip_and_once_for_the_command() -> None:
    assert {Requirement(text).name for text in EXTRAS["harness"]} == set(PACKAGES)


def test_whoever_tests_or_develops_has_the_harness() -> None:
    for extra, contained in (("test", "harness"), ("dev", "test"), ("ray", "harness"), ("runtimes", "harness")):
        ours = [Requirement(text) for text in EXTRAS[extra] if text.startswith("onnx-parity[")]
        assert any(contained in each.extras for each in ours), extra


def test_one_missing_package_is_named() -> None:
    line = 'parity needs the harness, and typer is not installed: pip install "onnx-parity[harness]"'
    assert how_to_install("parity", ["typer"]) == line


@pytest.mark.slow
def test_a_plain_installation_exports_and_names_the_extra(plain_environment: Path, tmp_path: Path) -> None:
    programs = tmp_path / "venv" / "bin"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str) -> tuple[int, str]:
        words = [str(programs / command[0]), *command[1:]]
        ran = subprocess.run(
            words, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return ran.returncode, ran.stdout

    assert run("python", "-c", _EXPORT) == (0, "torch.Size([5, 8])\n")
    # torch has brought jinja2.
    missing = [
        name for name in PACKAGES if not list(PathDistribution.discover(name=name, path=[str(plain_environment)]))
    ]
    assert {"rich", "typer", "pyarrow", "pytest", "pytest-xdist"} <= set(missing)
    for command in (("parity",), ("parity", "export", "--help"), ("python", "-m", "onnx_parity", "run")):
        assert run(*command) == (2, how_to_install("parity", missing) + "\n")

    # Somebody's own suite, in the same environment.
    link_packages(plain_environment, ["pytest"])
    (tmp_path / "test_own.py").write_text("def test_own(pytestconfig):\n    pytestconfig.getini('testpaths')\n")
    code, printed = run("python", "-m", "pytest", "-q", "test_own.py")
    assert (code, "1 passed" in printed, "plugins: onnx-parity" in run("python", "-m", "pytest")[1]) == (0, True, True)
    (tmp_path / "declared.py").write_text(_DECLARATIONS)
    code, printed = run("python", "-m", "pytest", "-q", "declared.py")
    assert code != 0
    assert "declared.py has declarations, which needs the harness, and " in printed
    assert ' are not installed: pip install "onnx-parity[harness]"' in printed

"""The listing of a project's cases, and what makes a kept one hold no longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import start
from tests.forked import run

_CASES = """
import torch
from onnx_parity.harness.case import floats, op
from of_mine import SLOPES
from pathlib import Path

Path("imported").touch()
sine = op(torch.sin, floats(2, 3))
leaky = op(torch.nn.functional.leaky_relu, floats(2, 3), negative_slope=SLOPES)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "first.py").write_text(_CASES)
    (tmp_path / "of_mine.py").write_text("SLOPES = [0.1, 0.2]\n")
    (tmp_path / "pyproject.toml").write_text('[tool.parity]\ndeclarations = ["cases"]\n')
    return tmp_path


def listed(project: Path, *arguments: str) -> tuple[list[str], bool]:
    """The first words of the lines that `parity list` prints, and whether it imported the declarations."""
    ran = run(project, "parity", "list", *arguments)
    assert ran.code == 0, ran.text
    imported = project / "imported"
    was_imported = imported.exists()
    imported.unlink(missing_ok=True)
    return [line.split()[0] for line in ran.text.splitlines()][:-1], was_imported


def test_a_listing_is_kept_until_something_changes_that_it_depends_on(project: Path) -> None:
    names = ["sine", "leaky[negative_slope=0.1]", "leaky[negative_slope=0.2]"]
    assert listed(project) == (names, True)
    assert listed(project) == (names, False)
    assert listed(project, "s*") == (["sine"], False)
    assert listed(project, "cases/first.py", "leaky", "sine") == (names, False)
    # Each selection has a listing of its own.
    assert listed(project, "--tier", "smoke") == (names, True)
    assert listed(project) == (names, False)
    assert listed(project, "--tier", "smoke") == (names, False)
    # A module that the declarations import.
    (project / "of_mine.py").write_text("SLOPES = [0.1]\n")
    assert listed(project) == (names[:2], True)
    assert listed(project) == (names[:2], False)
    # A file that has the same content was not changed.
    (project / "of_mine.py").touch()
    assert listed(project) == (names[:2], False)
    # A new file, for which the other one is not imported.
    second = _CASES.replace("sine", "second").partition("leaky")[0]
    (project / "cases" / "second.py").write_text(second.replace("imported", "imported_second"))
    assert listed(project) == ([*names[:2], "second"], False)
    assert (project / "imported_second").exists()
    # What the smoke tier has besides.
    (project / "cases" / "smoke.toml").write_text('[cases]\nsine = "float32-opset7"')
    assert listed(project, "sine", "--cells")[1]


def test_what_a_change_does_not_concern_is_not_declared_again(project: Path) -> None:
    (project / "cases" / "second.py").write_text(_CASES.replace("sine", "second").partition("leaky")[0])
    assert listed(project)[1]
    first = project / "cases" / "first.py"
    first.write_text(first.read_text().replace('Path("imported").touch()', ""))
    assert listed(project) == (["sine", "leaky[negative_slope=0.1]", "leaky[negative_slope=0.2]", "second"], False)
    # A pattern leaves the others as they are, also where it matches nothing that is kept.
    first.write_text(_CASES)
    assert listed(project, "second") == (["second"], False)
    assert listed(project, "sine") == (["sine"], True)


@pytest.mark.slow
def test_a_file_is_collected_from_its_listing_where_no_cell_is_run(project: Path) -> None:
    def collect(*arguments: str) -> tuple[list[str], bool]:
        text = run(project, "pytest", "--collect-only", "-q", *arguments).text
        imported = project / "imported"
        was_imported = imported.exists()
        imported.unlink(missing_ok=True)
        return [line for line in text.splitlines() if "::" in line], was_imported

    listed(project)
    cells, imported = collect("cases", "-k", "sine and opset9")
    assert not imported
    assert [each.partition("-")[0] for each in cells] == ["cases/first.py::sine::sine"]
    assert collect(cells[0]) == (cells, True)
    first = project / "cases" / "first.py"
    first.write_text(f"{_CASES}\n\ndef test_a_slope():\n    assert SLOPES\n")
    assert collect("cases", "-k", "sine and opset9 or test_a") == ([*cells, "cases/first.py::test_a_slope"], True)
    first.write_text(f"{_CASES}\nsine = op(torch.cos, floats(2))\n")
    assert "sine is declared twice" in run(project, "pytest", "--collect-only", "-q", "cases").text


@pytest.mark.slow
def test_a_listing_that_is_kept_imports_no_torch(project: Path) -> None:
    names, _ = listed(project)
    command = [sys.executable, "-X", "importtime", "-m", "onnx_parity", "list"]
    environment = {**os.environ, "PYTHONPATH": str(Path(start.__file__).parent)}
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines()][:-1] == names
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "msgspec" in imported and "torch" not in imported
    command = [sys.executable, "-X", "importtime", "-m", "pytest", "--collect-only", "-q", "cases"]
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "msgspec" in imported and "torch" not in imported


def test_a_file_outside_of_the_settings_is_listed_by_its_name(project: Path) -> None:
    (project / "mine.py").write_text(_CASES.replace("sine", "other"))
    assert listed(project, "mine.py", "oth*") == (["other"], True)


@pytest.mark.slow
def test_a_listing_that_is_damaged_is_taken_anew(project: Path) -> None:
    assert listed(project)[1]
    [kept] = (project / "runs").glob(".listing-*.json")
    kept.write_text('{"key": 3')
    assert listed(project)[1]
    assert not listed(project)[1]


@pytest.mark.slow
def test_the_listings_of_the_last_selections_are_kept(project: Path) -> None:
    for opset in range(9, 17):
        assert listed(project, "--opsets", str(opset))[1]
    assert not listed(project, "--opsets", "16")[1]
    assert len([*(project / "runs").glob(".listing-*.json")]) == 6
    assert listed(project, "--opsets", "9")[1]

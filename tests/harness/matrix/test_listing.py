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
    # The tier is another one, and afterwards the listing is that of this tier.
    assert listed(project, "--tier", "smoke") == (names, True)
    # A module that the declarations import.
    (project / "of_mine.py").write_text("SLOPES = [0.1]\n")
    assert listed(project) == (names[:2], True)
    assert listed(project) == (names[:2], False)
    # A new file.
    (project / "cases" / "second.py").write_text(_CASES.replace("sine", "second").partition("leaky")[0])
    assert listed(project) == ([*names[:2], "second"], True)


def test_a_listing_that_is_kept_imports_no_torch(project: Path) -> None:
    names, _ = listed(project)
    command = [sys.executable, "-X", "importtime", "-m", "onnx_parity", "list"]
    environment = {**os.environ, "PYTHONPATH": str(Path(start.__file__).parent)}
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines()][:-1] == names
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "msgspec" in imported and "torch" not in imported


def test_a_file_outside_of_the_settings_is_listed_by_its_name(project: Path) -> None:
    (project / "mine.py").write_text(_CASES.replace("sine", "other"))
    assert listed(project, "mine.py", "oth*") == (["other"], True)


def test_a_listing_that_is_damaged_is_taken_anew(project: Path) -> None:
    (project / "runs").mkdir()
    (project / "runs" / ".listing.json").write_text('{"key": 3')
    assert listed(project)[1]
    assert not listed(project)[1]

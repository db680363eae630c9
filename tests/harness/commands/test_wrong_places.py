"""Commands that are given what is no file, or that are called in a folder where they would mix two packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from onnx_parity.harness.cli import app


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("elu*", "There is no file or folder elu*. Cells are chosen by a part of their ids: parity run -k elu\n"),
        ("nothing.py", "There is no file or folder nothing.py.\n"),
    ],
)
def test_what_is_no_file_is_refused_before_anything_runs(word: str, said: str) -> None:
    assert invoke("run", word) == (2, said)


def test_an_installed_package_does_not_run_in_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onnx_parity").mkdir()
    (tmp_path / "onnx_parity" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    code, text = invoke("list")
    assert code == 2
    assert text.startswith(f"{tmp_path} has the package onnx_parity, as a clone of the project does, and this command")

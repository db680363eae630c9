"""Timing the matrix, on a declaration file of one small case and on one that pytest cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.jobs import Failure
from benchmarks.matrix import measure_matrix
from benchmarks.results import MatrixTime


def declaration(folder: Path, text: str) -> str:
    (folder / "op_cases").mkdir()
    path = folder / "op_cases" / "one.py"
    path.write_text(text)
    return str(path)


@pytest.fixture(autouse=True)
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "1")


@pytest.mark.slow
def test_counts_the_cells_that_ran(tmp_path: Path) -> None:
    path = declaration(
        tmp_path, "import torch\nfrom onnx_parity.harness.case import floats, op\nneg = op(torch.neg, floats(2))\n"
    )
    time = measure_matrix((path,), tmp_path / "runs")
    assert isinstance(time, MatrixTime)
    # Opsets 7 to 26 on the CPU, and one on CUDA, whether or not there is any.
    assert time.cells == 21
    assert time.rate() == 21 / time.seconds


@pytest.mark.slow
def test_pytest_that_runs_nothing_is_a_failure(tmp_path: Path) -> None:
    outcome = measure_matrix((str(tmp_path / "missing.py"),), tmp_path / "runs")
    assert isinstance(outcome, Failure)
    assert outcome.reason == f"ERROR: file or directory not found: {tmp_path / 'missing.py'}"

"""Measures the speed of the matrix: the whole of `pytest -n auto`, from its start to its last line."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.children import ROOT
from benchmarks.jobs import Failure
from benchmarks.results import MatrixTime
from onnx_parity.harness.store import read_records

#: pytest's exit codes if all tests were run, with or without failures.
_RAN = (0, 1)


def measure_matrix(selection: tuple[str, ...], place: Path) -> MatrixTime | Failure:
    """Run the cells of a selection. Their records are written below `place`."""
    command = [sys.executable, "-m", "pytest", "-n", "auto", "-q", "--runs", str(place), *selection]
    start = time.perf_counter()
    ran = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if ran.returncode not in _RAN:
        words = [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
        return Failure(words[-1] if words else f"pytest ended with status {ran.returncode} and no word")
    return MatrixTime(cells=sum(1 for _ in read_records(place / "last")), seconds=seconds)

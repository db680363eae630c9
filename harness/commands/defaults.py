"""The folders in which the commands look for declarations and for runs: those of a clone of the project."""

from __future__ import annotations

from pathlib import Path

DECLARATIONS = (Path("op_cases"), Path("model_zoo"))
RUNS = Path("runs")
LAST = RUNS / "last"

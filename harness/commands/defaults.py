"""Where the commands look: declarations and runs of a clone of the project; and how they end when used wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import typer

#: Where declarations stand in a clone of the project.
DECLARATIONS = (Path("op_cases"), Path("model_zoo"))
RUNS = Path("runs")
LAST = RUNS / "last"


def refuse(message: str) -> NoReturn:
    """End a command that was used wrongly."""
    typer.echo(message, err=True)
    raise typer.Exit(2)

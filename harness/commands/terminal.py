"""How the commands write to the terminal, and how they end when they were used wrongly."""

from __future__ import annotations

from typing import NoReturn

import msgspec
import typer

from onnx_parity.harness.escaping import visible


def print_text(text: str, *, error: bool = False, end_line: bool = True) -> None:
    """Print a text, to standard error where asked, with escape sequences and other invisible characters shown."""
    typer.echo(visible(text), err=error, nl=end_line)


def print_json(value: object) -> None:
    """Print a value as JSON in one line."""
    typer.echo(msgspec.json.encode(value))


def refuse(message: str) -> NoReturn:
    """End a command that was used wrongly, with exit code 2."""
    print_text(message, error=True)
    raise typer.Exit(2)

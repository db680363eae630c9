"""Output of the commands to the terminal, and the end of a command that was used wrongly."""

from __future__ import annotations

import json
from typing import NoReturn

import msgspec
import typer

from onnx_parity.harness.escaping import visible


def print_text(text: str, *, error: bool = False, end_line: bool = True) -> None:
    """Print a text, to standard error if `error`, with escape sequences and other invisible characters shown."""
    typer.echo(visible(text), err=error, nl=end_line)


def print_json(value: object) -> None:
    """Print a value as JSON in one line."""
    try:
        text: str | bytes = msgspec.json.encode(value)
    except UnicodeEncodeError:  # Names of files may contain surrogates, which JSON can escape.
        text = json.dumps(msgspec.to_builtins(value), separators=(",", ":"))
    typer.echo(text)


def refuse(message: str) -> NoReturn:
    """End a command that was used wrongly, with exit code 2."""
    print_text(message, error=True)
    raise typer.Exit(2)

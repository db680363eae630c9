"""Output of the commands to the terminal, and the end of a command that was used wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import msgspec
import typer

from onnx_parity.harness.escaping import visible
from onnx_parity.harness.results.completeness import shortcomings
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import Records, read_end, read_info


def print_text(text: str, *, error: bool = False, end_line: bool = True) -> None:
    """Print a text, to standard error if `error`, with escape sequences and other invisible characters shown."""
    typer.echo(visible(text), err=error, nl=end_line)


def warn_of_damage(records: Records) -> None:
    """Print to standard error which parts of a run could not be read. The command goes on with the rest."""
    if records.damage:
        print_text(records.damage, error=True)


def warn_of_shortcomings(run: Path, damage: str = "") -> None:
    """Print to standard error which cells the run lacks and why, before the results of the others."""
    for line in shortcomings_of(run, damage):
        print_text(line, error=True)


def shortcomings_of(run: Path, damage: str = "") -> list[str]:
    info = read_info(run)
    try:
        end = read_end(run)
    except RunStoreError:
        # `damage` describes it.
        return [damage] if damage else []
    return shortcomings(run, info, end, damage)


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

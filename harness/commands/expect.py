"""`parity expect`: the expectations that a run asks for."""

from __future__ import annotations

import difflib
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands.defaults import refuse
from onnx_parity.harness.expecting.expectation_edits import edit
from onnx_parity.harness.expecting.expectations import FILE, ExpectationError
from onnx_parity.harness.record import Record
from onnx_parity.harness.store import RunStoreError, read_info, read_records


def expect(
    run: Annotated[Path, typer.Argument(help="The run's folder.")] = Path("runs/last"),
    update: Annotated[bool, typer.Option("--update", help="Write the edit, not only show it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The edit of each file, as JSON.")] = False,
) -> None:
    """Show the smallest edit after which the expectations say what a run found.

    Expectations whose cells pass are narrowed or removed; what failed unforeseen gets an entry, whose reason and link
    are yours to write. Cells that the run did not have are left as they are. Exit code: 0 where nothing is to be
    changed, 1 where something is, or was.

    Examples:

        parity run op_cases/sorting.py; parity expect

        parity expect runs/20260131-101500-4711 --update
    """
    try:
        versions = read_info(run).packages
        records: defaultdict[Path, list[Record]] = defaultdict(list)
        for record in read_records(run):
            records[Path(record.file).parent / FILE].append(record)
        edits = {path: edit(_text(path), path, found, versions) for path, found in records.items()}
    except (ExpectationError, RunStoreError) as error:
        refuse(str(error))
    edits = {path: proposed for path, proposed in edits.items() if proposed.text != _text(path)}
    differences = {path: "".join(_difference(path, _text(path), proposed.text)) for path, proposed in edits.items()}
    if as_json:
        told = [
            {"path": str(path), "changes": proposed.changes, "difference": differences[path], "written": update}
            for path, proposed in edits.items()
        ]
        typer.echo(msgspec.json.encode(told))
    for path, proposed in edits.items():
        if not as_json:
            for change in proposed.changes:
                typer.echo(f"{path}: {change}", err=True)
            typer.echo(differences[path], nl=False)
        if update:
            path.write_text(proposed.text, encoding="utf-8")
    raise typer.Exit(1 if edits else 0)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _difference(path: Path, before: str, after: str) -> list[str]:
    names = (f"a/{path}", f"b/{path}")
    return list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), *names))

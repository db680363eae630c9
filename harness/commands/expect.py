"""`parity expect`: edits of the expectation files that make them agree with a run."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.expecting.expectation_edits import Edit, edit
from onnx_parity.harness.expecting.expectations import FILE, ExpectationError
from onnx_parity.harness.record import Record
from onnx_parity.harness.store import RunStoreError, read_info, read_records


def expect(
    run: Annotated[Path, typer.Argument(help="The folder of the run.")] = Path("runs/last"),
    update: Annotated[bool, typer.Option("--update", help="Write the edits to the files, not only show them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the edit of each file as JSON.")] = False,
) -> None:
    """Show the smallest edits with which the expectation files agree with the outcomes of a run.

    Expectations whose cells now pass are narrowed or removed. Cells that failed without an expectation get an entry;
    its reason and link are left for you to fill in. Cells that the run did not contain are not touched.

    Exit codes: 0 if nothing needs to change; 1 if something needs to change, or was changed by --update; 2 if the
    command was used wrongly.

    Examples:

        parity run op_cases/sorting.py; parity expect

        parity expect runs/20260131-101500-4711 --update
    """
    try:
        edits = _proposed_edits(run)
    except (ExpectationError, RunStoreError) as error:
        refuse(str(error))
    differences = {path: "".join(_difference(path, _text(path), proposed.text)) for path, proposed in edits.items()}
    if as_json:
        print_json(
            [
                {"path": str(path), "changes": proposed.changes, "difference": differences[path], "written": update}
                for path, proposed in edits.items()
            ]
        )
    for path, proposed in edits.items():
        if not as_json:
            for change in proposed.changes:
                print_text(f"{path}: {change}", error=True)
            print_text(differences[path], end_line=False)
        if update:
            path.write_text(proposed.text, encoding="utf-8")
    raise typer.Exit(1 if edits else 0)


def _proposed_edits(run: Path) -> Mapping[Path, Edit]:
    """The expectation files that do not agree with the run, and the edits that make them agree."""
    versions = read_info(run).packages
    records: defaultdict[Path, list[Record]] = defaultdict(list)
    for record in read_records(run):
        records[Path(record.file).parent / FILE].append(record)
    edits = {path: edit(_text(path), path, found, versions) for path, found in records.items()}
    return {path: proposed for path, proposed in edits.items() if proposed.text != _text(path)}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _difference(path: Path, before: str, after: str) -> list[str]:
    names = (f"a/{path}", f"b/{path}")
    return list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), *names))

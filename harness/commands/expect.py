"""`parity expect`: edits of the expectation files that make them agree with a run."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.run_store_error import RunStoreError


def expect(
    run: Annotated[
        Path, typer.Argument(help="The folder of the run.", default_factory=defaults.last, show_default="runs/last")
    ],
    update: Annotated[bool, typer.Option("--update", help="Write the edits to the files, not only show them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the edit of each file as JSON.")] = False,
) -> None:
    """Show the smallest edits with which the expectation files, and the lists of refusals, agree with a run.

    Expectations whose cells now pass are narrowed or removed. Cells that failed without an expectation get an entry;
    its reason and link are left for you to fill in. Other runtimes and transformations have a file each in the folder
    `expectations/`: where they refuse a model with an error, the reason is that error. `unsupported.toml` is made to
    name the cells that the exporter refused, and `no_kernel.toml` the kernels that onnxruntime lacked. Cells that the
    run did not contain are not touched.

    Exit codes: 0 if nothing needs to change, or --update has changed it; 1 if something needs to change; 2 if the
    command was used wrongly.

    Examples:

        parity run op_cases/sorting.py; parity expect

        parity expect runs/20260131-101500-4711 --update
    """
    from onnx_parity.harness.commands.proposed_edits import proposed_edits, text_of
    from onnx_parity.harness.expecting.expectations import ExpectationError

    try:
        edits = proposed_edits(run)
    except (ExpectationError, RunStoreError) as error:
        refuse(str(error))
    differences = {path: "".join(_difference(path, text_of(path), proposed.text)) for path, proposed in edits.items()}
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
            path.parent.mkdir(exist_ok=True)
            path.write_text(proposed.text, encoding="utf-8")
    if not edits and not as_json:
        print_text(f"The expectation files agree with {run}.", error=True)
    raise typer.Exit(1 if edits and not update else 0)


def _difference(path: Path, before: str, after: str) -> list[str]:
    names = (f"a/{path}", f"b/{path}")
    return list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), *names))

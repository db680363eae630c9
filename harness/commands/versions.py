"""`parity versions`: writes docs/versions.md from runs with several versions of torch, onnx and onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.results.versions_table import page, row_of
from onnx_parity.harness.run_store_error import RunStoreError


def versions(
    runs: Annotated[list[Path], typer.Argument(help="The folders of the runs, one for each row of the table.")],
    not_run: Annotated[
        list[str] | None,
        typer.Option(
            help="A version that has no run, and why, for the page: 'torch 2.14.1: no wheel for this platform'."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The Markdown file to write.")] = Path("docs") / "versions.md",
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Write a Markdown table of runs with different versions of Python, torch, onnx and onnxruntime.

    Exit codes: 0 if the table was written; 2 if a folder has no whole run.

    Examples:

        tox -m versions && parity versions .tox/versions/*/last

        parity versions .tox/versions/*/last --not-run "python 3.13: there is no interpreter"
    """
    try:
        rows = [row_of(run) for run in runs]
    except RunStoreError as error:
        refuse(str(error))
    out.write_text(page(rows, not_run or ()), encoding="utf-8")
    if as_json:
        print_json(rows)
    else:
        print_text(f"versions: {out}")

"""`parity merge`: merges the shards of a run into one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.results.merging import merge as merge_runs
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import damage_of


def merge(
    runs: Annotated[list[Path], typer.Argument(help="The folders of the runs to merge.")],
    into: Annotated[Path, typer.Option(help="The folder in which the merged run is created.")] = Path("runs"),
    partial: Annotated[bool, typer.Option("--partial", help="Merge even if some shards are missing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the folder of the merged run as JSON.")] = False,
) -> None:
    """Merge the shards of a run into a new run. `parity report` and `parity gate` take it like any other run.

    Examples:

        parity run --shard 1/2 && parity run --shard 2/2

        parity merge runs/20260131-101500-4711 runs/20260131-101502-4712
    """
    try:
        run = merge_runs(runs, into, partial=partial)
    except RunStoreError as error:
        refuse(str(error))
    if damage := damage_of(run):
        print_text(damage, error=True)
    if as_json:
        print_json({"run": str(run)})
    else:
        print_text(f"run: {run}")

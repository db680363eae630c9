"""`parity merge`: the shards of a run as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands.defaults import refuse
from onnx_parity.harness.results.merging import merge as merge_runs
from onnx_parity.harness.store import RunStoreError


def merge(
    runs: Annotated[list[Path], typer.Argument(help="The folders of the runs.")],
    into: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs"),
    partial: Annotated[bool, typer.Option("--partial", help="Also when shards are missing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Where it was written, as JSON.")] = False,
) -> None:
    """Merge the shards of a run into a new run, which reports and gates take like any other.

    Examples:

        parity run --shard 1/2 && parity run --shard 2/2

        parity merge runs/20260131-101500-4711 runs/20260131-101502-4712
    """
    try:
        run = merge_runs(runs, into, partial=partial)
    except RunStoreError as error:
        refuse(str(error))
    typer.echo(msgspec.json.encode({"run": str(run)}) if as_json else f"run: {run}")

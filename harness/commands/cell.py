"""What the commands about one cell share: finding it, taking it apart, telling what cannot be done."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.commands import defaults

if TYPE_CHECKING:
    from onnx_parity.harness.localisation.localise import Localisation, Suspect
    from onnx_parity.harness.matrix.cells import Cell

CellId = Annotated[str, typer.Argument(metavar="CELL", help="A cell's id, or the node id of an `again:` line.")]
Seed = Annotated[int, typer.Option(help="The seed of the run.")]
Window = Annotated[int, typer.Option(min=1, help="Operators that are exported and held at a time.")]
AsJson = Annotated[bool, typer.Option("--json", help="What was found, as JSON.")]


def found(cell: str) -> Cell:
    from onnx_parity.harness.matrix.lookup import find_cell

    return find_cell(cell, defaults.DECLARATIONS)


def localised(cell: str, seed: int, window: int) -> tuple[Suspect, Localisation]:
    from onnx_parity.harness.localisation.localise import Suspect, localise

    suspect = Suspect.of(found(cell), seed=seed)
    return suspect, localise(suspect, window=window)


@contextmanager
def telling() -> Iterator[None]:
    """What was asked for in vain is told in a line; what torch deprecates is not told at all."""
    from onnx_parity.harness.judging.bundle import BundleError
    from onnx_parity.harness.localisation.localise import NothingToLocaliseError
    from onnx_parity.harness.matrix.lookup import NoSuchCellError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (BundleError, NoSuchCellError, NothingToLocaliseError) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from error

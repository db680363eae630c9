"""The common part of commands for one cell: their options, finding the cell, and reporting expected errors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import refuse

if TYPE_CHECKING:
    from onnx_parity.harness.localisation.localise import Localisation, Suspect
    from onnx_parity.harness.matrix.cells import Cell

CellId = Annotated[
    str,
    typer.Argument(
        metavar="CELL", help="The id of a cell, as `parity list --cells` prints it, or the node id of an `again:` line."
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        default_factory=defaults.seed,
        show_default="0, or that of the settings",
        help="The seed from which inputs and weights are drawn. Use the seed of the run that failed.",
    ),
]
Window = Annotated[
    int,
    typer.Option(
        min=1, help="How many operators are exported and kept in memory at a time. A smaller number takes less memory."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def find(cell: str, paths: list[Path] | None) -> Cell:
    """The cell of an id, from these files and folders of declarations, or from those of the project."""
    from onnx_parity.harness.matrix.lookup import find_cell

    return find_cell(cell, defaults.declarations(paths))


def localise_cell(cell: str, paths: list[Path] | None, seed: int, window: int) -> tuple[Suspect, Localisation]:
    """The failing cell, and its first operator that diverges."""
    from onnx_parity.harness.localisation.localise import Suspect, localise

    suspect = Suspect.of(find(cell, paths), seed=seed)
    return suspect, localise(suspect, window=window)


@contextmanager
def expected_errors_in_one_line() -> Iterator[None]:
    """A context that ends the command with a message of one line if the cell does not exist or cannot be used.

    Warnings, such as torch's deprecations, are not shown.
    """
    from onnx_parity.exporter.verification.bundle import BundleError
    from onnx_parity.harness.localisation.localise import NothingToLocaliseError
    from onnx_parity.harness.matrix.lookup import NoSuchCellError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (BundleError, NoSuchCellError, NothingToLocaliseError) as error:
            refuse(str(error))

"""`parity documents`: the pages that are written from the code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["PAGES", "documents"]

PAGES = ("surface.md", "api.md")


def documents(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where they are written.")] = Path("docs"),
) -> None:
    """Write the table of torch.onnx's names, surface.md, and the reference of `exporter`, api.md.

    Examples:

        parity documents

        parity documents /tmp/docs
    """
    from harness.surface import reference, table

    if not folder.is_dir():
        typer.echo(f"{folder} is no folder that exists", err=True)
        raise typer.Exit(2)
    for name, text in zip(PAGES, (table.page(), reference.page()), strict=True):
        (folder / name).write_text(text)
        typer.echo(f"{folder / name}")

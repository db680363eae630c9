"""`parity documents`: the pages that are written from the code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands.defaults import refuse

__all__ = ["PAGES", "documents"]

PAGES = ("surface.md", "api.md")


def documents(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where they are written.")] = Path("docs"),
    as_json: Annotated[bool, typer.Option("--json", help="What was written, as JSON.")] = False,
) -> None:
    """Write the table of torch.onnx's names, surface.md, and the reference of `exporter`, api.md.

    Examples:

        parity documents

        parity documents /tmp/docs
    """
    from onnx_parity.harness.surface import reference, table

    if not folder.is_dir():
        refuse(f"{folder} is no folder that exists")
    for name, text in zip(PAGES, (table.page(), reference.page()), strict=True):
        (folder / name).write_text(text)
        if not as_json:
            typer.echo(f"{folder / name}")
    if as_json:
        typer.echo(msgspec.json.encode({"documents": [str(folder / name) for name in PAGES]}))

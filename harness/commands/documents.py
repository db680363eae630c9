"""`parity documents`: writes the pages of the documentation that are generated from the code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.commands.terminal import print_json, print_text, refuse

__all__ = ["PAGES", "documents"]

PAGES = ("surface.md", "api.md")


def documents(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to write the pages to.")] = Path("docs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths of the written pages as JSON.")] = False,
) -> None:
    """Write the generated pages of the documentation: surface.md and api.md.

    `surface.md` lists every name of torch.onnx and whether it is supported here; `api.md` is the reference of
    `onnx_parity`, from its docstrings.

    Examples:

        parity documents

        parity documents /tmp/docs
    """
    from onnx_parity.harness.surface import api_page, table

    if not folder.is_dir():
        refuse(f"The pages cannot be written to {folder}: there is no such folder. Create it, or name another one.")
    for name, text in zip(PAGES, (table.page(), api_page.page()), strict=True):
        (folder / name).write_text(text)
        if not as_json:
            print_text(f"{folder / name}")
    if as_json:
        print_json({"documents": [str(folder / name) for name in PAGES]})

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
    site: Annotated[
        Path | None, typer.Option(help="Write the whole documentation as HTML to this folder instead.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths of the written pages as JSON.")] = False,
) -> None:
    """Write the generated pages of the documentation: surface.md and api.md.

    `surface.md` lists every name of torch.onnx and whether it is supported here; `api.md` is the reference of
    `onnx_parity`, from its docstrings. With `--site`, every document of this clone becomes a page of a site, and a link
    that leads nowhere is an error.

    Exit codes: 0 if the pages were written; 1 if a link leads nowhere; 2 if the command was used wrongly.

    Examples:

        parity documents

        parity documents /tmp/docs

        parity documents --site /tmp/site
    """
    if site is not None:
        _write_site(site, as_json=as_json)
        return
    from onnx_parity.harness.surface import api_page, table

    if not folder.is_dir():
        refuse(f"The pages cannot be written to {folder}: there is no such folder. Create it, or name another one.")
    for name, text in zip(PAGES, (table.page(), api_page.page()), strict=True):
        (folder / name).write_text(text)
        if not as_json:
            print_text(f"{folder / name}")
    if as_json:
        print_json({"documents": [str(folder / name) for name in PAGES]})


def _write_site(folder: Path, *, as_json: bool) -> None:
    from onnx_parity.harness.surface.site import SECTIONS, DeadLinkError, build_site

    here = Path.cwd()
    missing = next((page for pages in SECTIONS.values() for page in pages if not (here / page).is_file()), None)
    if missing is not None:
        refuse(f"{here} is no clone of the project: it has no {missing}. Run this in a clone.")
    try:
        pages = build_site(here, folder)
    except DeadLinkError as error:
        print_text(str(error), error=True)
        raise typer.Exit(1) from error
    if as_json:
        print_json({"documents": [str(page) for page in pages]})
    else:
        print_text(str(pages[0]))

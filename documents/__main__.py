"""`python -m documents`: writes the generated pages of the documentation. It is run in a clone of the project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from documents import api_page, harness_page, surface_page, versions_page
from documents.index_of_rules import INDEX, index
from documents.public_api import RELEASED, signatures
from documents.site import SECTIONS, DeadLinkError, build_site
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.run_store_error import RunStoreError

PAGES = ("surface.md", "api.md", "harness_reference.md")

app = typer.Typer(name="documents", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown")


@app.command()
def pages(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to write the pages to.")] = Path("docs"),
) -> None:
    """Write surface.md, every name of torch.onnx and whether it is supported here, and api.md and harness_reference.md,
    the references of the exporter and of the harness.

    They follow from the code. Exit codes: 0 if the pages were written; 2 if there is no such folder.
    """
    if not folder.is_dir():
        refuse(f"The pages cannot be written to {folder}: there is no such folder. Create it, or name another one.")
    for name, text in zip(PAGES, (surface_page.page(), api_page.page(), harness_page.page()), strict=True):
        (folder / name).write_text(text)
        print_text(f"{folder / name}")


@app.command(name="index")
def write_index() -> None:
    """Write which file of the exporter has which rules of operators, after rules have been added, moved or removed."""
    INDEX.write_text(index(), encoding="utf-8")
    print_text(str(INDEX))


@app.command()
def released() -> None:
    """Write the public names and their parameters as those of the last release: once for each release."""
    RELEASED.write_text("\n".join(signatures()) + "\n", encoding="utf-8")
    print_text(str(RELEASED))


@app.command()
def site(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to write the site to.")]) -> None:
    """Write every document of this clone as a page of a site. A link that leads nowhere is an error.

    Exit codes: 0 if the site was written; 1 if a link leads nowhere; 2 if this is no clone of the project.
    """
    here = Path.cwd()
    missing = next((page for pages in SECTIONS.values() for page in pages if not (here / page).is_file()), None)
    if missing is not None:
        refuse(f"{here} is no clone of the project: it has no {missing}. Run this in a clone.")
    try:
        written = build_site(here, folder)
    except DeadLinkError as error:
        print_text(str(error), error=True)
        raise typer.Exit(1) from error
    print_text(str(written[0]))


@app.command()
def versions(
    runs: Annotated[list[Path], typer.Argument(help="The folders of the runs, one for each row of the table.")],
    not_run: Annotated[
        list[str] | None,
        typer.Option(help="A version that has no run, and why: 'torch 2.14.1: no wheel for this platform'."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The Markdown file to write.")] = Path("docs") / "versions.md",
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Write a Markdown table of runs with different versions of Python, torch, onnx and onnxruntime.

    Exit codes: 0 if the table was written; 2 if a folder has no whole run.

    Examples:

        tox -m versions && python -m documents versions .tox/versions/*/last

        python -m documents versions .tox/versions/*/last --not-run "python 3.13: there is no interpreter"
    """
    try:
        rows = [versions_page.row_of(run) for run in runs]
    except RunStoreError as error:
        refuse(str(error))
    out.write_text(versions_page.page(rows, not_run or ()), encoding="utf-8")
    if as_json:
        print_json(rows)
    else:
        print_text(f"versions: {out}")


if __name__ == "__main__":
    app()

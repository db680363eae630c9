"""`parity opinfo-survey`: find out anew which OpInfo samples are usable, and write it beside the declarations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import track

from onnx_parity.harness.cases.opinfo_entries import survey_path, write_survey
from onnx_parity.harness.commands.defaults import refuse


def survey(
    declarations: Annotated[Path, typer.Argument(help="The declaration file.")] = Path("op_cases/opinfo.py"),
    as_json: Annotated[bool, typer.Option("--json", help="What was found and written, as JSON.")] = False,
) -> None:
    """Write the survey of a declaration file's OpInfo entries: which of their samples torch runs, by dtype.

    To be done after a change of its entries or of torch; it takes some minutes.

    Examples:

        parity opinfo-survey

        parity opinfo-survey op_cases/opinfo.py
    """
    import torch

    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.cases.opinfo_samples import usable_samples
    from onnx_parity.harness.opinfo import OpInfoDeclaration

    if not declarations.is_file():
        refuse(f"{declarations} is no file that exists")
    if not declarations.resolve().is_relative_to(Path.cwd()):
        refuse(f"{declarations} lies outside of {Path.cwd()}, from where it is imported: go to its project's root")
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path.cwd()))
    names = [
        entry
        for _, declaration in declared_under(declarations.parent)
        if isinstance(declaration, OpInfoDeclaration) and declaration.file.resolve() == declarations.resolve()
        for entry in declaration.entry_names
    ]
    if not names:
        refuse(f"{declarations} declares no OpInfo entries")
    usable = {name: usable_samples(name) for name in track(names, description="", transient=True)}
    path = survey_path(declarations)
    write_survey(path, str(torch.__version__), usable)
    samples = sum(len(positions) for dtypes in usable.values() for positions in dtypes.values())
    if as_json:
        typer.echo(msgspec.json.encode({"survey": str(path), "samples": samples, "entries": len(usable)}))
        return
    typer.echo(f"{path}: {samples} usable samples of {len(usable)} entries, counted in every dtype")

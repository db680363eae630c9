"""`parity opinfo-survey`: finds the OpInfo samples that PyTorch can run, and lists them beside the declarations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from onnx_parity.harness.cases.opinfo_entries import survey_path, write_survey
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse


def survey(
    declarations: Annotated[Path, typer.Argument(help="The file that declares the OpInfo entries.")] = Path(
        "op_cases/opinfo.py"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the number of usable samples and the written file as JSON.")
    ] = False,
) -> None:
    """Run every OpInfo sample of a declaration file in PyTorch, and write down which of them are usable, by dtype.

    Run this after its entries, or the version of PyTorch, have changed. It takes some minutes.

    Examples:

        parity opinfo-survey

        parity opinfo-survey op_cases/opinfo.py
    """
    import torch

    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.cases.opinfo_samples import usable_samples
    from onnx_parity.harness.opinfo import OpInfoDeclaration

    if not declarations.is_file():
        refuse(f"{declarations} cannot be surveyed: there is no such file. Name a file that declares OpInfo entries.")
    if not declarations.resolve().is_relative_to(Path.cwd()):
        refuse(
            f"{declarations} cannot be imported from {Path.cwd()}, because it is outside of that folder. "
            "Run this in the root of its project."
        )
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path.cwd()))
    names = [
        entry
        for _, declaration in declared_under(declarations.parent)
        if isinstance(declaration, OpInfoDeclaration) and declaration.file.resolve() == declarations.resolve()
        for entry in declaration.entry_names
    ]
    if not names:
        refuse(f"{declarations} cannot be surveyed: it declares no OpInfo entries.")
    usable = {name: usable_samples(name) for name in track(names, description="", transient=True)}
    path = survey_path(declarations)
    write_survey(path, str(torch.__version__), usable)
    samples = sum(len(positions) for dtypes in usable.values() for positions in dtypes.values())
    if as_json:
        print_json({"survey": str(path), "samples": samples, "entries": len(usable)})
        return
    print_text(f"{path}: {samples} usable samples of {len(usable)} entries, counted in every dtype")

"""`parity opinfo-survey`: finds the OpInfo samples that PyTorch can run, and lists them beside the declarations."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.cases.opinfo_entries import (
    DTYPES,
    DTYPES_OF_DATABASE,
    EXCLUDED,
    Database,
    survey_path,
    write_survey,
)
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse

if TYPE_CHECKING:
    from onnx_parity.harness.opinfo import OpInfoDeclaration


def survey(
    declarations: Annotated[Path, typer.Argument(help="The file that declares the OpInfo entries.")] = Path(
        "op_cases/opinfo.py"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the number of usable samples and the written files as JSON.")
    ] = False,
    database: Annotated[
        bool, typer.Option("--database", help="All entries of torch's databases, not those of a file.")
    ] = False,
) -> None:
    """Run every OpInfo sample of a declaration file in PyTorch, and write down which of them are usable, by dtype.

    Run this after its entries, or the version of PyTorch, have changed. It takes some minutes. With `--database`, the
    samples of all operators and all modules of torch's databases are run, and what is usable is written beside
    `op_cases/operator_database.py` and `op_cases/module_database.py`.

    Examples:

        parity opinfo-survey

        parity opinfo-survey op_cases/opinfo.py

        parity opinfo-survey op_cases/module_database.py

        parity opinfo-survey --database
    """
    import torch
    from rich.progress import track

    from onnx_parity.harness.cases.opinfo_samples import usable_samples

    torch.set_num_threads(1)
    written = []
    for file in [each.value for each in Database] if database else [declarations]:
        names, dtypes = _entries_to_survey(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # They are of torch's own samples.
            usable = {name: usable_samples(name, dtypes) for name in track(names, description="", transient=True)}
        path = survey_path(file)
        write_survey(path, str(torch.__version__), usable)
        samples = sum(len(positions) for by_dtype in usable.values() for positions in by_dtype.values())
        written.append({"survey": str(path), "samples": samples, "entries": len(usable)})
    if as_json:
        print_json(written if database else written[0])
        return
    for each in written:
        print_text(f"{each['survey']}: {each['samples']} usable samples of {each['entries']} entries, in every dtype")


def _entries_to_survey(declarations: Path) -> tuple[list[str], tuple[Dtype, ...]]:
    """The entries of a declaration file, and the dtypes that are surveyed."""
    from onnx_parity.harness.cases.opinfo_samples import all_entries, all_modules

    found = _find_declarations(declarations)
    if any(each.database is Database.OPERATORS for each in found):
        return [*(all_entries().keys() - EXCLUDED.keys())], DTYPES_OF_DATABASE
    if any(each.database is Database.MODULES for each in found):
        return [*all_modules()], DTYPES
    names = [entry for each in found for entry in each.entry_names]
    if not names:
        refuse(f"{declarations} cannot be surveyed: it declares no OpInfo entries.")
    return names, DTYPES


def _find_declarations(declarations: Path) -> list[OpInfoDeclaration]:
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.opinfo import OpInfoDeclaration

    if not declarations.is_file():
        refuse(f"{declarations} cannot be surveyed: there is no such file. Name a file that declares OpInfo entries.")
    if not declarations.resolve().is_relative_to(Path.cwd()):
        refuse(
            f"{declarations} cannot be imported from {Path.cwd()}, because it is outside of that folder. "
            "Run this in the root of its project."
        )
    sys.path.insert(0, str(Path.cwd()))
    return [
        declaration
        for _, declaration in declared_under(declarations)
        if isinstance(declaration, OpInfoDeclaration) and declaration.file.resolve() == declarations.resolve()
    ]

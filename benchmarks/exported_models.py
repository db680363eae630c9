"""Hashes every model that the declared cases export, to show that a change does not affect any of them.

python -m benchmarks.exported_models save before.json
python -m benchmarks.exported_models compare before.json
"""

from __future__ import annotations

import gc
import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track

from benchmarks.children import ROOT
from benchmarks.options import search
from onnx_parity.exporter.errors import OnnxExporterError
from onnx_parity.harness.axes import Capture, Device, Selection, Tier
from onnx_parity.harness.case import Declaration
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.cases.program import CannotBuildError, InputSet, build
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.subjects.exporter_interface import Captured, NoSuchFormError, Request
from onnx_parity.harness.subjects.exporters import Parity

#: Opsets at which several operators change.
OPSETS = (7, 9, 13, 18, 21, 26)
#: The folders of declarations, and the tier of each that is exported.
FOLDERS = {"op_cases": Tier.SMOKE, "model_zoo": Tier.DEFAULT}
#: At most this many differences are printed.
SHOWN = 30

_Only = Annotated[str, typer.Option(help="Declarations that match: 'op_cases/(elu|conv)', 'model_zoo'.")]

app = typer.Typer(add_completion=False)


def cells(folder: str, name: str) -> Iterator[Cell]:
    """The cells of a declaration that export different models."""
    selection = Selection(tier=FOLDERS[folder], opsets=OPSETS, devices=(Device.CPU,), captures=(Capture.TRACE,))
    yield from cells_of(name, _declarations(folder)[name], selection)


@cache
def _declarations(folder: str) -> Mapping[str, Declaration]:
    return dict(declared_under(ROOT / folder))


def hashes(task: tuple[str, str]) -> dict[str, str]:
    """For each cell that can be built here, the hash of its model, or the class of the error that refuses it."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: dict[str, str] = {}
    captured: dict[object, Captured | str] = {}
    for cell in cells(*task):
        key = (cell.case.label, cell.dtype, cell.shapes)
        if key not in captured:
            captured.clear()
            try:
                captured[key] = _captured(cell)
            except CannotBuildError:
                continue  # A package is not installed.
        recording = captured[key]
        found[cell.id] = recording if isinstance(recording, str) else _hash(recording, cell.opset)
    captured.clear()
    gc.collect()
    return found


def _captured(cell: Cell) -> Captured | str:
    program = build(cell.case, cell.dtype, cell.device, 0)
    dynamic = cell.case.declaration.asked(cell.shapes)
    try:
        return Parity().capture(
            Request(program.module, program.inputs(InputSet()), program.input_names, dynamic, cell.capture)
        )
    except (OnnxExporterError, NoSuchFormError) as error:
        return type(error).__name__


def _hash(captured: Captured, opset: int) -> str:
    try:
        model = captured.deliver(opset, None)
    except OnnxExporterError as error:
        return type(error).__name__
    assert isinstance(model, bytes)
    return hashlib.blake2b(model, digest_size=12).hexdigest()


def all_hashes(processes: int, only: str = "") -> dict[str, str]:
    """The hashes of the models of every declaration whose `folder/name` matches."""
    tasks = [(folder, name) for folder in FOLDERS for name, _ in declared_under(ROOT / folder)]
    tasks = [
        (folder, name)
        for folder, _, name in (each.partition("/") for each in search("--only", only, map("/".join, tasks)))
    ]
    found: dict[str, str] = {}
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        done = pool.map(hashes, tasks)
        for each in track(done, "exporting", total=len(tasks), console=Console(stderr=True), transient=True):
            found.update(each)
    return found


@app.command()
def save(
    file: Annotated[Path, typer.Argument(help="The file to which the hashes are written.", dir_okay=False)],
    processes: Annotated[int, typer.Option(min=1, help="The number of processes that export at a time.")] = 2,
    only: _Only = "",
) -> None:
    """Export every declared case and write the hashes of the models to a file."""
    found = all_hashes(processes, only)
    file.write_text(json.dumps(found, indent=0, sort_keys=True))
    print(f"{len(found)} models, {len(set(found.values()))} different ones: {file}")


@app.command()
def compare(
    file: Annotated[Path, typer.Argument(help="A file that `save` wrote.", exists=True, dir_okay=False)],
    processes: Annotated[int, typer.Option(min=1, help="The number of processes that export at a time.")] = 2,
    only: _Only = "",
) -> None:
    """Export every declared case again, and list those that were there before and are not byte for byte the same."""
    before: dict[str, str] = json.loads(file.read_text())
    now = all_hashes(processes, only)
    if only:
        before = {cell: hashed for cell, hashed in before.items() if cell in now}
    new = now.keys() - before.keys()
    lines = [
        f"{cell}: {before[cell]} -> {now.get(cell, 'is no longer there')}"
        for cell in sorted(before)
        if before[cell] != now.get(cell)
    ]
    print("\n".join(lines[:SHOWN]))
    if len(lines) > SHOWN:
        print("by declaration:", ", ".join(f"{name} {number}" for name, number in _by_declaration(lines).items()))
    print(f"{len(now)} models compared, {len(lines)} differ, {len(new)} are new")
    raise typer.Exit(1 if lines else 0)


def _by_declaration(lines: Iterable[str]) -> dict[str, int]:
    """How many of these lines belong to each declaration, by the names with which they begin."""
    return dict(sorted(Counter(re.split(r"[\[-]", line, maxsplit=1)[0] for line in lines).items()))


if __name__ == "__main__":
    app()

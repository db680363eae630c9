"""`parity list`: the cases that there are."""

from __future__ import annotations

import difflib
import sys
from collections import defaultdict
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.axes import AxisError, Selection, Tier, parse_opsets
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.defaults import refuse


def list_cases(
    pattern: Annotated[str, typer.Argument(help="Names of cases, with * and ?: 'avg_pool*'.")] = "*",
    tier: Annotated[Tier, typer.Option(help="The tier whose cells are counted.")] = Tier.DEFAULT,
    opsets: Annotated[str | None, typer.Option(help="Opsets instead of the tier's: 9,13-18.")] = None,
    cells: Annotated[bool, typer.Option("--cells", help="Every cell's id rather than the cases.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The cases, with their cells' ids, as JSON.")] = False,
) -> None:
    """List the cases, where they are declared, and how many cells the tier takes of each.

    Examples:

        parity list

        parity list "avg_pool*" --tier full

        parity list elu --cells --opsets 9
    """
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.matrix.cells import cells_of

    try:
        selection = Selection(tier=tier, opsets=parse_opsets(opsets) if opsets is not None else None)
    except AxisError as error:
        refuse(str(error))
    sys.path.insert(0, str(Path.cwd()))
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    there: set[str] = set()
    for directory in defaults.DECLARATIONS:
        for name, declaration in declared_under(directory):
            place = f"{directory}/{declaration.file.name}:{declaration.line}"
            there.add(name)
            for cell in cells_of(name, declaration, selection):
                there.add(cell.case.label)
                if fnmatch(cell.case.label, pattern) or fnmatch(name, pattern):
                    found[cell.case.label, place].append(cell.id)
    if not found:
        refuse(_nothing(pattern, there))
    if as_json:
        listed = [{"case": label, "place": place, "cells": ids} for (label, place), ids in found.items()]
        typer.echo(msgspec.json.encode(listed))
        return
    width = max((len(label) for label, _ in found), default=0)
    for (label, place), ids in found.items():
        typer.echo("\n".join(ids) if cells else f"{label:{width}}  {len(ids):4} cells  {place}")
    typer.echo(f"{len(found)} cases, {sum(map(len, found.values()))} cells", err=cells)


def _nothing(pattern: str, there: Collection[str]) -> str:
    folders = " and ".join(f"{folder}/" for folder in defaults.DECLARATIONS)
    if not there:
        return f"there are no cases here: {folders} of a clone of the project declare them."
    if any(fnmatch(each, pattern) for each in there):
        return f"{pattern} has no cells at this tier and these opsets."
    near = ", ".join(difflib.get_close_matches(pattern, sorted(there)))
    there_are = f"near it: {near}." if near else "`parity list` shows those that there are."
    return f"no case of {folders} is named {pattern}; {there_are}"

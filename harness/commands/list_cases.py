"""`parity list`: the cases that there are."""

from __future__ import annotations

import difflib
import re
import sys
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.axes import AxisError, Selection, Tier, parse_opsets
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.defaults import refuse
from onnx_parity.harness.declaration_error import DeclarationError


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
    try:
        selection = Selection(tier=tier, opsets=parse_opsets(opsets) if opsets is not None else None)
    except AxisError as error:
        refuse(str(error))
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = _found(pattern, selection)
    except DeclarationError as error:
        refuse(str(error))
    if not found:
        refuse(_nothing(pattern, selection))
    if as_json:
        listed = [{"case": label, "place": place, "cells": ids} for (label, place), ids in found.items()]
        typer.echo(msgspec.json.encode(listed))
        return
    width = max((len(label) for label, _ in found), default=0)
    for (label, place), ids in found.items():
        typer.echo("\n".join(ids) if cells else f"{label:{width}}  {len(ids):4} cells  {place}")
    typer.echo(f"{len(found)} cases, {sum(map(len, found.values()))} cells", err=cells)


def _found(pattern: str, selection: Selection) -> dict[tuple[str, str], list[str]]:
    """The ids of the cells of each case that the pattern matches, by the case's label and place."""
    # These import torch, which options that make no sense need not wait for.
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.matrix.cells import cells_of

    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for directory in defaults.DECLARATIONS:
        for name, declaration in declared_under(directory, partial(_may_match, pattern)):
            place = f"{directory}/{declaration.file.name}:{declaration.line}"
            wanted = partial(_matches, "*" if _matches(pattern, name) else pattern)
            for cell in cells_of(name, declaration, selection, wanted):
                found[cell.case.label, place].append(cell.id)
    return found


def _matches(pattern: str, label: str) -> bool:
    """Whether the pattern matches: `*` and `?` are wildcards, and the brackets of a label stand for themselves."""
    return fnmatchcase(label, pattern.replace("[", "[[]"))


def _may_match(pattern: str, name: str) -> bool:
    """Whether the pattern can match a case of the declaration of this name: its label begins with the name."""
    beginning = re.split(r"[*?]", pattern, maxsplit=1)[0]
    return name.startswith(beginning) or beginning.startswith(name)


def _nothing(pattern: str, selection: Selection) -> str:
    """Why no cell was found: with the names that are nearest to the pattern, if it matches none."""
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.matrix.cells import cells_of

    folders = " and ".join(f"{folder}/" for folder in defaults.DECLARATIONS)
    there: set[str] = set()
    for directory in defaults.DECLARATIONS:
        for name, declaration in declared_under(directory):
            there.add(name)
            there.update(cell.case.label for cell in cells_of(name, declaration, selection))
    if not there:
        return f"there are no cases here: {folders} of a clone of the project declare them."
    if any(_matches(pattern, each) for each in there):
        return f"{pattern} has no cells at this tier and these opsets."
    near = ", ".join(difflib.get_close_matches(pattern, sorted(there)))
    there_are = f"near it: {near}." if near else "`parity list` shows those that there are."
    return f"no case of {folders} is named {pattern}; {there_are}"

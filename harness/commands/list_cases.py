"""`parity list`: the declared cases, and their cells."""

from __future__ import annotations

import difflib
import sys
from collections import defaultdict
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness.axes import AxisError, Selection, Tier, parse_opsets
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse


def list_cases(
    pattern: Annotated[str, typer.Argument(help="A pattern for names of cases, with * and ?: 'avg_pool*'.")] = "*",
    tier: Annotated[Tier, typer.Option(help="The tier whose cells are listed.")] = Tier.DEFAULT,
    opsets: Annotated[str | None, typer.Option(help="Opsets to list instead of those of the tier: 9,13-18.")] = None,
    cells: Annotated[bool, typer.Option("--cells", help="Print the id of every cell instead of the cases.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the cases and the ids of their cells as JSON.")
    ] = False,
) -> None:
    """List the declared cases, the line of each declaration, and how many cells of each the tier runs.

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
        print_json(listed)
        return
    width = max((len(label) for label, _ in found), default=0)
    for (label, place), ids in found.items():
        print_text("\n".join(ids) if cells else f"{label:{width}}  {len(ids):4} cells  {place}")
    print_text(f"{len(found)} cases, {sum(map(len, found.values()))} cells", error=cells)


def _nothing(pattern: str, there: Collection[str]) -> str:
    folders = " and ".join(f"{folder}/" for folder in defaults.DECLARATIONS)
    if not there:
        return f"No cases were found: there are no {folders} here. Run this in the root of a clone of the project."
    if any(fnmatch(each, pattern) for each in there):
        return f"{pattern} has no cells in this tier at these opsets. Try --tier full, or other --opsets."
    near = ", ".join(difflib.get_close_matches(pattern, sorted(there)))
    hint = f"Similar names: {near}." if near else "`parity list` shows all names."
    return f"No case of {folders} is named {pattern}. {hint}"

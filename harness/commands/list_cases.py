"""`parity list`: the cases that there are."""

from __future__ import annotations

import sys
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from harness.axes import AxisError, Selection, Tier, parse_opsets
from harness.commands import places
from harness.commands.places import refuse


def list_cases(
    pattern: Annotated[str, typer.Argument(help="Names of cases, with * and ?: 'avg_pool*'.")] = "*",
    tier: Annotated[Tier, typer.Option(help="The tier whose cells are counted.")] = Tier.DEFAULT,
    opsets: Annotated[str, typer.Option(help="Opsets instead of the tier's: 9,13-18.")] = "",
    cells: Annotated[bool, typer.Option("--cells", help="Every cell's id rather than the cases.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The cases, with their cells' ids, as JSON.")] = False,
) -> None:
    """List the cases, where they are declared, and how many cells the tier takes of each.

    Examples:

        parity list

        parity list "avg_pool*" --tier full

        parity list elu --cells --opsets 9
    """
    from harness.cases.declarations import declared_under
    from harness.selecting.cells import cells_of

    try:
        selection = Selection(tier=tier, opsets=parse_opsets(opsets) if opsets else None)
    except AxisError as error:
        refuse(str(error))
    sys.path.insert(0, str(Path.cwd()))
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for directory in places.DECLARATIONS:
        for name, declaration in declared_under(directory):
            place = f"{directory}/{declaration.file.name}:{declaration.line}"
            for cell in cells_of(name, declaration, selection):
                if fnmatch(cell.case.label, pattern) or fnmatch(name, pattern):
                    found[cell.case.label, place].append(cell.id)
    if as_json:
        listed = [{"case": label, "place": place, "cells": ids} for (label, place), ids in found.items()]
        typer.echo(msgspec.json.encode(listed))
        return
    width = max((len(label) for label, _ in found), default=0)
    for (label, place), ids in found.items():
        typer.echo("\n".join(ids) if cells else f"{label:{width}}  {len(ids):4} cells  {place}")
    typer.echo(f"{len(found)} cases, {sum(map(len, found.values()))} cells", err=cells)

"""`parity list`: the declared cases, and their cells."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated

import typer

from onnx_parity.harness import axes
from onnx_parity.harness.axes import Selection, Tier
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.declaration_error import DeclarationError


def list_cases(
    pattern: Annotated[str, typer.Argument(help="A pattern for names of cases, with * and ?: 'avg_pool*'.")] = "*",
    tier: Annotated[
        Tier | None,
        typer.Option(help="The tier whose cells are listed.", show_default="that of the settings, or default"),
    ] = None,
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
    given = {"tier": tier, "opsets": opsets}
    settings = defaults.project().settings
    try:
        selection = axes.read_selection(
            lambda name: settings.value_of(name) if given.get(name) is None else given[name]
        )
    except axes.AxisError as error:
        refuse(str(error))
    try:
        found = _find_cells(pattern, selection)
    except DeclarationError as error:
        refuse(str(error))
    if not found:
        refuse(_nothing(pattern, selection))
    if as_json:
        listed = [{"case": label, "place": place, "cells": ids} for (label, place), ids in found.items()]
        print_json(listed)
        return
    width = max((len(label) for label, _ in found), default=0)
    for (label, place), ids in found.items():
        print_text("\n".join(ids) if cells else f"{label:{width}}  {len(ids):4} cells  {place}")
    print_text(f"{len(found)} cases, {sum(map(len, found.values()))} cells", error=cells)


def _find_cells(pattern: str, selection: Selection) -> dict[tuple[str, str], list[str]]:
    """The ids of the cells of each case that the pattern matches, by the case's label and place."""
    # Imported here, because these import torch, which is slow, and options may be refused before.
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.matrix.cells import cells_of

    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for place in defaults.declarations():
        for name, declaration in declared_under(place, partial(_may_match, pattern)):
            line = f"{defaults.from_here(declaration.file)}:{declaration.line}"
            wanted = partial(_matches, "*" if _matches(pattern, name) else pattern)
            for cell in cells_of(name, declaration, selection, wanted):
                found[cell.case.label, line].append(cell.id)
    return found


def _matches(pattern: str, label: str) -> bool:
    """Whether the pattern matches. `*` and `?` are wildcards; the brackets of a label are not."""
    return fnmatchcase(label, pattern.replace("[", "[[]"))


def _may_match(pattern: str, name: str) -> bool:
    """Whether the pattern can match a case of the declaration of this name, with which its label begins."""
    beginning = re.split(r"[*?]", pattern, maxsplit=1)[0]
    return name.startswith(beginning) or beginning.startswith(name)


def _nothing(pattern: str, selection: Selection) -> str:
    """The reason why no cell was found, with the names that are nearest to the pattern if it matches none."""
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.matrix.cells import cells_of

    places = defaults.declarations()
    there: set[str] = set()
    for place in places:
        for name, declaration in declared_under(place):
            there.add(name)
            there.update(cell.case.label for cell in cells_of(name, declaration, selection))
    if not there:
        return defaults.no_declarations()
    if any(_matches(pattern, each) for each in there):
        return f"{pattern} has no cells in this tier at these opsets. Try --tier full, or other --opsets."
    near = ", ".join(difflib.get_close_matches(pattern, sorted(there)))
    hint = f"Similar names: {near}." if near else "`parity list` shows all names."
    named = " and ".join(str(place) if place.suffix else f"{place}/" for place in places)
    return f"No case of {named} is named {pattern}. {hint}"

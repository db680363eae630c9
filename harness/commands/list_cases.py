"""`parity list`: the declared cases, and their cells."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from onnx_parity.harness import axes
from onnx_parity.harness.axes import Selection, Tier
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.matrix.listing import Listed, list_files


def list_cases(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES] [PATTERNS]",
            help="Files or folders of declarations, by default those of the settings, and patterns for names of cases, "
            "with * and ?: 'avg_pool*'.",
        ),
    ] = None,
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

        parity list cases_of_mine.py

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
    places, patterns = defaults.places_and_patterns(words)
    found = _find_cases(places, patterns, selection)
    if not found:
        refuse(_nothing(places, patterns, selection))
    rows = [(each, f"{defaults.from_here(file)}:{each.line}") for file, each in found]
    if as_json:
        print_json([{"case": each.case, "place": place, "cells": each.cells} for each, place in rows])
        return
    width = max(len(each.case) for each, _ in rows)
    lines = (
        "\n".join(each.cells) if cells else f"{each.case:{width}}  {len(each.cells):4} cells  {place}"
        for each, place in rows
    )
    print_text("\n".join(lines))
    cases = "1 case" if len(found) == 1 else f"{len(found)} cases"
    print_text(f"{cases}, {sum(len(each.cells) for each, _ in rows)} cells", error=cells)


def _find_cases(places: Sequence[Path], patterns: Sequence[str], selection: Selection) -> list[tuple[Path, Listed]]:
    """The cases that match a pattern, each with its file."""
    listed = list_files(places, selection, _kept_in(), partial(defaults.may_match, patterns))
    return [
        (Path(one.file), case)
        for one in listed
        for case in one.cases
        if defaults.matches(patterns, case.name) or defaults.matches(patterns, case.case)
    ]


def _kept_in() -> Path | None:
    return defaults.runs() if defaults.project().is_configured else None


def _nothing(places: Sequence[Path], patterns: Sequence[str], selection: Selection) -> str:
    """The reason why no cell was found, with the names that are nearest to the patterns if these match none."""
    listed = list_files(places, selection, _kept_in())
    there = {name for one in listed for name in (*one.names, *(each.case for each in one.cases))}
    named = " and ".join(str(place) if place.suffix else f"{place}/" for place in places)
    if not there:
        return f"There are no declarations in {named}." if places else defaults.no_declarations()
    asked = ", ".join(patterns)
    if any(defaults.matches(patterns, each) for each in there):
        return f"{asked} has no cells in this tier at these opsets. Try --tier full, or other --opsets."
    near = dict.fromkeys(name for each in patterns for name in difflib.get_close_matches(each, sorted(there)))
    hint = f"Similar names: {', '.join(near)}." if near else "`parity list` shows all names."
    return f"No case of {named} is named {asked}. {hint}"

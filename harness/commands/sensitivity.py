"""`parity sensitivity`: what the declared cases could not tell if it were done wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.axes import Device, Selection, Shapes, Tier
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.sensitivity.reasons import FILE, read_reasons

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_parity.harness.matrix.cells import Cell
    from onnx_parity.harness.sensitivity.looking import NotLookedAt
    from onnx_parity.harness.sensitivity.tables import Row

#: At most so many cases that cannot tell are named.
_SHOWN = 3


def sensitivity(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES] [PATTERNS]",
            help="Files or folders of declarations, by default those of the settings, and patterns for names of cases, "
            "with * and ?: 'avg_pool*'.",
        ),
    ] = None,
    tier: Annotated[Tier, typer.Option(help="The tier whose cases are looked at.")] = Tier.DEFAULT,
    operator: Annotated[str | None, typer.Option(help="Only this operator of the cases: group_norm.")] = None,
    table: Annotated[
        bool, typer.Option("--table", help="Also print a table of what is told for each operator.")
    ] = False,
    processes: Annotated[int, typer.Option("-n", min=1, help="Processes at a time.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """List what the declared cases of operators could not tell if it were done wrong.

    Each program is run eagerly, with one thing altered in all calls of one of its functions of torch: an argument has
    its default, an epsilon is 0, float64 is computed in float32 and int64 in int32, two inputs are swapped, the last of
    equal elements comes first, an axis is counted from the other end, a result of an empty axis is another one. If the
    outputs stay within the tolerance of the case, for its inputs and at its other sizes, then the case would pass with
    an exporter that does just that wrong. Nothing is exported.

    What no case tells is listed, with the cases that have it and cannot tell, and what would tell it; so are arguments
    that no case gives, negative and empty axes. What no case could tell has its reason in the file untold.toml beside
    the declarations. Exit codes: 0 everything else is told; 1 something is not; 2 used wrongly, or no case could be
    looked at.

    Examples:

        parity sensitivity op_cases/normalization.py

        parity sensitivity "cum*" --table

        parity sensitivity --operator group_norm --json
    """
    places, patterns = defaults.places_and_patterns(words)
    reasons, found = read_reasons(places), _cells(places, patterns, tier)
    if not found:
        refuse(f"No case of an operator is named {', '.join(patterns)}. `parity list` shows all names.")
    rows, not_looked_at = _look(found, processes)
    if len(not_looked_at) == len(found):
        refuse(
            "\n".join(["No case could be looked at, so nothing is known of what they tell.", *_reasons(not_looked_at)])
        )
    rows = [row for row in rows if operator in (None, row.operator)]
    if operator is not None and not rows:
        refuse(f"None of these cases calls {operator} of torch, or it has nothing that could be altered.")
    explained = [row for row in rows if not row.is_told and str(row) in reasons]
    untold = [row for row in rows if not row.is_told and str(row) not in reasons]
    # Among some of the cases, none may be left for which the reason is given.
    are_all = defaults.EVERYTHING in patterns and all(place.is_dir() for place in places)
    outdated = [str(row) for row in rows if are_all and row.is_told and str(row) in reasons]
    if as_json:
        print_json({"rows": rows, "not_looked_at": not_looked_at})
    else:
        if table:
            print_text("\n".join(_tables(rows)))
        for line in _untold(untold):
            print_text(line)
        for line in _reasons(not_looked_at):
            print_text(line)
        why = f", {len(explained)} explained in {FILE}" if explained else ""
        print_text(
            f"{len(found)} cases and dtypes; {len(rows)} alterations of {len({row.operator for row in rows})} "
            f"operators, {len(rows) - len(untold) - len(explained)} of them told in each dtype that has them{why}"
        )
        for told in outdated:
            print_text(f"{told}: a case tells it now. Remove it from {FILE}.")
    raise typer.Exit(1 if untold or outdated else 0)


def _cells(places: Sequence[Path], patterns: Sequence[str], tier: Tier) -> list[tuple[Cell, bool]]:
    """A cell of each case of an operator in each dtype, and whether there is one with dynamic axes."""
    # Imported here, because these import torch, which is slow.
    from onnx_parity.harness.cases.declarations import declared_under
    from onnx_parity.harness.cases.draws import DrawnCase
    from onnx_parity.harness.matrix.cells import cells_of
    from onnx_parity.harness.record import Kind

    selection = Selection(tier=tier, devices=(Device.CPU,))
    cells: dict[object, Cell] = {}
    dynamic: set[object] = set()
    wanted = None if defaults.EVERYTHING in patterns else partial(defaults.may_match, patterns)
    for place in places:
        for name, declaration in declared_under(place, wanted):
            if declaration.kind is not Kind.OPERATOR:
                continue
            for cell in cells_of(name, declaration, selection):
                key = declaration.file, cell.case.label, cell.dtype
                named = defaults.matches(patterns, name) or defaults.matches(patterns, cell.case.label)
                if named and not isinstance(cell.case, DrawnCase):
                    cells.setdefault(key, cell)
                    if cell.shapes is Shapes.DYNAMIC:
                        dynamic.add(key)
    return [(cell, key in dynamic) for key, cell in cells.items()]


def _look(cells: Sequence[tuple[Cell, bool]], processes: int) -> tuple[list[Row], list[NotLookedAt]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from onnx_parity.harness.sensitivity.looking import NotLookedAt, look_at_all
    from onnx_parity.harness.sensitivity.tables import rows_of

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("cases", total=len(cells))
        found = look_at_all(cells, defaults.seed(), processes, lambda: progress.advance(task))
    left_out = [each for each in found if isinstance(each, NotLookedAt)]
    return rows_of(each for each in found if not isinstance(each, NotLookedAt)), left_out


def _reasons(not_looked_at: Sequence[NotLookedAt]) -> Iterator[str]:
    for each in not_looked_at:
        yield f"not looked at: {each.case} {each.dtype}: {each.reason}"


def _untold(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row.blind:
            labels = [*dict.fromkeys(label for those in row.blind.values() for label in those)]
            more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
            yield f"not told in {', '.join(row.blind)}: {row}"
            yield f"    by {', '.join(labels[:_SHOWN])}{more}"
        else:
            yield f"in no case: {row}"
        yield f"    what would tell: {row.what_would_tell}"


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    """For each operator, its alterations and dtypes: how many cases tell, `-` if none does, empty if none has it."""
    of: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of[row.operator].append(row)
    for operator, those in of.items():
        dtypes = [*dict.fromkeys(dtype for row in those for dtype in (*row.told, *row.blind, *row.missing))]
        names = [str(row).removeprefix(operator).strip() for row in those]
        width = max(map(len, names))
        yield f"{operator:{width}}  {'  '.join(dtypes)}"
        for name, row in zip(names, those, strict=True):
            cells = (str(row.told.get(dtype, "-" if dtype in row.blind else "")) for dtype in dtypes)
            line = "  ".join(f"{cell:>{len(dtype)}}" for cell, dtype in zip(cells, dtypes, strict=True))
            yield f"{name:{width}}  {line}".rstrip()
        yield ""

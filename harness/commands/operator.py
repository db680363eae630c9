"""`parity operator`: all that is known of one operator."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.opset_ranges import opset_ranges
from onnx_parity.harness.run_store_error import RunStoreError

if TYPE_CHECKING:
    from onnx_parity.harness.operators.story import Case, InRun, RuleOf, Story

#: At most this many declarations of a file are named.
_SHOWN = 8


def operator(
    name: Annotated[str, typer.Argument(help="The operator: aten::narrow, narrow, torch.narrow, nn.GLU.")],
    paths: defaults.Places = None,
    run: Annotated[
        Path | None, typer.Option(help="The folder of a run.", show_default="runs/last, if there is one")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Print all that is known of an operator: its schemas, the exporter's rules for it and where they stand, into what
    torch takes it apart if it is not lowered, the opsets and dtypes in which a run found it right, and its cases.

    Examples:

        parity operator aten::narrow

        parity operator nn.GLU

        parity operator aten::max.dim --run runs/20260131-101500-4711 --json
    """
    # Imported here, because these import torch, which is slow.
    from onnx_parity.harness.operators.names import UnknownOperatorError, find_operator, import_own_operators, is_known
    from onnx_parity.harness.operators.story import story_of

    folder = run or (defaults.last() if defaults.last().exists() else None)
    places = defaults.declarations(paths)
    if paths or not is_known(name):
        import_own_operators(places)
    try:
        story = story_of(find_operator(name), name, folder, places)
    except (UnknownOperatorError, RunStoreError) as error:
        refuse(str(error))
    if as_json:
        print_json(story)
    else:
        print_text("\n".join(_lines(story)))


def _lines(story: Story) -> Iterator[str]:
    yield from story.schemas or [story.name]
    yield ""
    yield _how_exported(story)
    if story.rules:
        yield "\nRules of the exporter, each with the place that makes it:"
    rules: defaultdict[tuple[str, str], list[RuleOf]] = defaultdict(list)
    for rule in story.rules:
        rules[rule.place, rule.aspect].append(rule)
    for (place, aspect), same in rules.items():
        yield f"  {place}"
        yield f"    {', '.join(dict.fromkeys(rule.name for rule in same))}: {aspect}"
        for why in dict.fromkeys(rule.why for rule in same if rule.why):
            yield textwrap.fill(why, 118, initial_indent=" " * 6, subsequent_indent=" " * 6)
        for opset, reason in {need for rule in same for need in rule.needs.items()}:
            yield f"      needs opset {opset}: {reason}"
    yield ""
    if story.in_run is not None:
        yield from _of_run(story.in_run)
    else:
        yield "No run here says in which opsets and dtypes it is right. `parity run` makes one."
    yield ""
    yield from _of_cases(story.cases)


def _how_exported(story: Story) -> str:
    if story.is_lowered:
        some = " Some calls need a later opset, as its rules say." if any(rule.needs for rule in story.rules) else ""
        return f"It is lowered to ONNX.{some}"
    if story.is_taken_apart:
        into = f"into: {', '.join(story.parts) or 'nothing'}" if story.parts is not None else "as its arguments say"
        return f"It has no lowering: torch takes it apart {into}." + (
            " A rule below may replace it before." if story.rules else ""
        )
    if story.rules:
        return "It has no lowering, and torch does not take it apart; the rules below say what becomes of it."
    from onnx_parity.harness.operators.names import NAMESPACES  # It imports torch.

    said = "It has no lowering, and torch does not take it apart: a program that calls it cannot be exported."
    if story.name.partition("::")[0] in NAMESPACES:
        return f"{said} CONTRIBUTING.md says how to add a lowering."
    return f"{said} Write one with @onnx_parity.lowering({story.name!r}), as docs/your_own_cases.md shows."


def _of_run(found: InRun) -> Iterator[str]:
    counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in found.cells.items())
    yield f"Cells of {found.run} that call it, or are recorded with it: {counts or 'none'}."
    for dtype, opsets in found.right.items():
        yield f"  right in onnxruntime in {dtype} at opsets {opset_ranges(opsets)}"
    for reason, count in [*found.reasons.items()][:_SHOWN]:
        yield f"  {count} refused or failed: {reason}"
    if (more := len(found.reasons) - _SHOWN) > 0:
        yield f"  and {more} more reasons, which --json has"
    if found.declarations:
        more = len(found.declarations) - _SHOWN
        yield f"  declared as {', '.join(found.declarations[:_SHOWN])}" + (f" and {more} more" if more > 0 else "")


def _of_cases(cases: list[Case]) -> Iterator[str]:
    if not cases:
        yield "No declaration names it: CONTRIBUTING.md says how to add a case."
        return
    yield "Declarations that name it, and the commands that run them:"
    files = defaultdict(list)
    for case in cases:
        files[case.file].append(case)
    for file, found in files.items():
        yield "  " + ", ".join(f"{file}:{case.line} {case.name}" for case in found[:_SHOWN])
        yield f'    pytest {file} -k "{" or ".join(case.name for case in found)}"'

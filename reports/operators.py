"""`docs/operators.md`, from a run: how much of PyTorch can be exported, from which opset on, and what is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_parity.harness.escaping import markdown_code, markdown_line
from onnx_parity.harness.record import Kind, Record
from onnx_parity.harness.store import read_info, read_records
from onnx_parity.reports.arrangement import arrange
from onnx_parity.reports.coverage import aggregate, right_since
from onnx_parity.reports.outcomes import State, tally
from onnx_parity.reports.pages.names_data import NOT_TRIED, Group, names_data
from onnx_parity.reports.pages.traced import Traced, database_entry
from onnx_parity.reports.wording import plural

__all__ = ["operators_page", "since", "write_operators", "written_to"]

#: At most this many names are listed for a reason; the others are counted.
MOST_NAMED = 40
#: The opsets of the table: those at which common operators of ONNX changed.
_OPSETS = (7, 9, 11, 13, 16, 18, 21, 26)
_STATES = (State.PASSED, State.KNOWN, State.UNSUPPORTED, State.FAILED)
#: Why a name is listed as missing, if nothing more is known about it.
_BECAUSE = {
    State.FAILED: "a cell that has it is wrong",
    State.KNOWN: "exported, and fails as an expectation says",
    State.UNSUPPORTED: "every cell that has it is refused",
    State.ABSENT: "no cell that has it could run here",
}


def write_operators(run: Path, out: Path, lowered: Collection[str] = (), names: Collection[Group] = ()) -> Path:
    """Write the page of a run. `lowered` are the ATen operators with a lowering; those without a cell are listed.
    `names` are all that there is to be covered."""
    return written_to(out, operators_page(run, lowered, names))


def written_to(out: Path, page: str) -> Path:
    """Write a page as a whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{out.name}.aside")
    aside.write_text(page, encoding="utf-8")
    return aside.replace(out)


def operators_page(run: Path, lowered: Collection[str] = (), names: Collection[Group] = ()) -> str:
    packages = [f"{name} {version}" for name, version in read_info(run).packages.items()]
    declarations = arrange(read_records(run))
    traced = Traced()
    for declaration in declarations:
        traced.add(declaration, declaration.records)
    groups = names_data(names, traced)
    untraced = sorted({name.partition(".")[0] for name in lowered} - traced.aten.keys())
    first_right = [(each.kind, since(each.records)) for each in declarations if not database_entry(each.name)]
    return "\n".join(page_lines(packages, groups, first_right, untraced)) + "\n"


def page_lines(
    packages: Sequence[str],
    groups: Sequence[Mapping[str, Any]],
    first_right: Sequence[tuple[Kind, int | None]],
    untraced: Sequence[str],
) -> Iterator[str]:
    yield "# Operators: what can be exported, and from which opset on\n"
    yield "Written by `parity report --operators docs/operators.md` from a run of the matrix with these packages:"
    yield f"{markdown_line(', '.join(packages))}.\n"
    yield "Ask for one operator by its name; the report lists every name with its cells and opsets:\n"
    yield "    parity operator aten::narrow      # its lowering, what is recorded for it, and its cases"
    yield "    parity list '*narrow*'            # its cases"
    yield "    parity report                     # its page pytorch.html has all names below\n"
    if groups:
        yield from _covered(groups)
    yield from _since_table(first_right)
    yield from _missing(groups, untraced)


def _covered(groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "## Of how many\n"
    yield (
        "A name is *exported* if a cell that has it passed and none is wrong. A *known failure* is exported too, and\n"
        "fails for a reason in `expectations.toml`, such as a defect of onnxruntime. *As others* are names that are\n"
        "recorded by other operators: in-place writes, copies of views, and what consists of others. They can be\n"
        "exported if these can.\n"
    )
    yield "| names | of | exported | known failure | refused | wrong | as others | not tried or left out |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for group in groups:
        counts = [sum(_state(row) is state for row in group["rows"]) for state in _STATES]
        others = sum(bool(row.get("as_others")) for row in group["rows"])
        left = group["of"] - sum(counts) - others
        numbers = [group["of"], *counts, others, left]
        yield f"| {markdown_line(group['title'])} | {' | '.join(map(str, numbers))} |"
    yield ""


def _since_table(first_right: Sequence[tuple[Kind, int | None]]) -> Iterator[str]:
    yield "## From which opset on\n"
    yield (
        "How many of the operators and models that `op_cases/` and `model_zoo/` declare by name are right at an opset\n"
        "and at all later ones, with all of their cases, dtypes and dynamic sizes.\n"
    )
    yield f"| declared | of | {' | '.join(f'opset {opset}' for opset in _OPSETS)} |"
    yield "|---|--:|" + "--:|" * len(_OPSETS)
    for kind, title in ((Kind.OPERATOR, "operators"), (Kind.MODEL, "models")):
        found = [opset for each, opset in first_right if each is kind]
        counts = [sum(opset is not None and opset <= at for opset in found) for at in _OPSETS]
        if found:
            yield f"| {title} | {len(found)} | {' | '.join(map(str, counts))} |"
    yield ""


def _missing(groups: Sequence[Mapping[str, Any]], untraced: Sequence[str]) -> Iterator[str]:
    yield "## What is missing\n"
    for group in groups:
        by_reason: defaultdict[str, list[str]] = defaultdict(list)
        for row in group["rows"]:
            state = _state(row)
            if state is not State.PASSED and not row.get("as_others") and row["why"] not in NOT_TRIED:
                by_reason[row["why"] or _BECAUSE[state]].append(row["name"])
        for reason, names in sorted(by_reason.items()):
            yield f"- {markdown_line(group['title'])}, {markdown_line(reason)}: {_named(names)}"
    if untraced:
        count = plural(len(untraced), "operator")
        yield f"- {count} with a lowering that no cell of this run traced: {_named(untraced)}"


def _named(names: Sequence[str]) -> str:
    listed = ", ".join(map(markdown_code, names[:MOST_NAMED]))
    return listed + (f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _state(row: Mapping[str, Any]) -> State:
    number: int = row["state"]
    return list(State)[number]


def since(records: Sequence[Record]) -> int | None:
    """The opset from which on all cells are right."""
    by_opset: defaultdict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_opset[record.opset].append(record)
    return right_since({opset: aggregate(tally(each)) for opset, each in by_opset.items()}).whole

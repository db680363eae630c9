"""`docs/operators.md`, from a run: since which opset each operator exports and is right, and why not earlier."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from onnx_parity.harness.escaping import markdown_code, markdown_line
from onnx_parity.harness.record import WRONG, Kind, Record, Status
from onnx_parity.harness.store import read_info, read_records
from onnx_parity.reports.arrangement import Declaration, arrange
from onnx_parity.reports.coverage import aggregate, right_since
from onnx_parity.reports.outcomes import tally
from onnx_parity.reports.traced import aten_operators
from onnx_parity.reports.wording import opset_ranges, plural, shortened

__all__ = ["operators_page", "write_operators"]

#: Reasons told for an operator, the commonest first.
MOST_REASONS = 3
LONGEST_REASON = 160


def write_operators(run: Path, out: Path, lowered: Collection[str] = ()) -> Path:
    """Write the page of a run. `lowered` are the ATen operators that have a lowering, so that those untested show."""
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{out.name}.aside")
    aside.write_text(operators_page(run, lowered), encoding="utf-8")
    return aside.replace(out)


def operators_page(run: Path, lowered: Collection[str] = ()) -> str:
    return "\n".join(_lines(run, lowered)) + "\n"


def _lines(run: Path, lowered: Collection[str]) -> Iterator[str]:
    info = read_info(run)
    declarations = arrange(read_records(run))
    packages = ", ".join(markdown_line(f"{name} {version}") for name, version in info.packages.items())
    yield "# Operators and models, since which opset\n"
    yield (
        "Written by `parity operators` from a run of the matrix, not by hand. *Right since* is the first opset from "
        "which on every cell of the operator, in the dtype that ran most, exported and agreed with torch; *in part* "
        "the first from which on what could be exported did. A dtype that is not right from the first opset that "
        "ran on names its own.\n"
    )
    yield f"{packages}.\n"
    for kind, title in ((Kind.OPERATOR, "Operators"), (Kind.MODEL, "Models")):
        rows = [declaration for declaration in declarations if declaration.kind is kind]
        if rows:
            yield f"## {title}\n"
            yield from _table(rows)
    yield from _not_covered(declarations, lowered)


def _table(declarations: list[Declaration]) -> Iterator[str]:
    yield "| family | name | cases | right since | in part | dtypes | why not earlier, and what else was said |"
    yield "|---|---|--:|--:|--:|---|---|"
    for declaration in declarations:
        by_dtype: defaultdict[str, list[Record]] = defaultdict(list)
        for record in declaration.records:
            by_dtype[record.dtype].append(record)
        since = {dtype: _since(records) for dtype, records in by_dtype.items()}
        principal = max(by_dtype, key=lambda dtype: len(by_dtype[dtype]))
        whole, partly = usual = since[principal]
        dtypes = " ".join(
            dtype if said == usual or said[0] == _first_run(by_dtype[dtype]) else f"{dtype}:{said[0]}"
            for dtype, said in since.items()
        )
        cells = [
            markdown_line(declaration.family),
            markdown_code(declaration.name),
            len(declaration.cases),
            whole,
            partly,
        ]
        yield f"| {' | '.join(map(str, cells))} | {markdown_line(dtypes)} | {_reasons(declaration)} |"
    yield ""


def _first_run(records: list[Record]) -> str:
    """The first opset that was run: that it is right there says nothing of those before."""
    return str(min(record.opset for record in records))


def _since(records: list[Record]) -> tuple[str, str]:
    """The first opset from which on all cells are right, and from which on some are, where that is another."""
    by_opset: defaultdict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_opset[record.opset].append(record)
    since = right_since({opset: aggregate(tally(found)) for opset, found in by_opset.items()})
    partly = "" if since.partly in (None, since.whole) else str(since.partly)
    return str(since.whole or "–"), partly


def _reasons(declaration: Declaration) -> str:
    """What was refused or wrong, at which opsets; and where onnx.reference had to stand in for the runtime."""
    said: defaultdict[str, set[int]] = defaultdict(set)
    often: Counter[str] = Counter()
    for record in declaration.records:
        if record.status is Status.ABSENT:
            continue
        if record.status in WRONG:
            text = f"**{record.status.words}**: {_in_table(record.reason)}"
        elif record.status is not Status.PASSED or record.reason:
            text = _in_table(record.reason)
        else:
            continue
        said[text].add(record.opset)
        often[text] += 1
    told = [f"{opset_ranges(said[text])}: {text}" for text, _ in often.most_common(MOST_REASONS)]
    if len(said) > MOST_REASONS:
        told.append(f"and {plural(len(said) - MOST_REASONS, 'reason')} more")
    return "<br>".join(told)


def _in_table(reason: str) -> str:
    return markdown_line(shortened(reason, LONGEST_REASON))


def _not_covered(declarations: tuple[Declaration, ...], lowered: Collection[str]) -> Iterator[str]:
    """Lowerings that no cell of the run went through: neither right nor wrong, but unknown."""
    traced = {row.op for row in aten_operators(declarations)}
    missing = sorted({name.partition(".")[0] for name in lowered} - traced)
    if missing:
        yield "## Not covered\n"
        yield f"{plural(len(missing), 'operator')} with a lowering, traced by no cell of this run:\n"
        yield ", ".join(map(markdown_code, missing))

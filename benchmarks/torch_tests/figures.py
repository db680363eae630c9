"""What the outcomes amount to: counts, what is to be mended, and why."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.torch_tests.outcome import Mode, Outcome
from onnx_parity.harness.axes import PARITY
from onnx_parity.harness.comparison.outcome import Verdict

#: How a refusal names the first opset that has what a program needs.
_FROM_OPSET = re.compile(r"\(from opset \d+\)")
_DIGITS = re.compile(r"\d+")


def to_mend(found: Iterable[Outcome]) -> list[Outcome]:
    """Outcomes of this exporter that are worse than a refusal, or than another exporter's.

    Where ONNX has what a program needs from a later opset on, and this exporter says so and is right there, another
    one's model may run all the same: onnxruntime does not check, for example, that the branches of an If have the same
    shape, as ONNX requires before opset 11.
    """
    found = list(found)
    right = {each.point for each in found if each.verdict is Verdict.RIGHT and not each.reason}
    ours = [each for each in found if each.task.exporter == PARITY and each.verdict not in (Verdict.RIGHT, None)]
    refused = [each for each in ours if each.verdict is Verdict.REFUSED]
    later = {each for each in refused if _FROM_OPSET.search(each.reason) and _right_later(each, found)}
    worse = [each for each in ours if each.verdict is not Verdict.REFUSED]
    return worse + [each for each in refused if each.point in right and each not in later]


def _right_later(refused: Outcome, found: Iterable[Outcome]) -> bool:
    """Whether this exporter is right for the same program at each later opset that was run, and there is one."""
    opset, *program = refused.point
    later = [
        each.verdict is Verdict.RIGHT
        for each in found
        if each.task.exporter == PARITY and [*each.point[1:]] == program and each.task.opset > opset
    ]
    return bool(later) and all(later)


def shown(found: Sequence[Outcome], console: Console) -> None:
    """Print the counts, and what this exporter does not export, grouped by cause."""
    judged = [each for each in found if each.verdict is not None]
    tests = {each.task.test for each in judged}
    console.print(f"{len(tests)} tests, {len({each.point[1:] for each in judged})} programs")
    console.print(_counts(found))
    mended = set(to_mend(found))
    for title, these in (
        ("to be mended: wrong, or right with another exporter", mended),
        (
            "refused: as by the others, or they are right only at the sizes of the test, or ONNX has it later",
            {each for each in judged if each.task.exporter == PARITY} - mended,
        ),
    ):
        lines = list(_causes(each for each in these if each.verdict is not Verdict.RIGHT))
        console.print(f"{title}: {'' if lines else 'none'}")
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)


def _counts(found: Sequence[Outcome]) -> Table:
    table = Table("exporter", "opset", "mode", *Verdict, "not judged", box=None, header_style="bold")
    counts: dict[tuple[str, int, Mode], Counter[Verdict | None]] = defaultdict(Counter)
    for each in found:
        counts[each.task.exporter, each.task.opset, each.task.mode][each.verdict] += 1
    for (exporter, opset, mode), count in sorted(counts.items()):
        table.add_row(exporter, str(opset), mode, *(str(count[each]) for each in (*Verdict, None)))
    return table


def _causes(found: Iterable[Outcome]) -> Iterator[str]:
    """The causes, the most frequent first: `refused at 9,11: test_a (traced), test_b (scripted)` and the reason."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for each in found:
        groups[str(each.verdict), _DIGITS.sub("", each.reason)].append(each)
    for (verdict, _), group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        opsets = ",".join(map(str, sorted({each.task.opset for each in group})))
        tests = ", ".join(sorted({f"{each.task.test} ({each.task.mode})" for each in group}))
        yield f"  {verdict} at {opsets}: {tests}\n      {group[0].reason}"

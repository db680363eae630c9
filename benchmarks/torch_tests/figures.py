"""What the records amount to: counts, what is to be mended, and why."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from onnx_parity.harness.axes import PARITY
from onnx_parity.harness.record import GRAVEST_FIRST, Blame, Record, Status
from onnx_parity.harness.results.causes import causes_of
from onnx_parity.harness.results.exporters_compared import ComparedCell

#: How a refusal names the first opset that has what a program needs.
_FROM_OPSET = re.compile(r"\(from opset \d+\)")
#: A failure for which the exporter is not to blame.
_NOT_THE_EXPORTERS = (Blame.RUNTIME, Blame.PRECISION)


def to_mend(found: Iterable[Record]) -> list[Record]:
    """Records of this exporter that are worse than a refusal, or than another exporter's.

    Where ONNX has what a program needs from a later opset on, and this exporter says so and is right there, another
    one's model may run all the same: onnxruntime does not check, for example, that the branches of an If have the same
    shape, as ONNX requires before opset 11.
    """
    found = list(found)
    right = {ComparedCell.of(each) for each in found if each.status is Status.PASSED and not each.reason}
    ours = [each for each in found if each.exporter == PARITY]
    refused = [each for each in ours if each.status is Status.UNSUPPORTED]
    right_here = {ComparedCell.of(each) for each in ours if each.status is Status.PASSED}
    worse = [
        each for each in ours if each.status in (Status.FAILED, Status.CRASHED) and each.blame not in _NOT_THE_EXPORTERS
    ]
    late = [each for each in refused if _FROM_OPSET.search(each.reason) and _is_right_later(each, ours, right_here)]
    return worse + [each for each in refused if ComparedCell.of(each) in right and each not in late]


def _is_right_later(refused: Record, ours: Iterable[Record], right: set[ComparedCell]) -> bool:
    """Whether this exporter is right for the same program at each later opset that was run, and there is one."""
    at = ComparedCell.of(refused)
    later = [ComparedCell.of(each) for each in ours if each.opset > refused.opset]
    same = [each for each in later if msgspec.structs.replace(each, opset=at.opset) == at]
    return bool(same) and right.issuperset(same)


def show(found: Sequence[Record], console: Console) -> None:
    """Print the counts, and what this exporter does not export, grouped by cause."""
    judged = [each for each in found if each.status is not Status.ABSENT]
    programs = {(each.case, each.capture) for each in judged}
    console.print(f"{len({each.name for each in judged})} tests, {len(programs)} programs")
    console.print(_counts(found))
    mend = to_mend(found)
    others = [each for each in judged if each.exporter == PARITY and each not in mend]
    for title, these in (
        ("to be mended: wrong, or right with another exporter", mend),
        (
            "refused as by the others, or they are right only at the sizes of the test, or ONNX has it later; or wrong "
            "by the runtime or by rounding",
            [each for each in others if each.status is not Status.PASSED],
        ),
    ):
        console.print(f"{title}: {'' if these else 'none'}", soft_wrap=True)
        for cause in causes_of(these):
            text = f"  {cause.status.words}: {cause.subject} {cause.where}: {cause.extent}\n      {cause.detail}"
            console.print(text, markup=False, soft_wrap=True)


def _counts(found: Sequence[Record]) -> Table:
    counts: dict[tuple[str, int, str], Counter[Status]] = defaultdict(Counter)
    for each in found:
        counts[each.exporter, each.opset, each.capture][each.status] += 1
    statuses = [each for each in reversed(GRAVEST_FIRST) if any(count[each] for count in counts.values())]
    columns = ("exporter", "opset", "capture", *(each.words for each in statuses))
    table = Table(*columns, box=None, header_style="bold")
    for (exporter, opset, capture), count in sorted(counts.items()):
        table.add_row(exporter, str(opset), capture, *(str(count[each]) for each in statuses))
    return table

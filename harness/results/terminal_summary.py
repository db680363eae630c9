"""The summary of a run in the terminal: the number of cells of each status, and why cells did not pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME
from onnx_parity.harness.record import GRAVEST_FIRST, WRONG, Record, Status
from onnx_parity.harness.results.causes import Cause

#: At most this many causes of each status are listed; the report lists all.
_MOST = 20
_MOST_REASONS = 6


def counts(records: Iterable[Record]) -> str:
    """`4 failed, 6 unsupported, 650 passed`, the gravest first, without cells that could not run here."""
    tally = Counter(record.status for record in records)
    ran = [status for status in GRAVEST_FIRST if status is not Status.ABSENT]
    return ", ".join(f"{tally[status]} {status.words}" for status in ran if tally[status]) or "none ran"


def cells_here(records: Collection[Record]) -> str:
    """`1 cell`, or `1 of 3 cells`: how many could run here."""
    here = sum(record.status is not Status.ABSENT for record in records)
    return _cells(here) if here == len(records) else f"{here} of {_cells(len(records))}"


def not_here(records: Iterable[Record]) -> Iterator[str]:
    """One line for each of the most frequent reasons why other cells could not run here, and one for all the others.
    They are not counted with the others, because nothing was tested by them."""
    reasons = Counter(each.reason for each in records if each.status is Status.ABSENT).most_common()
    for reason, number in reasons[:_MOST]:
        yield f"absent: {_cells(number)} more: {reason}"
    if left := reasons[_MOST:]:
        yield f"absent: {_cells(sum(number for _, number in left))} more, for {len(left)} other reasons"


def explain_carried(carried: Mapping[str, int], rerun: Mapping[str, int]) -> str:
    """How many cells were carried over and from where, and why others were run."""
    runs = ", ".join(sorted(carried))
    kept = "no result was carried over"
    if carried:
        kept = (
            f"{_cells(sum(carried.values()))} not run: their results were carried over from {runs}, since no file and "
            "no package that they depend on has changed"
        )
    reasons = sorted(rerun.items(), key=lambda each: (-each[1], each[0]))
    ran = [f"{number} because {reason}" for reason, number in reasons[:_MOST_REASONS]]
    if left := reasons[_MOST_REASONS:]:
        ran.append(f"{sum(number for _, number in left)} for {len(left)} other reasons")
    return f"{kept}; run again: {', '.join(ran)}" if ran else kept


def count_reused(records: Iterable[Record]) -> Counter[str]:
    """How many outcomes were known by their hashes, by the day on which they were found: `2026-01-31`."""
    return Counter(day_of(record.ran) for record in records if record.reused)


def day_of(seconds: float) -> str:
    """The day of a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def explain_reused(reused: Mapping[str, int], cells: int) -> str:
    """The share of a run's outcomes that were known by their hashes, and the oldest of them."""
    number = sum(reused.values())
    return (
        f"{number} of {_cells(cells)} ({number / cells:.0%}) reused: their models, inputs and all else that they "
        f"depend on had been run before, the first of them on {min(reused)}"
    )


def _cells(number: int) -> str:
    return f"{number} cell{'s' * (number != 1)}"


def without_kernel(records: Iterable[Record]) -> str:
    """A sentence with the number of onnxruntime's cells that ran on onnx.reference for want of a kernel; or empty."""
    # The id has the requested runtime, and the record the one that was used.
    count = sum(each.runtime == ONNX_REFERENCE and f"-{each.capture}-{ONNXRUNTIME}" in each.cell for each in records)
    return f"{count} cells ran on {ONNX_REFERENCE}, because {ONNXRUNTIME} has no kernel" if count else ""


def summarise(causes: Iterable[Cause]) -> Iterator[str]:
    """A row for each cause why cells did not pass, the gravest first; of what is wrong, also how to run it again."""
    found: defaultdict[Status, list[Cause]] = defaultdict(list)
    for cause in causes:
        found[cause.status].append(cause)
    for status in (each for each in GRAVEST_FIRST if each not in (Status.PASSED, Status.ABSENT)):
        for cause in found[status][:_MOST]:
            yield f"{status.words}: {cause.subject}  {cause.where}  {cause.extent}: {cause.detail}"
            if status in WRONG:
                yield f"  again:  {cause.again}"
        if left := found[status][_MOST:]:
            yield f"{status.words}: {len(left)} more causes, of {_cells(sum(cause.cells for cause in left))}"

"""The summary of a run in the terminal: the number of cells of each status, and the failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnx_parity.harness.axes import ADAPTERS, ONNX_REFERENCE, ONNXRUNTIME, PARITY
from onnx_parity.harness.opset_ranges import opset_ranges
from onnx_parity.harness.record import GRAVEST_FIRST, Record, Stage, Status

#: At most this many groups of each status are listed; the report lists all.
_GROUPS = 20


@dataclass(frozen=True, slots=True)
class _Group:
    """Cells with the same outcome, shown as one line, because a fault often appears at twenty opsets."""

    status: Status
    case: str
    stage: Stage
    reason: str


def counts(records: Iterable[Record]) -> str:
    """`4 failed, 6 unsupported, 650 passed`, the gravest first."""
    tally = Counter(record.status for record in records)
    return ", ".join(f"{tally[status]} {status.words}" for status in GRAVEST_FIRST if tally[status])


def without_kernel(records: Iterable[Record]) -> str:
    """A sentence with the number of onnxruntime's cells that ran on onnx.reference for want of a kernel; or empty."""
    # The id has the requested runtime, and the record the one that was used.
    count = sum(each.runtime == ONNX_REFERENCE and f"-{each.capture}-{ONNXRUNTIME}" in each.cell for each in records)
    return f"{count} cells ran on {ONNX_REFERENCE}, because {ONNXRUNTIME} has no kernel" if count else ""


def summarise(records: list[Record]) -> Iterator[str]:
    """One line for each group of cells that did not pass, the gravest first, with the opsets of the group."""
    opsets: defaultdict[_Group, list[int]] = defaultdict(list)
    for record in records:
        if record.status is Status.PASSED:
            continue
        # If a device or runtime is missing, all cases have the same reason, and one line is enough.
        case = "" if record.status is Status.ABSENT else f"{record.case} {record.dtype}"
        if case and record.exporter != PARITY:
            case += f" {record.exporter}"
        if case and (record.transforms or record.runtime in ADAPTERS):
            case += f" {record.ran_on}"
        opsets[_Group(record.status, case, record.stage, record.reason)].append(record.opset)
    for status in GRAVEST_FIRST:
        groups = [group for group in opsets if group.status is status]
        for group in groups[:_GROUPS]:
            if status is Status.ABSENT:
                yield f"{status}: {len(opsets[group])} cells: {group.reason}"
            else:
                where = f"{group.case}  opset {opset_ranges(opsets[group])}  {group.stage}"
                yield f"{status.words}: {where}: {group.reason}"
        if len(groups) > _GROUPS:
            yield f"{status.words}: {len(groups) - _GROUPS} more groups of cells"

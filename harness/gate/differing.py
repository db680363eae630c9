"""Finds the cells of two large runs that may differ, by their columns, so that only these are read as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_parity.harness.columnar import Columns
from onnx_parity.harness.gate.findings import ExportTime
from onnx_parity.harness.record import Blame, Record, Stage, Status
from onnx_parity.harness.results.terminal_summary import day_of

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[Any]]


_SECONDS_OF_DAY = 86400
#: The values of a field that decide whether a cell ended otherwise.
_MEMBERS = {"status": tuple(Status), "stage": tuple(Stage), "blame": tuple(Blame)}


class Part(NamedTuple):
    """What `Side` has of the records of a run: those that may differ, and how many there are of all."""

    records: dict[str, Record]
    counts: dict[Status, int]
    #: How many were carried over, by the run in which they ran, and how many others were run, by the reason.
    carried: dict[str, int]
    rerun: dict[str, int]
    #: How many were known by their hashes, by day.
    reused: dict[str, int]


class Differing(NamedTuple):
    before: Part
    now: Part
    exports: dict[str, ExportTime]
    edited: list[str]


def find_differing(before: Columns, now: Columns) -> Differing:
    """Cells that only one of the runs has, those that ended otherwise, and those that came closer to their tolerance.

    A cell that is wrong in both runs and ended at the same stage with the same blame is no finding.
    """
    import numpy as np

    at = _places(before, now)
    here = at >= 0
    there = at[here]
    differs = ~here
    for field in ("status", "stage", "blame"):
        differs[here] |= _ids(now, field)[here] != _ids(before, field)[there]
    headroom, earlier = now.floats("metrics", "headroom"), before.floats("metrics", "headroom")
    differs[here] |= headroom[here] < earlier[there]
    unmatched = np.ones(len(before), bool)
    unmatched[there] = False
    changed = unmatched
    changed[at[differs & here]] = True
    return Differing(
        _part(before, changed),
        _part(now, differs),
        _export_times(before, now, here, there),
        _find_edited(before, now, here, there),
    )


def _places(before: Columns, now: Columns) -> Numbers:
    """For every row of the run, the row of its cell in the baseline, or -1."""
    import numpy as np
    import pyarrow.compute as pc

    found = pc.index_in(now.text("cell"), value_set=before.text("cell"))
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _ids(columns: Columns, field: str) -> Numbers:
    """A number for the value in every row, the same in both runs."""
    import numpy as np

    values = columns.values(field)
    assert values.codes is not None
    numbers: dict[object, int] = {value: number for number, value in enumerate((None, *_MEMBERS[field]))}
    ids: Numbers = np.array([numbers[value] for value in values.distinct], np.int8)[values.codes]
    return ids


def _part(columns: Columns, differs: Numbers) -> Part:
    import numpy as np

    def tally(field: str) -> dict[Any, int]:
        values = columns.values(field)
        assert values.codes is not None
        numbers = np.bincount(values.codes, minlength=len(values.distinct)).tolist()
        return {value: number for value, number in zip(values.distinct, numbers, strict=True) if number and value}

    rows = np.flatnonzero(differs).tolist()
    records = {record.cell: record for record in columns.records_at(rows)}
    ran = columns.floats("ran")
    days, numbers = np.unique(ran[ran > 0] // _SECONDS_OF_DAY, return_counts=True)
    reused = {
        day_of(day * _SECONDS_OF_DAY): number for day, number in zip(days.tolist(), numbers.tolist(), strict=True)
    }
    return Part(records, tally("status"), tally("carried"), tally("rerun"), reused)


def _find_edited(before: Columns, now: Columns, here: Numbers, there: Numbers) -> list[str]:
    """As `edited_declarations` finds them in records."""
    import numpy as np

    numbers: dict[object, int] = {"": 0}

    def sources(columns: Columns) -> Numbers:
        values = columns.values("source")
        assert values.codes is not None
        each = [numbers.setdefault(value or "", len(numbers)) for value in values.distinct]
        found: Numbers = np.array(each)[values.codes]
        return found

    old, new = sources(before)[there], sources(now)[here]
    names = now.values("name")
    assert names.codes is not None
    edited = names.codes[here][(old != new) & (old != 0) & (new != 0)]
    return sorted({names.distinct[code] for code in np.unique(edited).tolist()})


def _export_times(before: Columns, now: Columns, here: Numbers, there: Numbers) -> dict[str, ExportTime]:
    """As `export_times` adds them up for records."""
    import numpy as np

    ours, theirs = now.floats("seconds", "export")[here], before.floats("seconds", "export")[there]
    carried = now.values("carried")
    assert carried.codes is not None
    ran = np.array([not run for run in carried.distinct])[carried.codes][here]
    both = ran & ~np.isnan(ours) & ~np.isnan(theirs)
    names = now.values("case")
    assert names.codes is not None
    rows = np.flatnonzero(here)[both]
    case = names.codes[rows]
    length = len(names.distinct)

    def total(numbers: Numbers) -> Numbers:
        return np.bincount(case, weights=numbers[both], minlength=length)

    cpu, cpu_before = now.floats("export_cpu")[here], before.floats("export_cpu")[there]
    without_cpu = total(((cpu == 0) | (cpu_before == 0)).astype(np.float64)) > 0
    new = np.where(without_cpu, total(ours), total(cpu)).tolist()
    old = np.where(without_cpu, total(theirs), total(cpu_before)).tolist()
    codes, first = np.unique(case, return_index=True)
    files, lines = now.values("file"), now.values("line")
    assert files.codes is not None
    return {
        names.distinct[code]: ExportTime(
            old[code], new[code], files.distinct[files.codes[rows[place]]], lines.distinct[rows[place]]
        )
        for code, place in zip(codes.tolist(), first.tolist(), strict=True)
    }

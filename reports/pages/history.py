"""The page of history: the figures of this run and of the others in its folder, which their reports have stored.

A report writes `figures.json` into its run's folder, so that the next one need not read the records of all runs.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from onnx_parity.harness.record import RunInfo, Status
from onnx_parity.reports.summary import RunMeter

FILE = "figures.json"


class Figures(msgspec.Struct, frozen=True):
    """The figures of one run."""

    id: str
    started: str
    tier: str
    commit: str
    packages: dict[str, str]
    #: Status to the number of cells.
    counts: dict[str, int]
    declarations: int
    cases: int
    cells_per_second: float
    #: Milliseconds of a mean export.
    export: float
    #: The compared cells whose error is more than a tenth of their tolerance.
    close: int
    #: The address of its report, relative to this one; empty if it has none.
    report: str = ""


def figures_of(info: RunInfo, meter: RunMeter, close: int) -> Figures:
    pace = meter.pace()
    exported = max(1, meter.counts.total() - meter.counts[Status.ABSENT])
    return Figures(
        info.id,
        info.started,
        info.tier,
        info.commit,
        info.packages,
        {status.value: number for status, number in sorted(meter.counts.items())},
        meter.declarations.total(),
        meter.cases,
        pace.cells_per_second if pace else 0.0,
        1e3 * meter.seconds_of("export") / exported,
        close,
    )


def keep_figures(run: Path, figures: Figures) -> None:
    try:
        (run / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    except OSError:
        # The run is on a disk that cannot be written to. Its point is missing from the history of other runs.
        return


def history(run: Path, figures: Figures, out: Path) -> list[Figures]:
    """The figures of the runs beside `run`, the earliest first, with `figures` for this one."""
    found = {figures.id: figures}
    for file in sorted(run.resolve().parent.glob(f"*/{FILE}")):
        if file.parent.is_symlink() or file.parent == run.resolve():
            continue
        try:
            other = msgspec.json.decode(file.read_bytes(), type=Figures)
        except (OSError, msgspec.DecodeError):
            # A figure that cannot be read is a run less in the history, and no reason to have no report.
            continue
        index = file.parent / "report" / "index.html"
        address = os.path.relpath(index, out.resolve()) if index.is_file() else ""
        found[other.id] = msgspec.structs.replace(other, report=address)
    return sorted(found.values(), key=lambda each: (each.started, each.id))

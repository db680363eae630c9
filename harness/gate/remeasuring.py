"""Measures exports again that seem to have become slower: a single measure may have met anything on its machine.

The suspected cases are exported several times, in turn with others that are not suspected, and of each the least time
counts, for load only ever adds to it. What the others take says how fast the machine is now. Both are measured in a
process of their own, `python -m onnx_parity.harness.gate.remeasuring`, which needs the code and the declarations of the
run: where these are not here as they were, nothing is measured, and the gate says so.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec

from onnx_parity.harness.record import Record, RunInfo
from onnx_parity.harness.results.content import contents
from onnx_parity.harness.results.environment import package_versions, platform_name
from onnx_parity.harness.running.channel import to_owner
from onnx_parity.harness.running.child_process import ProcessEndedError
from onnx_parity.harness.running.worker_process import WorkerProcess
from onnx_parity.harness.store import read_columns, read_records

#: How often each case is exported, how many of its cells, and with how many cases it is compared.
ROUNDS, _MOST_CELLS, _CONTROLS = 5, 6, 8
#: More cases are not measured again: then it is not a case that became slower.
MOST_SUSPECTS = 40
_TIMEOUT = 900.0


class NotMeasuredError(Exception):
    """Exports cannot be measured here. The message says why, in a clause."""


class _Task(msgspec.Struct, frozen=True):
    """What the process is asked for: the cells of each case, in the order in which the run had them."""

    cases: list[list[str]]
    seed: int
    #: The folder of the project, and its declarations.
    root: str
    places: list[str]


def remeasure(
    baseline: Path, run: Path, info: RunInfo, suspects: Sequence[str], controls: Sequence[str], places: Sequence[Path]
) -> dict[str, float]:
    """How many times as long the exports of each suspected case take as in the baseline, on this machine as it is now.

    `controls` are cases that are not suspected; `places` are the files and folders of declarations.
    """
    _refuse_elsewhere(info)
    if len(suspects) > MOST_SUSPECTS:
        raise NotMeasuredError(f"more than {MOST_SUSPECTS} cases seem slower")
    chosen = {*suspects, *controls[:_CONTROLS]}
    before = _cells_by_case(baseline, chosen)
    cells = {
        case: [record for record in found if record.cell in before.get(case, {})][:_MOST_CELLS]
        for case, found in ((case, list(each.values())) for case, each in _cells_by_case(run, chosen).items())
    }
    cells = {case: found for case, found in cells.items() if found}
    measured = _measure_cases(cells, info.seed, places)
    ratios = {
        case: seconds / sum(before[case][record.cell].export_cpu for record in cells[case])
        for case, seconds in measured.items()
    }
    speeds = [ratios[case] for case in controls if case in ratios]
    speed = median(speeds) if speeds else 1.0
    return {case: ratios[case] / speed for case in suspects if case in ratios}


def _refuse_elsewhere(info: RunInfo) -> None:
    if info.platform != platform_name():
        raise NotMeasuredError("the run was on another machine")
    if info.packages != package_versions(info.packages):
        raise NotMeasuredError("the installed packages are not those of the run")
    if any(info.contents.get(file, content) != content for file, content in contents().items()):
        raise NotMeasuredError("the exporter or the harness has changed since the run")


def _cells_by_case(run: Path, cases: Iterable[str]) -> dict[str, dict[str, Record]]:
    """The records that were exported of these cases, in the order in which they ran."""
    wanted = frozenset(cases)
    columns = read_columns(run)
    if columns is None:
        records = [record for record in read_records(run) if record.case in wanted]
    else:
        rows = [row for row, case in enumerate(columns.values("case").each()) if case in wanted]
        records = list(columns.records_at(rows))
    found: defaultdict[str, dict[str, Record]] = defaultdict(dict)
    for record in sorted(records, key=lambda record: record.began):
        if record.export_cpu and not record.carried:
            found[record.case][record.cell] = record
    return found


def _measure_cases(cells: Mapping[str, Sequence[Record]], seed: int, places: Sequence[Path]) -> dict[str, float]:
    """The least processor time of the exports of each case, of several times."""
    task = _Task(
        [[record.nodeid for record in found] for found in cells.values()], seed, str(Path.cwd()), list(map(str, places))
    )
    process = WorkerProcess(__name__)
    try:
        process.send(msgspec.json.encode(task))
        rounds = msgspec.json.decode(process.answer(_TIMEOUT), type=list[list[float | None]])
    except (OSError, ProcessEndedError) as error:
        raise NotMeasuredError(f"measuring them failed: the process {error}") from error
    finally:
        process.kill()
    each = zip(cells, zip(*rounds, strict=True), strict=True)
    return {case: min(seconds) for case, times in each if (seconds := [time for time in times if time is not None])}


def _measure(task: _Task) -> list[list[float | None]]:
    """For each round, the processor time of the exports of each case; None if one of its cells cannot be exported."""
    from onnx_parity.harness.matrix.lookup import NoSuchCellError, find_cell

    sys.path.insert(0, task.root)
    places = list(map(Path, task.places))
    cases = []
    for ids in task.cases:
        try:
            cases.append([find_cell(each, places) for each in ids])
        except NoSuchCellError:
            cases.append([])
    # The first round is not counted: what it imports belongs to no case.
    return [[_export_time(cells, task.seed) for cells in cases] for _ in range(ROUNDS + 1)][1:]


def _export_time(cells: Sequence[object], seed: int) -> float | None:
    from onnx_parity.harness.matrix.cells import Cell
    from onnx_parity.harness.running.stages import Bench

    # Cells of a case share a capture, as in a run, but rounds do not.
    bench = Bench(seed)
    times = [bench.run(cell).export_cpu for cell in cells if isinstance(cell, Cell)]
    return sum(times) if times and all(times) else None


def _serve(descriptor: int) -> None:
    with to_owner(descriptor) as channel:
        channel.send(msgspec.json.encode(_measure(msgspec.json.decode(channel.receive(), type=_Task))))


if __name__ == "__main__":
    _serve(int(sys.argv[1]))

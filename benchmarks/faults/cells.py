"""Faults of cells, of the processes that run them, of exported programs and of runtimes.

Each gives a `Tally`: how often it was injected, and in what words those that were reported wrongly are told. A fault of
a cell counts as reported if the record of its cell has the right error and stage, all other cells have passed, and no
process is left over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.faults.forked import forked_pytest, in_parts
from benchmarks.faults.tally import Tally
from onnx_parity.exporter.verification.oracle import judge
from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.store import read_end, read_in_flight, read_records
from tests.harness import blamed, planted
from tests.harness.faults import (
    FAULTS,
    LONG_LIMITS,
    MEMORY_LIMIT,
    STAGES,
    Planted,
    killed_by,
    make_project,
    names_of,
)

__all__ = [
    "blame",
    "in_turn",
    "isolation",
    "killed_runs",
    "killed_workers",
    "oracle",
    "others",
    "told_wrongly",
]

#: A cell that hangs is given this long in each stage: other cells of its run, too, on a machine with other work.
_SECONDS = 10
_HANGING = ("--stage-seconds", str(_SECONDS), *MEMORY_LIMIT)
#: The number of concurrent runs: of those whose cells wait for this limit, and of those that compute.
_WAITING, _WORKING = 20, 2


def told_wrongly(record: Record | None, ending: str, stage: Stage) -> Iterator[str]:
    """Describe what is wrong with the record of a cell whose process ended in this way."""
    if record is None:
        yield f"no record: {ending} in stage {stage}"
    elif (record.status, record.stage, record.reason) != (Status.CRASHED, stage, f"{ending} in stage {stage}"):
        yield f"{record.cell}: {record.status} in {record.stage}: {record.reason}; it was: {ending} in stage {stage}"


def others(records: dict[str, Record], faults: Sequence[Planted]) -> Iterator[str]:
    """The cells without a fault that have no record, or did not pass."""
    for name in (*(f"before_{number}" for number in range(len(faults))), "after"):
        record = records.get(name)
        if record is None or record.status is not Status.PASSED:
            yield f"{name}: {record.reason if record else 'no record'}"


def by_name(run: Path) -> dict[str, Record]:
    return {record.name: record for record in read_records(run)}


def in_turn(fault: str, repeats: int) -> list[Planted]:
    """The fault, repeated in one stage after the other."""
    return [(fault, STAGES[number % len(STAGES)]) for number in range(repeats)]


def isolation(place: Path, repeats: int) -> Iterator[Tally]:
    """A cell that ends its process, or hangs, fails alone and does not affect other cells."""
    hanging = [fault for fault, (_, ending) in FAULTS.items() if ending.startswith("did not end")]
    others_of = [fault for fault in FAULTS if fault not in hanging]
    for kind, limits, at_once in ((hanging, _HANGING, _WAITING), (others_of, LONG_LIMITS, _WORKING)):
        all_of = [each for turn in zip(*(in_turn(fault, repeats) for fault in kind), strict=True) for each in turn]
        projects = min(at_once, len(all_of))
        parts = {place / f"{kind[0]}-{number}": all_of[number::projects] for number in range(projects)}
        for root, part in parts.items():
            root.mkdir()
            make_project(root, part)
        for run in [forked_pytest(root, *limits) for root in parts]:
            run.wait()
        wrong: dict[str, list[str]] = {fault: [] for fault in kind}
        for root, part in parts.items():
            records = by_name(root / "runs" / "last")
            for name, (fault, stage) in zip(names_of(part), part, strict=True):
                ending = FAULTS[fault][1].replace(" 2 s ", f" {_SECONDS} s ")
                wrong[fault] += told_wrongly(records.get(name), ending, stage)
            wrong[kind[0]] += others(records, part)
        yield from (Tally(fault, repeats, tuple(words)) for fault, words in wrong.items())


def oracle(_: Path, repeats: int) -> Iterator[Tally]:
    """Wrong outputs do not pass, and right ones do."""
    for fault, answer in planted.WRONG.items():
        draws = [answer(np.random.default_rng(number)) for number in range(repeats)]
        passed = [f"draw {number} passed" for number, each in enumerate(draws) if judge(*each).passed]
        yield Tally(f"oracle: {fault}", repeats, tuple(passed))
    verdicts = [judge(*planted.right_answer(np.random.default_rng(number))) for number in range(repeats)]
    yield Tally("oracle: (right answers)", repeats, tuple(each.detail for each in verdicts if not each.passed))


def blame(_: Path, repeats: int) -> Iterator[Tally]:
    """What is blamed for a failure is what it was planted in: exporter, transformation, runtime, precision or case."""
    for at_fault, wrong in blamed.planted(repeats):
        yield Tally(f"blame: {at_fault}", repeats, tuple(wrong))


def killed_workers(place: Path, repeats: int) -> Iterator[Tally]:
    """A killed worker loses the cell that it ran, or no cell if it had not yet reported the one before.

    In the latter case the controller attributes the crash to the reported cell, which has a record. The other is rerun.
    """
    faults = in_turn("kill_owner", repeats)
    make_project(place, faults)
    restarts = ("--max-worker-restart", str(2 * repeats))
    forked_pytest(place, *restarts, workers=2).wait()
    run = place / "runs" / "last"
    records = by_name(run)
    wrong = list(others(records, faults))
    workers = [file.name.removeprefix("in-flight-") for file in run.glob("in-flight-gw*")]
    died_in = {(died.name, worker) for worker in workers if (died := read_in_flight(run, worker))}
    for name, (_, stage) in zip(names_of(faults), faults, strict=True):
        record = records.get(name)
        worker = record.worker if record else "?"
        run_again = any(died == name and other != worker for died, other in died_in)
        if record and record.status is Status.PASSED and run_again:
            continue
        wrong += told_wrongly(record, f"worker {worker} was killed by SIGKILL", stage)
        wrong += left_over(place, name)
    yield Tally("kill -9 of a worker", repeats, tuple(wrong))


def killed_runs(place: Path, repeats: int) -> Iterator[Tally]:
    """A killed run has the records of all ended cells, names the running one, and continues there if resumed."""
    yield Tally("kill -9 of a run", repeats, in_parts(place, repeats, _kill_runs))


def _kill_runs(place: Path, numbers: range) -> Iterator[str]:
    faults = in_turn("kill_owner", len(STAGES))
    make_project(place, faults)
    for number in numbers:
        name = names_of(faults)[number % len(faults)]
        before, runs = f"before_{number % len(faults)}", place / f"runs-{number}"
        killed_by_this = place / killed_by(name)
        killed_by_this.unlink(missing_ok=True)
        chosen = ("-k", f"({before}- or {name}-) and dynamic or after")
        forked_pytest(place, *chosen, "--runs", str(runs)).wait()
        run = (runs / "last").resolve()
        early, in_flight = by_name(run), read_in_flight(run, "main")
        if set(early) != {before} or read_end(run) is not None:
            yield f"run {number}: records of {sorted(early)} before it was killed in {name}"
        if in_flight is None or in_flight.name != name or in_flight.stage is not faults[number % len(faults)][1]:
            yield f"run {number}: in flight was {in_flight and (in_flight.name, in_flight.stage)}, not {name}"
        yield from left_over(place, name)
        forked_pytest(place, *chosen, "--resume", str(run)).wait()
        late, end = by_name(run), read_end(run)
        if set(late) != {before, name, "after"} or {record.status for record in late.values()} != {Status.PASSED}:
            yield f"run {number}: {sorted(late)} after it was resumed"
        if late.get(before) != early.get(before) or end is None or not end.whole:
            yield f"run {number}: cells that had been run were run again, or the run has no end"


def left_over(place: Path, name: str) -> Iterator[str]:
    """Report the process of a cell whose owner is dead if it is still alive, or if there never was one."""
    told = place / killed_by(name)
    if not told.exists():
        yield f"{name} killed nobody"
        return
    process, deadline = Path("/proc") / told.read_text(), time.monotonic() + 30
    while process.exists() and "\nState:\tZ" not in (process / "status").read_text():
        if time.monotonic() > deadline:
            yield f"{name}: its process is still alive"
            return
        time.sleep(0.01)

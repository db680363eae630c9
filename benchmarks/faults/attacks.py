"""Attacks on runs, commands and files, which `python -m benchmarks.faults` repeats.

Each gives a `Tally`: how often it was made, and in what words those that went wrong are told.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from msgspec.structs import replace

import onnx_parity
from benchmarks.faults.forked import forked_parity, in_parts
from benchmarks.faults.tally import Tally
from onnx_parity.harness.gate.policy import Policy
from onnx_parity.harness.gate.verdict import judge
from onnx_parity.harness.record import Stage, Status
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import RecordWriter, create_run, read_end, read_records
from tests.exporter.program_state.test_caching_programs import PROGRAMS, X, fresh_of
from tests.harness.damage import RECORDS, a_run, damages, told
from tests.harness.faults import CELLS, LEAN, STAGES, WAITING, make_project
from tests.harness.fuzz_files import fuzz
from tests.records import INFO, RECORD

__all__ = [
    "caching_programs",
    "damaged_bytes",
    "full_disks",
    "half_written",
    "hostile_files",
    "killed_commands",
    "large_records",
    "no_baselines",
    "no_files",
]


def damaged_bytes(place: Path, repeats: int) -> Iterator[Tally]:
    """A byte of a run that is deleted, changed or doubled: nothing whole is lost, no verdict is turned round."""
    base, good, bad = a_run(place, "base"), a_run(place, "good"), a_run(place, "bad", fails=True)
    lost = [words for file in damages(good, repeats) if (words := _lost(good, file))]
    yield Tally("damaged byte: records", repeats, tuple(lost))
    for name, damaged, run, right in (
        ("run", good, good, 0),
        ("run that regressed", bad, bad, 1),
        ("baseline", base, good, 0),
        ("baseline of one that regressed", base, bad, 1),
    ):
        verdicts = [_verdict(base, run) for _ in damages(damaged, repeats)]
        wrong = [f"exit code {verdict}, not {right}" for verdict in verdicts if verdict not in (right, 2)]
        yield Tally(f"damaged byte: {name}", repeats, tuple(wrong))


def _lost(run: Path, file: str) -> str:
    records = read_records(run)
    if any(record not in RECORDS for record in records):
        return f"{file}: a record was invented"
    expected = len(RECORDS) - (1 if file.startswith("records") else 0)
    if len(records) < expected:
        return f"{file}: {len(RECORDS) - len(records)} records were lost"
    return "" if len(records) == len(RECORDS) or records.damage else f"{file}: nobody told of the lost record"


def _verdict(baseline: Path, run: Path) -> int:
    """The exit code of the gate."""
    try:
        found = judge(baseline, run, Policy())
    except RunStoreError:
        return 2
    return 1 if found.regressed else 2 if found.damage else 0


def no_baselines(place: Path, repeats: int) -> Iterator[Tally]:
    """Baselines that are empty, cut short or unfinished are refused."""
    run, draw = a_run(place, "now"), random.Random(0)
    spoilt: dict[str, Callable[[Path], object]] = {
        "empty": lambda base: (base / "records-gw0.jsonl").write_bytes(b""),
        "cut short": lambda base: _cut(base / "records-gw0.jsonl", draw.random()),
        "unfinished": lambda base: (base / "end.json").unlink(),
    }
    for name, spoil in spoilt.items():
        passed = []
        for number in range(repeats):
            base = a_run(place, f"{name}{number}")
            spoil(base)
            if _verdict(base, run) != 2:
                passed.append(f"baseline {number} was taken")
        yield Tally(f"baseline: {name}", repeats, tuple(passed))


def _cut(path: Path, share: float) -> None:
    content = path.read_bytes()
    # The end of the last line alone is no loss.
    path.write_bytes(content[: int(share * (len(content) - 1))])


def no_files(place: Path, repeats: int) -> Iterator[Tally]:
    """A pipe, or a device, in the place of a file of a run is refused, and not waited for."""
    names = ("run.json", "records-gw0.jsonl", "in-flight-gw0")
    wrong = []
    for number in range(repeats):
        run = a_run(place, f"pipe{number}")
        path = run / names[number % len(names)]
        path.unlink(missing_ok=True)
        if number % 2:
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        if (words := told(run)) and "is not a regular file" not in words:
            wrong.append(f"{path.name}: {words}")
    yield Tally("pipe or device instead of a file", repeats, tuple(wrong))


def half_written(place: Path, repeats: int) -> Iterator[Tally]:
    """A run that is read while it is written, with the clock set back now and then."""
    run = create_run(place, replace(INFO, id="half"))
    writer, wrong, draw = RecordWriter(run, "gw0"), [], random.Random(0)
    for number in range(repeats):
        record = replace(RECORD, cell=str(number), status=Status.CRASHED, began=1e9 - number)
        writer.append(record)
        writer.append(replace(record, status=Status.PASSED, began=1e9 - number - draw.random()))
        line = writer.path.read_bytes()
        writer.path.write_bytes(line + line[: draw.randrange(1, 400)])
        records = read_records(run)
        if len(records) != number + 1 or records.damage or any(each.status is Status.CRASHED for each in records):
            wrong.append(f"after {number}: {len(records)} records {records.damage}")
        writer.path.write_bytes(line)
    writer.close()
    yield Tally("read while it is written", repeats, tuple(wrong))


def large_records(place: Path, repeats: int) -> Iterator[Tally]:
    """Records of 200 MB, one of them."""
    run = create_run(place, replace(INFO, id="large"))
    writer = RecordWriter(run, "gw0")
    writer.append(replace(RECORD, message="x" * (200 << 20)))
    writer.append(replace(RECORD, cell="small"))
    writer.close()
    wrong = () if [len(each.message) >> 20 for each in read_records(run)] == [200, 0] else ("it was not read",)
    yield Tally("record of 200 MB", 1, wrong)


def killed_commands(place: Path, repeats: int) -> Iterator[Tally]:
    """`parity` alone is killed: its pytest, the workers and the process of the cell notice, and end."""
    yield Tally("kill -9 of parity alone", repeats, in_parts(place, repeats, _kill_commands))


def _kill_commands(place: Path, numbers: range) -> Iterator[str]:
    for number in numbers:
        root = place / f"killed{number}"
        root.mkdir()
        make_project(root, (("wait", STAGES[number % len(STAGES)]),))
        process = forked_parity(root, "run", *LEAN, *CELLS, "-n", _workers(number), "faulty_cases")
        while not (root / WAITING).exists() and process.poll() is None:
            time.sleep(0.02)
        run = root / "runs" / "last"
        if process.poll() is not None:
            yield f"run {number}: it ended with {process.wait()}: {process.output()[-300:]}"
            continue
        # That of the cell, the one that started it, and pytest, whose number ends the name of the run.
        pids = [*map(int, (root / WAITING).read_text().split()), int(run.resolve().name.rpartition("-")[2])]
        process.kill()
        yield from (f"run {number}: {pid} lives on" for pid in pids if not _ends(pid))
        end = read_end(run)
        if end is None or end.whole:
            yield f"run {number}: it did not end in order"


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def full_disks(place: Path, repeats: int) -> Iterator[Tally]:
    """A disk that fills within a record: what was written before is whole, and the run ends with exit code 3."""
    yield Tally("disk that fills", repeats, in_parts(place, repeats, _fill_disks))


def _fill_disks(place: Path, numbers: range) -> Iterator[str]:
    for number in numbers:
        root = place / f"full{number}"
        root.mkdir()
        make_project(root, (("fill_disk", Stage.LOAD),))
        process = forked_parity(root, "run", *LEAN, *CELLS, "-n", _workers(number), "faulty_cases")
        code, text = process.wait(), process.output()
        if code != 3 or os.strerror(errno.ENOSPC) not in text or "Traceback" in text:
            yield f"run {number}: exit code {code}: {text[-300:]}"
        elif read_records(root / "runs" / "last").damage:
            yield f"run {number}: half a record was left"


def _workers(number: int) -> str:
    """None and one in turn, where odd and even numbers are different parts."""
    return str(number // 2 % 2)


def hostile_files(place: Path, repeats: int) -> Iterator[Tally]:
    """Real models and weights with changed bytes are shown, or refused in words; a hundred times as many."""
    yield Tally("models with changed bytes", 100 * repeats, tuple(fuzz(100 * repeats)))


def caching_programs(place: Path, repeats: int) -> Iterator[Tally]:
    """A program that keeps tensors of its first call works after an export, and can be exported again."""
    wrong = []
    for number in range(repeats):
        make = PROGRAMS[number % len(PROGRAMS)]
        expected, program = fresh_of(make), make()
        first, second = (onnx_parity.export(program, (X,)).serialize() for _ in range(2))
        result = program(X)
        if first != second or type(result) is not torch.Tensor or not torch.equal(result, expected):
            wrong.append(f"{make.__name__}: {type(result).__name__}, {len(first)} and {len(second)} bytes")
    yield Tally("tensors kept by a program", repeats, tuple(wrong))

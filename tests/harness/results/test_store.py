"""The run store: complete records are never lost, and incomplete ones are never read."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from onnx_parity.harness.record import Blame, Metrics, OnnxUse, Record, RunEnd, Stage, Status
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import (
    InFlight,
    RecordWriter,
    create_run,
    forget_end,
    read_end,
    read_in_flight,
    read_info,
    read_records,
    write_end,
)
from tests.records import INFO, RECORD

#: Runs as earlier versions of the store wrote them.
OLD_RUNS = Path(__file__).parents[1] / "old_runs"


def named(cell: str, status: Status = Status.PASSED) -> Record:
    return msgspec.structs.replace(RECORD, cell=cell, status=status)


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    full = msgspec.structs.replace(
        RECORD,
        blame=Blame.EXPORTER,
        metrics=Metrics(None, 1.0, 0.0, 0.5, 2.0, 0.25, 1e-6, 0, (1, 2), None, 1.7976931348623157e308),
        onnx=(OnnxUse("Elu", 6),),
        seconds={"export": 0.001},
        reason="µ → é\n",
    )
    writer = RecordWriter(run, "gw0")
    writer.append(full)
    writer.close()
    assert list(read_records(run)) == [full]
    assert read_info(run) == INFO
    assert read_info(tmp_path / "last") == INFO


def test_a_record_of_every_status_and_blame_is_kept(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    writer = RecordWriter(run, "gw0")
    written = [named(status, status) for status in Status]
    written += [msgspec.structs.replace(named(blame, Status.FAILED), blame=blame) for blame in Blame]
    for record in written:
        writer.append(record)
    writer.close()
    assert list(read_records(run)) == written


def test_of_a_cell_recorded_twice_the_last_one_counts(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    writer = RecordWriter(run, "gw0")
    for status in (Status.CRASHED, Status.PASSED):
        writer.append(named("a", status))
    writer.append(named("b"))
    assert [(record.cell, record.status) for record in read_records(run)] == [("a", "passed"), ("b", "passed")]


def test_a_half_written_line_is_passed_over_and_written_over(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    writer = RecordWriter(run, "gw0")
    writer.append(named("whole"))
    writer.close()
    whole = writer.path.read_bytes()
    for length in range(1, len(whole)):
        writer.path.write_bytes(whole + whole[:length])
        assert [record.cell for record in read_records(run)] == ["whole"]
    again = RecordWriter(run, "gw0")
    again.append(named("next"))
    assert [record.cell for record in read_records(run)] == ["whole", "next"]


def test_a_broken_line_is_left_out_and_named(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    (run / "records-gw0.jsonl").write_bytes(b'{"cell": 1}\n' + msgspec.json.encode(RECORD) + b"\n")
    records = read_records(run)
    assert records == [RECORD]
    (place,) = records.unreadable
    assert place.startswith("records-gw0.jsonl:1: Expected `str`, got `int`")


def test_every_process_may_begin_the_run(tmp_path: Path) -> None:
    runs = {create_run(tmp_path, INFO) for _ in range(3)}
    assert runs == {tmp_path / INFO.id}
    assert sorted(path.name for path in tmp_path.iterdir()) == [INFO.id, "last"]
    later = msgspec.structs.replace(INFO, id="20260131-101501-1")
    create_run(tmp_path, later)
    assert os.readlink(tmp_path / "last") == later.id


def test_a_record_is_written_in_as_many_turns_as_the_system_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path, INFO)
    writer, write = RecordWriter(run, "gw0"), os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:100]))
    for cell in ("a", "b"):
        writer.append(named(cell))
    assert [record.cell for record in read_records(run)] == ["a", "b"]


def test_a_full_disk_costs_the_record_that_it_was_full_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_run(tmp_path, INFO)
    writer, write = RecordWriter(run, "gw0"), os.write
    writer.append(named("before"))
    room = [100, 0]

    def fill(fd: int, data: bytes) -> int:
        if not (left := room.pop(0)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[:left])

    with monkeypatch.context() as full:
        full.setattr(os, "write", fill)
        with pytest.raises(OSError, match="No space left"):
            writer.append(named("lost"))
    writer.append(named("after"))
    assert [record.cell for record in read_records(run)] == ["before", "after"]


def test_an_end_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_run(tmp_path, INFO)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_end(run, RunEnd("2026-01-31T10:16:00+00:00", whole=True))
    assert [path.name for path in run.iterdir()] == ["run.json"]


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(RunStoreError) as error:
            read_info(place)
        assert str(error.value) == f"{place} is not a run: it has no run.json. `parity run` makes one."
    (tmp_path / "run.json").write_text(
        json.dumps({"id": "x", "started": "", "seed": 0, "tier": "", "schema_version": 99})
    )
    with pytest.raises(RunStoreError) as error:
        read_info(tmp_path)
    assert "was written with schema version 99; this version of onnx-parity reads up to 2." in str(error.value)


def test_a_field_that_is_not_known_yet_is_passed_over(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    line = {**json.loads(msgspec.json.encode(RECORD)), "a_field_of_a_later_version": 1}
    (run / "records-gw0.jsonl").write_text(json.dumps(line) + "\n")
    assert list(read_records(run)) == [RECORD]


def test_the_cell_in_flight_is_known_with_its_stage(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    assert read_in_flight(run, "gw0") is None
    in_flight = InFlight(run, "gw0")
    assert read_in_flight(run, "gw0") is None
    for cell in ("a cell with a long name", "short"):
        in_flight.begin(named(cell, Status.CRASHED))
        for stage in Stage:
            in_flight.enter(stage)
            found = read_in_flight(run, "gw0")
            assert found is not None
            assert (found.cell, found.stage, found.status) == (cell, stage, Status.CRASHED)
        in_flight.end()
        assert read_in_flight(run, "gw0") is None


def test_a_process_killed_while_it_writes_costs_at_most_one_line(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    program = """
import sys
from pathlib import Path
import msgspec
from onnx_parity.harness.record import Record
from onnx_parity.harness.store import RecordWriter
writer = RecordWriter(Path(sys.argv[1]), "gw0")
record = msgspec.json.decode(sys.argv[2], type=Record)
for number in range(10**9):
    writer.append(msgspec.structs.replace(record, cell=str(number)))
    if number == 100:
        print("written", flush=True)
"""
    text = msgspec.json.encode(RECORD).decode()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(run), text], cwd=Path(__file__).parents[3], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    cells = [record.cell for record in read_records(run)]
    assert len(cells) > 100
    assert cells == [str(number) for number in range(len(cells))]


def test_of_a_cell_recorded_by_two_processes_the_one_that_began_last_counts(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    for process, status, began in (("gw1", Status.PASSED, 2.0), ("gw0", Status.CRASHED, 1.0)):
        writer = RecordWriter(run, process)
        writer.append(msgspec.structs.replace(RECORD, status=status, began=began))
        writer.close()
    # The older record stands in the file that was written last.
    os.utime(run / "records-gw1.jsonl", (1, 1))
    assert [record.status for record in read_records(run)] == [Status.PASSED]


def test_a_run_has_ended_if_it_has_an_end_record(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    assert read_end(run) is None
    write_end(run, RunEnd("2026-01-31T10:16:00+00:00", whole=True))
    assert read_end(run) == RunEnd("2026-01-31T10:16:00+00:00", whole=True)
    forget_end(run)
    forget_end(run)
    assert read_end(run) is None
    (run / "end.json").write_text("{")
    with pytest.raises(RunStoreError, match=r"end\.json cannot be read: "):
        read_end(run)


def test_runs_of_version_1_are_read() -> None:
    run = OLD_RUNS / "v1"
    info = read_info(run)
    assert (info.schema_version, info.tier, info.cpus, info.packages["torch"]) == (1, "default", 2, "2.13.0+cpu")
    assert read_end(run) is None
    records = {record.status: record for record in read_records(run)}
    assert set(records) == set(Status) - {Status.CRASHED}
    passed = records[Status.PASSED]
    assert (passed.cell, passed.opset) == ("mm_empty-float32-opset13-cpu-trace-onnxruntime", 13)
    assert passed.metrics is not None
    assert passed.began == passed.elapsed == passed.memory == 0
    assert records[Status.FAILED].blame is Blame.CASE
    assert records[Status.KNOWN].link.startswith("https://")


def test_runs_of_version_2_are_read() -> None:
    run = OLD_RUNS / "v2"
    info = read_info(run)
    assert (info.schema_version, len(info.contents), info.turn) == (2, 3, 0)
    end = read_end(run)
    assert end is not None
    assert end.whole
    records = {record.status: record for record in read_records(run)}
    assert set(records) == set(Status)
    assert records[Status.CRASHED].reason == "was killed by SIGSEGV in stage reference"
    assert records[Status.KNOWN].error.startswith("RuntimeError: Halving dimension must be even")
    passed = records[Status.PASSED]
    assert passed.began > 1.7e9
    assert 0 < passed.elapsed < 60
    assert passed.memory > 100
    assert len(passed.source) == 16

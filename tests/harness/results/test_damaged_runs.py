"""Runs that are damaged: what is whole is read, and what is not is counted and named."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from onnx_parity.harness.cli import app
from onnx_parity.harness.gate.policy import Policy
from onnx_parity.harness.gate.verdict import judge
from onnx_parity.harness.record import SCHEMA_VERSION, Record, RunEnd, Status
from onnx_parity.harness.results.merging import merge
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import (
    RecordWriter,
    create_run,
    forget_end,
    read_end,
    read_info,
    read_records,
    set_aside_unreadable,
)
from tests.harness.damage import RECORDS, a_run, damages
from tests.records import INFO, RECORD, write_run


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.slow
def test_a_damaged_byte_loses_nothing_that_is_whole(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run")
    whole = list(read_records(run))
    for name in damages(run, 500):
        records = read_records(run)
        assert all(record in whole for record in records), "nothing is invented"
        if name.startswith("records"):
            assert len(records) >= len(whole) - 1
            assert (len(records) == len(whole)) or "the records of 1 of its 6 cells are lost" in records.damage
        else:
            assert list(records) == whole


@pytest.mark.slow
def test_a_damaged_byte_never_turns_a_verdict_round(tmp_path: Path) -> None:
    base, good, bad = a_run(tmp_path, "base"), a_run(tmp_path, "good"), a_run(tmp_path, "bad", fails=True)

    def verdict(baseline: Path, run: Path) -> int:
        try:
            found = judge(baseline, run, Policy())
        except RunStoreError:
            return 2
        return 1 if found.regressed else 2 if found.damage else 0

    assert (verdict(base, good), verdict(base, bad)) == (0, 1)
    for place, run, right in ((good, good, 0), (bad, bad, 1), (base, good, 0), (base, bad, 1)):
        seen = {verdict(base, run) for _ in damages(place, 100)}
        assert seen <= {right, 2} and 2 in seen


def test_every_command_reads_a_damaged_run(tmp_path: Path) -> None:
    run, other = a_run(tmp_path, "run"), a_run(tmp_path, "other")
    for number, _ in enumerate(damages(run, 15)):
        for command in (
            ("query", "opset > 0", "--run", run),
            ("merge", run, other, "--into", tmp_path / f"merged{number}"),
            ("exporters", "--run", run) if number == 0 else ("query", "opset > 0", "--run", run, "--count"),
        ):
            code, text = invoke(*command)
            assert code in (0, 2) and "Traceback" not in text
    (run / "records-gw0.jsonl").write_bytes((run / "records-gw0.jsonl").read_bytes().replace(b"cell3", b"cell\xff", 1))
    code, text = invoke("query", "opset > 0", "--run", run)
    assert code == 0 and "5 cells" in text
    assert text.startswith(
        f"{run} is damaged: 1 line cannot be read (records-gw0.jsonl:4: its content does not have its checksum) and "
        f"the records of 1 of its 6 cells are lost. To run these cells again: parity run --resume {run}\n"
    )
    code, text = invoke("report", run)
    assert code == 0 and text.startswith(f"{run} is damaged: 1 line")
    assert "is damaged: 1 line" in (run / "report" / "index.html").read_text("utf-8")
    merged = merge([run, other], tmp_path / "all")
    assert len(read_records(merged)) == 6 and not read_records(merged).missing
    code, text = invoke(
        "gate", "--baseline", other, "--run", run, "--markdown", tmp_path / "m", "--junit", tmp_path / "x"
    )
    assert code == 2 and text.startswith(f"undecided: {run} is damaged")
    assert (tmp_path / "m").read_text("utf-8").startswith("## ❌ parity: undecided")
    assert '<error message="' in (tmp_path / "x").read_text("utf-8")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda run: (run / "records-gw0.jsonl").write_bytes(b""), "the records of 6 of its 6 cells are lost"),
        (lambda run: (run / "records-gw0.jsonl").unlink(), "the records of 6 of its 6 cells are lost"),
        (lambda run: cut(run / "records-gw0.jsonl", 700), "of its 6 cells are lost"),
        (lambda run: (run / "end.json").unlink(), "it is unfinished. To complete it: parity run --resume"),
        (lambda run: cut(run / "end.json", 20), "end.json cannot be read"),
        (lambda run: cut(run / "run.json", 20), "run.json cannot be read as the description of a run"),
    ],
)
def test_a_baseline_that_lacks_cells_is_refused(tmp_path: Path, spoil: Callable[[Path], None], reason: str) -> None:
    base, run = a_run(tmp_path, "base"), a_run(tmp_path, "run")
    spoil(base)
    code, text = invoke("gate", "--baseline", base, "--run", run)
    assert code == 2 and reason in text and text.count("\n") == 1


def test_nor_one_without_cells(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run")
    info = replace(INFO, id="empty", schema_version=SCHEMA_VERSION)
    base = write_run(tmp_path, [], info, RunEnd("2026-01-31T10:16:00+00:00", whole=True))
    code, text = invoke("gate", "--baseline", base, "--run", run)
    assert (code, text) == (2, f"{base} cannot be a baseline: it has no cells.\n")


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


@pytest.mark.parametrize("name", ["run.json", "end.json", "records-gw0.jsonl", "."])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    run = a_run(tmp_path, "run")
    if name == ".":
        run = tmp_path / "pipe"
        os.mkfifo(run)
    else:
        (run / name).unlink()
        os.mkfifo(run / name)
    code, text = invoke("query", "opset > 0", "--run", run)
    # The end says nothing of the cells.
    assert code == (0 if name == "end.json" else 2)
    assert ("is not a run: it has no run.json" if name == "." else f"{name} is not a regular file") in text


def test_a_device_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run")
    (run / "run.json").unlink()
    (run / "run.json").symlink_to("/dev/zero")
    with pytest.raises(RunStoreError, match="is not a regular file"):
        read_info(run)


def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run")
    user = os.geteuid()
    try:
        tmp_path.chmod(0o755)
        run.chmod(0o311)  # Its files can be opened by name, but not listed: it must not seem empty.
        if user == 0:
            for folder in tmp_path.parents[:2]:
                folder.chmod(0o755)
            os.seteuid(65534)
        with pytest.raises(RunStoreError, match=r"run cannot be read: Permission denied\.$"):
            read_records(run)
    finally:
        os.seteuid(user)
        run.chmod(0o755)


def test_a_run_is_read_while_it_is_written(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    writer = RecordWriter(run, "gw0")
    write, total = os.write, 300

    def in_pieces(fd: int, data: bytes) -> int:
        return write(fd, data[:37])

    def append() -> None:
        for number in range(total):
            writer.append(replace(RECORD, cell=str(number)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnx_parity.harness.store.os.write", in_pieces)
        thread = threading.Thread(target=append)
        thread.start()
        counts = []
        while thread.is_alive():
            records = read_records(run)
            assert not records.damage
            counts.append(len(records))
        thread.join()
    assert counts == sorted(counts) and len(read_records(run)) == total


def test_a_record_of_megabytes_is_read(tmp_path: Path) -> None:
    """Of 200 in `python -m benchmarks.faults`."""
    run = write_run(tmp_path, [replace(RECORD, message="x" * (5 << 20)), replace(RECORD, cell="small")])
    assert [len(record.message) >> 20 for record in read_records(run)] == [5, 0]


def test_a_cell_that_was_run_again_counts_though_the_clock_was_set_back(tmp_path: Path) -> None:
    info = replace(INFO, id="run")
    run = create_run(tmp_path, info)
    for process, status, began in (("gw0", Status.CRASHED, 2e9), ("main", Status.PASSED, 1e9)):
        writer = RecordWriter(run, process)
        writer.append(replace(RECORD, status=status, began=began))
        writer.close()
    assert [record.status for record in read_records(run)] == [Status.PASSED]


def test_the_last_line_counts_if_only_its_end_is_lost(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run")
    path = run / "records-gw0.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    assert len(read_records(run)) == 6 and not read_records(run).damage
    writer = RecordWriter(run, "gw0")
    writer.append(replace(RECORD, cell="next"))
    assert len(read_records(run)) == 7


def test_a_resumed_run_is_damaged_no_longer(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run")
    path = run / "records-gw0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b"#" * 50 + b"\n"
    path.write_bytes(b"".join(lines))
    set_aside_unreadable(run)
    forget_end(run)
    assert [record.cell for record in read_records(run)] == ["cell0", "cell2", "cell3", "cell4", "cell5"]
    assert not read_records(run).damage
    assert (run / "unreadable.txt").read_bytes() == lines[1]
    assert path.read_bytes() == b"".join(lines[:1] + lines[2:])


def test_halves_of_characters_are_recorded(tmp_path: Path) -> None:
    run = write_run(tmp_path, [replace(RECORD, reason="a\ud800b", message="é")])
    assert [(record.reason, record.message) for record in read_records(run)] == [("a?b", "é")]


def test_records_of_earlier_versions_have_no_checksum(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    lines = b"\n".join(map(msgspec.json.encode, RECORDS))
    (run / "records-gw0.jsonl").write_bytes(lines + b"\n")
    assert list(read_records(run)) == RECORDS and read_end(run) is None


def test_records_of_one_cell_are_one_record(tmp_path: Path) -> None:
    run = write_run(tmp_path, [RECORD, RECORD])
    records: list[Record] = read_records(run)
    assert records == [RECORD]

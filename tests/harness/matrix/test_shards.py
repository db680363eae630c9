"""Shards and merging: every cell is in one shard, always the same, and the shards together are the whole run."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from onnx_parity.harness.axes import AxisError
from onnx_parity.harness.cli import app
from onnx_parity.harness.matrix.shards import Shard, balance, parse_shard
from onnx_parity.harness.record import Record, RunEnd, RunInfo
from onnx_parity.harness.results.merging import merge
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import (
    RecordWriter,
    create_run,
    read_end,
    read_info,
    read_records,
    write_end,
)
from tests.records import INFO, RECORD

GROUPS = [f"case{number}-float32" for number in range(1000)]


def record(case: str, seconds: float, opset: int = 9) -> Record:
    cell = f"{case}-float32-opset{opset}"
    return msgspec.structs.replace(RECORD, cell=cell, case=case, opset=opset, elapsed=seconds)


def test_every_group_is_in_one_shard() -> None:
    held = [[group for group in GROUPS if Shard(number, 8).holds(group)] for number in range(1, 9)]
    assert sorted(group for each in held for group in each) == sorted(GROUPS)
    assert all(90 < len(each) < 160 for each in held)


def test_durations_make_shards_equally_long() -> None:
    records = [record(f"case{number}", seconds=1 + number % 7) for number in range(100)]
    records.append(record("huge", seconds=95))
    balanced = balance(records, 4)
    loads = [
        sum(each.elapsed for each in records if balanced[f"{each.case}-float32"] == shard) for shard in (1, 2, 3, 4)
    ]
    assert max(loads) - min(loads) <= 7
    # The opsets of a case share its work, and its shard.
    assert balance([record("a", 1), record("b", 3, 9), record("b", 3, 13), record("c", 5)], 2) == {
        "b-float32": 1, "c-float32": 2, "a-float32": 2
    }  # fmt: skip


def test_a_case_that_is_new_moves_no_other(tmp_path: Path) -> None:
    run = create_run(tmp_path, INFO)
    writer = RecordWriter(run, "main")
    for number in range(10):
        writer.append(record(f"case{number}", seconds=number))
    writer.close()
    shards = [parse_shard(f"{number}/3", run) for number in (1, 2, 3)]
    assert [sum(shard.holds(group) for shard in shards) for group in GROUPS] == [1] * len(GROUPS)
    assert all(
        shard.holds(group) == (shard.balanced[group] == shard.number) for shard in shards for group in GROUPS[:10]
    )


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "1/2/3", "-1/2"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(AxisError) as error:
        parse_shard(text, None)
    assert str(error.value) == f"--shard {text}: write the number and the count, such as 2/8 for the second of eight."


def make_shard(root: Path, number: int, of: int, *, info: RunInfo = INFO, ended: bool = True) -> Path:
    run = create_run(root, msgspec.structs.replace(info, id=f"run{number}", shard=f"{number}/{of}"))
    writer = RecordWriter(run, "gw0")
    writer.append(record(f"case{number}", 1.0))
    writer.close()
    if ended:
        write_end(run, RunEnd(f"2026-01-31T10:2{number}:00+00:00", whole=True))
    return run


def test_the_command_prints_the_merged_run(tmp_path: Path) -> None:
    shards = [make_shard(tmp_path, number, 2) for number in (1, 2)]
    merged = CliRunner().invoke(app, ["merge", *map(str, shards), "--into", str(tmp_path / "merged"), "--json"])
    assert json.loads(merged.stdout) == {"run": str((tmp_path / "merged" / "last").resolve())}
    alone = CliRunner().invoke(app, ["merge", str(shards[0])])
    missing = "The runs cannot be merged: shard 2 of 2 is missing. Run it, name its folder too, or pass --partial.\n"
    assert (alone.exit_code, alone.stderr) == (2, missing)


def test_shards_are_merged_into_a_run_of_their_own(tmp_path: Path) -> None:
    shards = [make_shard(tmp_path, number, 2) for number in (1, 2)]
    run = merge(shards, tmp_path / "merged")
    assert [each.case for each in read_records(run)] == ["case1", "case2"]
    info = read_info(run)
    assert (info.merged, info.shard, info.seed) == (("run1", "run2"), "", INFO.seed)
    assert read_end(run) == RunEnd("2026-01-31T10:22:00+00:00", whole=True, cells=2)
    assert (tmp_path / "merged" / "last").resolve() == run


def test_the_last_run_is_merged_by_its_link(tmp_path: Path) -> None:
    shards = [make_shard(tmp_path, number, 2) for number in (1, 2)]
    run = merge([shards[0], tmp_path / "last"], tmp_path)
    assert (tmp_path / "last").resolve() == run
    assert [each.case for each in read_records(run)] == ["case1", "case2"]
    assert read_end(run) == RunEnd("2026-01-31T10:22:00+00:00", whole=True, cells=2)


def test_missing_shards_are_reported(tmp_path: Path) -> None:
    first = make_shard(tmp_path, 1, 3)
    with pytest.raises(RunStoreError) as error:
        merge([first], tmp_path / "merged")
    assert str(error.value) == (
        "The runs cannot be merged: shard 2, 3 of 3 is missing. Run it, name its folder too, or pass --partial."
    )
    end = read_end(merge([first], tmp_path / "merged", partial=True))
    assert end is not None
    assert not end.whole


def test_a_shard_that_goes_on_makes_no_whole(tmp_path: Path) -> None:
    shards = [make_shard(tmp_path, 1, 2), make_shard(tmp_path, 2, 2, ended=False)]
    assert read_end(merge(shards, tmp_path / "merged")) is None


def test_runs_of_two_environments_are_not_one_run(tmp_path: Path) -> None:
    other = msgspec.structs.replace(INFO, seed=7)
    shards = [make_shard(tmp_path, 1, 2), make_shard(tmp_path, 2, 2, info=other)]
    with pytest.raises(RunStoreError, match=r"they differ in their seed, 0 and 7\. Compare them with `parity gate`"):
        merge(shards, tmp_path / "merged")


def test_a_run_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    shards = [make_shard(tmp_path, number, 2) for number in (1, 2)]
    (tmp_path / "again").symlink_to(shards[0])
    with pytest.raises(RunStoreError) as error:
        merge([*shards, tmp_path / "again"], tmp_path / "merged")
    assert str(error.value) == (
        f"{tmp_path}/again and {shards[0]} cannot be merged: they are the same run. Name each run once."
    )
    assert not (tmp_path / "merged").exists()


def test_durations_are_those_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunStoreError) as error:
        parse_shard("1/2", tmp_path)
    assert str(error.value) == f"{tmp_path} is not a run: it has no run.json. `parity run` makes one."

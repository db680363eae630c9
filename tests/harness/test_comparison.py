"""Comparison of exporters: right, wrong, refused and crashed exports, and the summary of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import start
from onnx_parity.exporter.arrays import Array
from onnx_parity.harness.axes import PARITY, TORCH_DYNAMO, TORCH_SCRIPT, Dtype
from onnx_parity.harness.cli import app
from onnx_parity.harness.comparison.figures import missed_though_a_peer_is_right, misses, rows, spelled_points, targets
from onnx_parity.harness.comparison.outcome import Comparison, Outcome, Point, Task, Verdict
from onnx_parity.harness.comparison.worker import first_difference
from onnx_parity.harness.comparison.workers import Worker, WorkerStartError, run_tasks
from onnx_parity.harness.record import RunInfo

TANH = Point("tanh", Dtype.FLOAT32, 0)


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are started as modules, as the command starts them."""
    monkeypatch.chdir(Path(start.__file__).parent)


@pytest.mark.slow
def test_crash_and_silence_are_outcomes_of_their_opset_and_the_rest_goes_on() -> None:
    opsets = (7, 9, 11, 13, 14, 15, 16, 17, 18)
    with Worker.started_when_needed(PARITY, seed=0, timeout=5.0, module="tests.harness.failing_worker") as worker:
        found = {each.opset: (each.verdict, each.reason) for each in worker.outcomes(Task(TANH, opsets))}
    assert tuple(found) == opsets
    assert found[7] == found[18] == (Verdict.RIGHT, "")
    assert found[9] == (Verdict.CRASHED, "was killed by SIGSEGV")
    assert found[11] == (Verdict.CRASHED, "gave no answer for 5 s")
    assert found[13][0] is Verdict.WRONG
    assert found[13][1].startswith("output 0 at (")
    assert found[14] == (Verdict.REFUSED, "not before opset 18")
    assert found[15] == (Verdict.BROKEN, "export: TypeError: an exporter's mistake")
    assert found[16][0] is Verdict.BROKEN
    assert found[16][1].startswith("onnxruntime: InvalidArgument: ")
    assert found[17] == (Verdict.WRONG, "opset 17 was requested, but opset 18 was delivered")


def test_worker_that_does_not_start_stops_the_comparison() -> None:
    with (
        Worker.started_when_needed(PARITY, seed=0, timeout=8.0, module="tests.harness.no_such_worker") as worker,
        pytest.raises(WorkerStartError, match="the worker of parity did not start: it exited with 1"),
    ):
        list(worker.outcomes(Task(TANH, (18,))))


def test_every_exporter_is_right_on_an_easy_sample() -> None:
    steps = iter(range(9))
    for exporter in (PARITY, TORCH_SCRIPT):
        task = Task(TANH, (18,))
        found = run_tasks(exporter, [task], seed=0, processes=2, timeout=120.0, done=partial(next, steps))
        assert [(each.exporter, each.opset, each.verdict) for each in found] == [(exporter, 18, Verdict.RIGHT)]
        assert found[0].seconds is not None
    assert next(steps) == 2


def array(*values: float) -> Array:
    return np.array(values, dtype=np.float32)


def ints(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


NAN = array(float("nan"))


@pytest.mark.parametrize(
    ("got", "want", "difference"),
    [
        ([array(1.0, 2.0)], [array(1.0005, 2.00005)], ""),
        ([array(float("nan"), float("inf"))], [array(float("nan"), float("inf"))], ""),
        ([], [array(1.0)], "0 outputs instead of 1"),
        ([[1.0]], [array(1.0)], "output 0 is list instead of a tensor"),
        ([ints(1).astype(np.int32)], [ints(1)], "output 0 is int32 of shape (1,) instead of int64 of shape (1,)"),
        ([array(1.0, 2.0)], [array(1.0)], "output 0 is float32 of shape (2,) instead of float32 of shape (1,)"),
        ([array(1.0, 2.0, 3.0)], [array(1.0, 2.1, 3.1)], "output 0 at (1,): 2 instead of 2.1; 2 of 3 elements"),
        ([ints(1000)], [ints(1001)], "output 0 at (0,): 1000 instead of 1001; 1 of 1 elements"),
        ([array(1.0), NAN], [array(1.0), array(0.0)], "output 1 at (0,): nan instead of 0; 1 of 1 elements"),
    ],
)  # fmt: skip
def test_differences_are_described(got: list[object], want: list[Array], difference: str) -> None:
    assert first_difference(got, want) == difference


def comparison(outcomes: Sequence[tuple[str, int, int, Verdict]], *, points: int) -> Comparison:
    """Of `add`, from (exporter, opset, position, verdict)."""
    where = tuple(Point("add", Dtype.FLOAT32, position) for position in range(points))
    return Comparison(
        run=RunInfo(id="x", started="x", seed=0, tier="default"),
        whole=True,
        database=False,
        exporters=(PARITY, TORCH_DYNAMO, TORCH_SCRIPT),
        points=where,
        outcomes=tuple(
            Outcome(where[position], exporter, opset, verdict, f"node {position} is not good", 0.002)
            for exporter, opset, position, verdict in outcomes
        ),
    )


def test_rows_count_by_exporter_and_opset() -> None:
    found = rows(
        comparison(
            [
                (PARITY, 9, 0, Verdict.REFUSED),
                (PARITY, 18, 0, Verdict.RIGHT),
                (PARITY, 18, 1, Verdict.RIGHT),
                (TORCH_SCRIPT, 18, 0, Verdict.CRASHED),
            ],
            points=2,
        )
    )
    assert [(row.exporter, row.opset, dict(row.counts)) for row in found] == [
        (PARITY, 9, {Verdict.REFUSED: 1}),
        (PARITY, 18, {Verdict.RIGHT: 2}),
        (TORCH_SCRIPT, 18, {Verdict.CRASHED: 1}),
    ]
    assert [row.milliseconds for row in found] == [2.0, 2.0, 2.0]


def test_targets_are_met_or_short() -> None:
    everything_right = [(PARITY, 18, position, Verdict.RIGHT) for position in range(100)]
    assert [(each.wanted, each.found, each.met) for each in targets(comparison(everything_right, points=100))] == [
        ("right at opset 18: at least 99 of 100 (540 of 549)", "100", True),
        ("wrong at any opset: none", "0", True),
        ("broken at any opset: none", "0", True),
        ("crashed at any opset: none", "0", True),
    ]
    two_wrong = [*everything_right[2:], (PARITY, 18, 0, Verdict.WRONG), (PARITY, 18, 1, Verdict.CRASHED)]
    a_peer_right = [(TORCH_DYNAMO, 18, 1, Verdict.RIGHT), (TORCH_SCRIPT, 18, 2, Verdict.RIGHT)]
    found = targets(comparison([*two_wrong, *a_peer_right], points=100))
    assert [(each.wanted, each.found, each.met) for each in found] == [
        ("right at opset 18: at least 99 of 100 (540 of 549)", "98", False),
        ("wrong at any opset: none", "1", False),
        ("broken at any opset: none", "0", True),
        ("crashed at any opset: none", "1", False),
        ("right at opset 18 wherever a peer is: 2", "1", False),
        ("median export at opset 18 no longer than torch_script's 2.0 ms", "2.0 ms", True),
    ]
    missed = missed_though_a_peer_is_right(comparison([*two_wrong, *a_peer_right], points=100))
    assert spelled_points(tuple(missed)) == "add[1]"


def test_the_database_has_counts_of_its_own() -> None:
    right = comparison([(PARITY, 23, position, Verdict.RIGHT) for position in range(99)], points=100)
    found = targets(msgspec.structs.replace(right, database=True))
    assert (found[0].wanted, found[0].met) == ("right at opset 23: at least 99 of 100 (2160 of 2189)", True)


def test_the_counts_do_not_apply_to_part_of_the_entries() -> None:
    part = msgspec.structs.replace(comparison([(PARITY, 18, 0, Verdict.REFUSED)], points=1), whole=False)
    assert not any(each.wanted.startswith("right at opset") for each in targets(part))


def test_misses_of_the_same_cause_stand_together() -> None:
    found = misses(
        comparison(
            [
                (PARITY, 7, 0, Verdict.REFUSED),
                (PARITY, 9, 0, Verdict.REFUSED),
                (PARITY, 7, 2, Verdict.REFUSED),
                (PARITY, 9, 1, Verdict.WRONG),
                (PARITY, 9, 3, Verdict.RIGHT),
                (TORCH_SCRIPT, 9, 3, Verdict.BROKEN),
            ],
            points=4,
        ),
        PARITY,
    )
    assert [(each.verdict, each.reason, spelled_points(each.points), each.opsets) for each in found] == [
        (Verdict.REFUSED, "node 0 is not good", "add[0,2]", (7, 9)),
        (Verdict.WRONG, "node 1 is not good", "add[1]", (9,)),
    ]


def test_command_leaves_every_outcome_as_json() -> None:
    result = CliRunner().invoke(app, ["compare", "tanh", "--exporters", "parity", "--opsets", "9,18", "--json"])
    assert result.exit_code == 0, result.output
    found = msgspec.json.decode(result.stdout, type=Comparison)
    assert [(each.point, each.opset, each.verdict) for each in found.outcomes] == [
        (TANH, 9, Verdict.RIGHT),
        (TANH, 18, Verdict.RIGHT),
    ]


def test_command_names_an_unknown_entry() -> None:
    result = CliRunner().invoke(app, ["compare", "clampp", "--exporters", "parity"])
    assert result.exit_code == 2
    assert "has no OpInfo entry 'clampp'; it has clamp" in result.stderr


def test_command_refuses_an_opset_that_onnxruntime_does_not_run() -> None:
    result = CliRunner().invoke(app, ["compare", "tanh", "--exporters", "parity", "--opsets", "26-28"])
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())  # The terminal wraps it.
    assert said == "--opsets: onnxruntime, which runs the models here, does not support opset 27, only 7 to 26."


def test_halves_may_be_what_torch_computes_in_float32() -> None:
    overflown, exact = np.array([np.inf, 2.0], np.float16), np.array([28.5, 2.0], np.float32)
    assert first_difference([exact.astype(np.float16)], [overflown]) != ""
    assert first_difference([exact.astype(np.float16)], [overflown], [exact]) == ""
    assert "30 instead of inf" in first_difference([np.array([30, 2], np.float16)], [overflown], [exact])
    # The dtype is that of the narrow result, and floats of 32 bits are held to their own.
    assert "is float32" in first_difference([exact], [overflown], [exact])
    wide = np.array([np.inf, 2.0], np.float32)
    assert first_difference([exact], [wide], [exact]) != ""

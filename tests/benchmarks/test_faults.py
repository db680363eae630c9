"""`python -m benchmarks.faults`: wrong reports are detected, and a short run of the command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from msgspec.structs import replace
from typer.testing import CliRunner

from benchmarks.faults.__main__ import main
from benchmarks.faults.cells import in_turn, others, told_wrongly
from benchmarks.faults.tally import Tally
from onnx_parity.exporter.verification.oracle import judge
from onnx_parity.harness.record import Stage, Status
from tests.harness import planted
from tests.harness.faults import STAGES, names_of
from tests.records import RECORD

_ROOT = Path(__file__).parents[2]
_DIED = replace(RECORD, status=Status.CRASHED, stage=Stage.LOAD, reason="was killed by SIGSEGV in stage load")


def test_a_wrong_record_is_detected() -> None:
    def words(record: object) -> list[str]:
        return list(told_wrongly(record, "was killed by SIGSEGV", Stage.LOAD))  # type: ignore[arg-type]

    assert words(_DIED) == []
    assert words(None) == ["no record: was killed by SIGSEGV in stage load"]
    for wrong in (
        replace(_DIED, status=Status.PASSED),
        replace(_DIED, stage=Stage.RUN),
        replace(_DIED, reason="exited with 0 in stage load"),
    ):
        (told,) = words(wrong)
        assert told.endswith("it was: was killed by SIGSEGV in stage load")


def test_a_neighbour_that_is_gone_or_did_not_pass_is_seen() -> None:
    passed = replace(RECORD, status=Status.PASSED)
    faults = in_turn("exit", 2)
    whole = dict.fromkeys(("before_0", "before_1", "after"), passed)
    assert list(others(whole, faults)) == []
    assert list(others({**whole, "before_1": _DIED}, faults)) == [f"before_1: {_DIED.reason}"]
    del whole["after"]
    assert list(others(whole, faults)) == ["after: no record"]


def test_a_fault_comes_to_every_stage_in_turn() -> None:
    faults = in_turn("exit", len(STAGES) + 1)
    assert {stage for _, stage in faults} == set(STAGES)
    assert names_of(faults)[-1] == "exit_at_build_again1"
    assert Tally("exit", 10, ("one",)).line().split() == ["exit", "9", "of", "10", "reported"]


@pytest.mark.parametrize("fault", planted.WRONG)
def test_a_planted_output_differs_only_as_described(fault: str) -> None:
    """What the oracle refuses differs from what it was to be in one way; the right answer beside it passes."""
    outputs, wanted = planted.WRONG[fault](np.random.default_rng(0))
    assert not judge(outputs, wanted).passed
    assert judge([each.value for each in wanted], wanted).passed


def test_no_repeats_are_refused() -> None:
    app = typer.Typer()
    app.command()(main)
    assert CliRunner().invoke(app, ["--repeats", "0"]).exit_code == 2


@pytest.mark.slow
def test_every_fault_is_reported_at_every_stage() -> None:
    command = [sys.executable, "-m", "benchmarks.faults", "--repeats", str(len(STAGES))]
    ran = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.fullmatch(r"9 repeats of [5-9]\d faults: all reported, in \d+ s", ran.stdout.splitlines()[-1])

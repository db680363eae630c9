"""Expectations: which cells a selector takes, and what becomes of their records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.expectations import Expectation, ExpectationError, expected, load
from harness.record import Record, Stage, Status
from tests.harness.test_store import RECORD

TOPK = "topk[k=0]-float32-opset{}-cpu-trace-onnxruntime"


def known(cells: str, stage: Stage = Stage.LOAD) -> Expectation:
    return Expectation(cells, stage, "no kernel for k=0", "https://example.org/1")


def opsets(selector: str) -> list[int]:
    return [opset for opset in range(7, 29) if known(selector).matches(TOPK.format(opset))]


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        ("topk[k=0]-*-opset<10-*", [7, 8, 9]),
        ("topk[k=0]-*-opset<=10-*", [7, 8, 9, 10]),
        ("topk[k=0]-*-opset>26-*", [27, 28]),
        ("topk[k=0]-*-opset>=26-cpu-trace-onnxruntime", [26, 27, 28]),
        ("topk[k=0]-*-opset9-12-*", [9, 10, 11, 12]),
        ("topk[k=0]-*-opset9-*", [9]),
        ("topk[k=?]-*-opset8-*", [8]),
        ("topk*", list(range(7, 29))),
        ("topk", []),
        ("topk[k=0]-*-opset<7-*", []),
        ("top[k]*", []),
        ("topk[k=0]-*-opset1*", list(range(10, 20))),
    ],
)
def test_selectors(selector: str, taken: list[int]) -> None:
    assert opsets(selector) == taken


def record(status: Status, stage: Stage, reason: str = "") -> Record:
    return msgspec.structs.replace(RECORD, status=status, stage=stage, reason=reason)


def test_a_failure_at_the_expected_stage_is_known() -> None:
    for status in (Status.FAILED, Status.CRASHED):
        applied = known("*").apply(record(status, Stage.LOAD, "NOT_IMPLEMENTED"))
        assert (applied.status, applied.reason, applied.link, applied.error) == (
            Status.KNOWN, "no kernel for k=0", "https://example.org/1", "NOT_IMPLEMENTED"
        )  # fmt: skip


def test_a_failure_at_another_stage_is_a_failure() -> None:
    applied = known("*").apply(record(Status.FAILED, Stage.COMPARE, "off by one"))
    assert applied.status is Status.FAILED
    assert applied.reason == "expected to fail at load (no kernel for k=0), failed at compare: off by one"


def test_a_pass_is_unexpected() -> None:
    applied = known("topk*").apply(record(Status.PASSED, Stage.RERUN_VALUES))
    assert applied.status is Status.UNEXPECTED_PASS
    assert applied.reason == ("expected to fail at load: no kernel for k=0. It passes now: narrow or remove 'topk*'")


@pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.ABSENT])
def test_other_endings_are_left_alone(status: Status) -> None:
    assert known("*").apply(record(status, Stage.LOAD)) == record(status, Stage.LOAD)


def test_the_file_beside_the_declarations_is_read(tmp_path: Path) -> None:
    assert load(tmp_path / "expectations.toml") == ()
    (tmp_path / "expectations.toml").write_text(
        '[[known]]\ncells = "elu*"\nstage = "check"\nreason = "first"\nlink = "a"\n'
        '[[known]]\ncells = "*"\nstage = "check"\nreason = "second"\nlink = "b"\n'
    )
    load.cache_clear()
    failed = record(Status.FAILED, Stage.CHECK)
    assert expected(failed, tmp_path).reason == "first"
    assert expected(msgspec.structs.replace(failed, cell="relu"), tmp_path).reason == "second"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[known]]\ncells = "a"\nstage = "lode"\nreason = "b"\nlink = "c"',
            "Invalid enum value 'lode' - at `$[0].stage`",
        ),
        ('[[known]]\ncells = "a"\nstage = "load"\nlink = "c"', "Object missing required field `reason` - at `$[0]`"),
        ("[[known", "Expected ']]' at the end of an array declaration"),
    ],
)
def test_a_file_that_makes_no_sense_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "expectations.toml"
    path.write_text(text)
    with pytest.raises(ExpectationError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {message}")

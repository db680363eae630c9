"""Expectations: which cells a selector takes, and what becomes of their records."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from onnx_parity.harness.expecting.expectations import Expectation, ExpectationError, expected, load
from onnx_parity.harness.record import Record, Stage, Status
from tests.records import RECORD

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
    return replace(RECORD, status=status, stage=stage, reason=reason)


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


def test_a_failure_in_other_words_is_a_failure() -> None:
    applied = replace(known("*"), error="*NO [KERNEL]*").apply(record(Status.FAILED, Stage.LOAD, "broken"))
    assert applied.status is Status.FAILED
    reason = "expected to fail at load (no kernel for k=0), failed at load otherwise than with '*NO [KERNEL]*': broken"
    assert (applied.reason, applied.error) == (reason, "broken")
    foreseen = record(Status.FAILED, Stage.LOAD, "1: NO [KERNEL]\nfor it")
    assert replace(known("*"), error="*NO [KERNEL]*").apply(foreseen).status is Status.KNOWN


@pytest.mark.parametrize(
    ("keys", "matches"),
    [
        ({"opset": "<10"}, True),
        ({"opset": "7,13-18"}, False),
        ({"dtype": "float32"}, True),
        ({"dtype": ("float16", "int8")}, False),
        (
            {"device": "cpu", "capture": "trace", "exporter": "parity", "runtime": "onnxruntime", "shapes": "static"},
            True,
        ),
        ({"exporter": "torch_dynamo"}, False),
        ({"runtime": "onnx.reference"}, False),
        ({"shapes": "dynamic"}, False),
    ],
)
def test_axes_narrow_a_selector(keys: dict[str, str], matches: bool) -> None:
    assert replace(known("*"), **keys).matches("pad[to=-0.2-x]-float32-opset9-cpu-trace-onnxruntime") is matches


def test_the_axes_of_a_cell_of_a_peer_are_read_from_its_id() -> None:
    cell = "pad-int8-opset13-cuda-script-onnxruntime:basic-torch_dynamo-dynamic"
    keys = {"exporter": "torch_dynamo", "runtime": "onnxruntime:basic", "shapes": "dynamic", "device": "cuda"}
    assert replace(known("*"), **keys).matches(cell)
    assert replace(known("*"), shapes="dynamic", exporter="parity").matches(cell.replace("-torch_dynamo", ""))


@pytest.mark.parametrize(
    ("packages", "applies"),
    [
        ({}, True),
        ({"torch": ">=2.13"}, True),
        ({"torch": "<2.13"}, False),
        ({"torch": "==2.13.0", "onnx": ">1"}, False),
    ],
)
def test_packages_say_which_environment_is_meant(packages: dict[str, str], applies: bool) -> None:
    assert replace(known("*"), packages=packages).applies({"torch": "2.13.0+cpu"}) is applies


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
    assert expected(replace(failed, cell="relu"), tmp_path).reason == "second"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[known]]\ncells = "a"\nstage = "lode"\nreason = "b"\nlink = "c"',
            "Invalid enum value 'lode' - at `$[0].stage`",
        ),
        ('[[known]]\ncells = "a"\nstage = "load"\nlink = "c"', "Object missing required field `reason` - at `$[0]`"),
        (
            '[[known]]\ncells = "a"\nstage = "load"\nreason = "b"\nlink = "c"\nopsets = "9"',
            "Object contains unknown field `opsets` - at `$[0]`",
        ),
        (
            '[[known]]\ncells = "a"\nstage = "load"\nreason = "b"\nlink = "c"\nopset = "<7"',
            "'a' has opset = '<7'. Write '<10', '>=13', '9' or '7-9,13', of 7 to 28.",
        ),
        (
            '[[known]]\ncells = "a"\nstage = "load"\nreason = "b"\nlink = "c"\npackages = { torch = "2.1" }',
            "'a' has packages that are not written as pip does: Invalid specifier: '2.1'",
        ),
        ("[[known", "Expected ']]' at the end of an array declaration"),
    ],
)
def test_a_file_that_makes_no_sense_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "expectations.toml"
    path.write_text(text)
    with pytest.raises(ExpectationError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_a_file_in_another_encoding_says_so(tmp_path: Path) -> None:
    path = tmp_path / "expectations.toml"
    path.write_bytes("# für später\n".encode("latin-1"))
    with pytest.raises(ExpectationError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: it is no UTF-8: 'utf-8' codec can't decode byte 0xfc")


def test_a_table_of_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "expectations.toml"
    path.write_text('[[knwon]]\ncells = "elu*"\n')
    with pytest.raises(ExpectationError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: it holds knwon, and may hold [[known]] alone"

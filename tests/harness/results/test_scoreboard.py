"""The scoreboard: what runtimes make of models, told apart, with what is claimed but wrong first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from onnx_parity.harness.cell_ids import CellPoint, point_of
from onnx_parity.harness.cli import app
from onnx_parity.harness.record import Blame, Ending, Record, Stage, Status
from onnx_parity.harness.results.scoreboard import ending_of, score
from tests.records import RECORD, write_run


def record(runtime: str = "onnxruntime", *, opset: int = 9, transforms: str = "", **fields: object) -> Record:
    capture = f"trace+{transforms}" if transforms else "trace"
    cell = f"elu[alpha=1.0]-float32-opset{opset}-cpu-{capture}-{runtime}"
    return replace(RECORD, cell=cell, runtime=runtime, opset=opset, transforms=transforms, **fields)


WRONG = {"status": Status.FAILED, "stage": Stage.COMPARE, "reason": "off by 1", "blame": Blame.RUNTIME}


@pytest.mark.parametrize(
    ("fields", "ending"),
    [
        ({}, Ending.RIGHT),
        (WRONG, Ending.WRONG),
        ({"status": Status.FAILED, "stage": Stage.LOAD, "reason": "RuntimeError: no"}, Ending.REFUSED),
        ({"status": Status.FAILED, "stage": Stage.RERUN_VALUES, "reason": "RuntimeError: no"}, Ending.REFUSED),
        ({"status": Status.FAILED, "stage": Stage.RUN, "reason": "ChangedInputError: it wrote"}, Ending.WRONG),
        ({"status": Status.KNOWN, "stage": Stage.RUN, "error": "RuntimeError: no"}, Ending.REFUSED),
        (
            {"status": Status.CRASHED, "stage": Stage.RUN, "reason": "was killed by SIGSEGV in stage run"},
            Ending.CRASHED,
        ),
        (
            {
                "status": Status.KNOWN,
                "stage": Stage.LOAD,
                "error": "did not end within 9 s and was killed in stage load",
            },
            Ending.HUNG,
        ),
        (
            {
                "status": Status.KNOWN,
                "stage": Stage.RUN,
                "error": "took more than 9 MiB of memory and was killed in stage run",
            },
            Ending.CRASHED,
        ),
        ({"status": Status.ABSENT, "declined": True}, Ending.UNSUPPORTED),
        ({"status": Status.ABSENT}, None),
        ({"status": Status.UNSUPPORTED, "stage": Stage.EXPORT}, None),
        ({"status": Status.FAILED, "stage": Stage.TRANSFORM}, None),
        ({"status": Status.FAILED, "stage": Stage.CHECK}, None),
    ],
)
def test_endings_are_told_apart(fields: dict[str, object], ending: Ending | None) -> None:
    assert ending_of(record(**fields)) is ending  # type: ignore[arg-type]  # by name


def test_a_cell_that_ran_elsewhere_was_not_supported() -> None:
    elsewhere = replace(record(), runtime="onnx.reference")
    assert ending_of(elsewhere) is Ending.UNSUPPORTED


def test_the_place_of_a_cell_is_read_from_the_end_of_its_id() -> None:
    peer = point_of("x-opset1[y]-float32-opset9-cpu-trace+ort:all+float16-tract-torch_dynamo-dynamic")
    assert peer == CellPoint(9, "float32", "cpu", "trace", "ort:all+float16", "tract", "torch_dynamo", "dynamic")
    ours = point_of("x-float32-opset9-cpu-trace-onnx.reference-dynamic")
    assert ours == CellPoint(9, "float32", "cpu", "trace", "", "onnx.reference", "parity", "dynamic")


def board() -> list[Record]:
    return [
        record(),
        record("openvino"),
        record("tract", **WRONG),  # type: ignore[arg-type]  # by name
        record("tract", opset=13, **WRONG),
        record("tract", opset=18),
        record("tract", opset=18, transforms="onnxslim"),
        record("tinygrad", status=Status.ABSENT, declined=True),
        record("emx", status=Status.ABSENT),
    ]


def test_what_is_claimed_but_wrong_comes_first_with_what_the_others_say() -> None:
    found = score(board())
    assert found.subjects == ["onnxruntime", "openvino", "tinygrad", "tract", "onnxslim → tract"]
    assert found.totals["tract"] == {Ending.WRONG: 2, Ending.RIGHT: 1}
    (finding,) = found.findings
    assert (finding.subject, finding.ending, finding.opsets) == ("tract", Ending.WRONG, [9, 13])
    assert (finding.others_right, finding.others, finding.blame) == (2, 2, Blame.RUNTIME)
    (row,) = found.rows
    assert row.scores["tract"].gravest is Ending.WRONG
    assert row.scores["tract"].opsets == {Ending.WRONG: [9, 13], Ending.RIGHT: [18]}
    assert not row.all_alike


def test_what_runtimes_share_is_told_apart_from_what_each_takes() -> None:
    first = record("openvino", seconds={"reference": 2.0, "export": 3.0, "load": 0.5, "compare": 0.25})
    second = record("tract", seconds={"export": 0.125, "load": 1.0})
    found = score([first, second])
    assert found.seconds == {"openvino": 0.75, "tract": 1.0}
    assert found.shared_by == {"openvino": 5.0, "tract": 0.125}
    assert found.shared_seconds == 5.125


def test_what_one_expectation_explains_is_one_line_after_what_none_explains(tmp_path: Path) -> None:
    known = replace(
        record("tract"), status=Status.KNOWN, stage=Stage.COMPARE, error="off by 1", reason="it rounds down"
    )
    records = [
        known,
        replace(known, case="elu[alpha=0.5]", cell="elu[alpha=0.5]-float32-opset9-cpu-trace-tract"),
        replace(
            known, case="selu", cell="selu-float32-opset9-cpu-trace-tract", status=Status.FAILED, reason="off", error=""
        ),
    ]
    run = write_run(tmp_path, records)
    lines = CliRunner().invoke(app, ["scoreboard", str(run)]).output.splitlines()
    assert lines[:2] == [
        "wrong: tract: selu float32 opset 9 compare: off",
        "wrong: tract: elu[alpha=0.5] float32 opset 9 compare, and 1 more alike: known: it rounds down",
    ]
    every = CliRunner().invoke(app, ["scoreboard", str(run), "--all"]).output.splitlines()
    assert every[2] == "wrong: tract: elu[alpha=1.0] float32 opset 9 compare: known: it rounds down"
    found = json.loads(CliRunner().invoke(app, ["scoreboard", str(run), "--json"]).output)["findings"]
    assert [(each["case"], each["reason"], each["known"]) for each in found[1:]] == [
        ("elu[alpha=0.5]", "off by 1", "it rounds down"),
        ("elu[alpha=1.0]", "off by 1", "it rounds down"),
    ]


def test_the_command_prints_it_and_ends_with_1_if_a_runtime_is_wrong(tmp_path: Path) -> None:
    run = write_run(tmp_path, board())
    result = CliRunner().invoke(app, ["scoreboard", str(run)], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    first, *rest = result.output.splitlines()
    assert first == (
        "wrong: tract: elu[alpha=1.0] float32 opset 9, 13 compare (runtime); 2 of 2 other runtimes are right: off by 1"
    )
    assert any("wrong 2/3 at 9, 13" in line for line in rest)
    parsed = json.loads(CliRunner().invoke(app, ["scoreboard", str(run), "--json"]).output)
    assert parsed["totals"]["openvino"] == {"right": 1}
    assert next(iter(parsed)) == "findings"
    right = write_run(tmp_path / "right", [record()])
    assert CliRunner().invoke(app, ["scoreboard", str(right)]).exit_code == 0
    known = [replace(each, status=Status.KNOWN) if each.status is Status.FAILED else each for each in board()]
    assert CliRunner().invoke(app, ["scoreboard", str(write_run(tmp_path / "known", known))]).exit_code == 0


def test_what_an_exporter_got_wrong_is_not_counted_for_a_runtime() -> None:
    wrong = {**WRONG, "blame": Blame.EXPORTER, "exporter": "torch_dynamo"}
    changed = {**WRONG, "blame": Blame.TRANSFORMATION, "transforms": "onnxslim"}
    records = [replace(RECORD, **each) for each in (wrong, wrong, changed, WRONG)]
    board = score(records)
    assert board.not_theirs == {"exporter torch_dynamo": 2, "transformation onnxslim": 1}
    assert [total for each in board.totals.values() for total in each.items()] == [(Ending.WRONG, 1)]
    assert [each.blame for each in board.findings] == [Blame.RUNTIME]

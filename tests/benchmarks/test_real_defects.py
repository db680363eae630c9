"""The table of real defects, and how the matrix's cells are judged by it."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.real_defects.__main__ import judge
from benchmarks.real_defects.defect import Defect, read_defects
from onnx_parity.harness.record import Blame, OnnxUse, Stage, Status
from tests.records import RECORD

DEFECTS = {each.name: each for each in read_defects()}
FAILED = msgspec.structs.replace(
    RECORD,
    cell="minimum-float32-opset13-cpu-trace-onnxruntime",
    status=Status.FAILED,
    stage=Stage.COMPARE,
    blame=Blame.RUNTIME,
    runtime="onnxruntime",
    onnx=(OnnxUse("Min", 13),),
)


def test_every_defect_has_a_name_of_its_own_a_report_and_a_sentence() -> None:
    assert len(DEFECTS) == len(read_defects()) >= 80
    for each in DEFECTS.values():
        assert each.report.startswith("https://github.com/") and each.says.endswith("."), each.name
        # The program is the judge, and none of the cells.
        assert each.name not in each.names


@pytest.mark.parametrize("name", ["minimum_of_nan_and_one_number", "division_of_negative_integers"])
def test_a_program_is_right_with_the_releases_that_are_installed(name: str) -> None:
    assert DEFECTS[name].shows() == ""


def test_a_program_says_what_is_wrong() -> None:
    defect = Defect("name", "onnx", "1", None, "onnx.reference", "Add", "", (), (), lambda: ([1.0], [2.0]))
    assert defect.shows() == "1.0, expected 2.0"
    refused = Defect("name", "onnx", "1", None, "onnx.reference", "Add", "", (), (), lambda: (1 / 0, 1))
    assert refused.shows() == "ZeroDivisionError: division by zero"


def test_a_cell_notices_a_defect_if_it_fails_with_the_old_release_alone() -> None:
    defect = DEFECTS["minimum_of_nan_and_one_number"]
    old = {FAILED.cell: FAILED}
    assert judge(defect, old, old, silent=True).words == "not noticed"
    other = msgspec.structs.replace(FAILED, cell="clamp-float32-opset13-cpu-trace-onnxruntime", blame=Blame.EXPORTER)
    found = judge(defect, old | {other.cell: other}, {}, silent=True)
    assert (found.cells, found.blamed, found.located, found.example) == (2, 1, 1, FAILED.cell)
    elsewhere = msgspec.structs.replace(FAILED, onnx=(OnnxUse("Max", 13),))
    assert judge(defect, {FAILED.cell: elsewhere}, {}, silent=True).located == 0
    assert judge(defect, old, {}, silent=False).cells == 0
    of_another = msgspec.structs.replace(FAILED, cell="maximum-float32-opset13-cpu-trace-onnxruntime")
    assert judge(defect, {of_another.cell: of_another}, {}, silent=True).cells == 0


def test_a_case_of_the_operator_blames_the_runtime_alone() -> None:
    found = judge(DEFECTS["division_of_negative_integers"], {}, {}, ["Div-13-int32"], silent=True)
    assert found.is_noticed and found.is_blamed
    assert found.example == "Div-13-int32"

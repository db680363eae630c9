"""The table of real defects, and how the matrix's cells are judged by it."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.real_defects.__main__ import judge, read_defects
from onnx_parity.harness.record import Blame, OnnxUse, Status
from tests.records import RECORD

DEFECTS = read_defects()
FAILED = msgspec.structs.replace(
    RECORD, cell="old", status=Status.FAILED, blame=Blame.RUNTIME, runtime="onnxruntime", onnx=(OnnxUse("Min", 13),)
)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.program)
def test_every_defect_has_its_program_and_its_issue(defect: object) -> None:
    (each,) = [one for one in DEFECTS if one is defect]
    assert "raise SystemExit(" in each.path.read_text("utf-8")
    assert each.issue.startswith("https://github.com/") and each.broken != each.right
    # The program is the judge, and none of the cells.
    assert each.program not in " ".join(each.run)


def test_a_cell_notices_a_defect_if_it_fails_with_the_old_release_alone() -> None:
    (defect,) = [each for each in DEFECTS if each.program == "onnxruntime_min_of_nan"]
    assert judge(defect, {"old": FAILED}, {"old": FAILED}).words == "not noticed"
    other = msgspec.structs.replace(FAILED, cell="other", blame=Blame.EXPORTER, exporter="parity")
    found = judge(defect, {"old": FAILED, "other": other}, {})
    assert (found.cells, found.blamed, found.located, found.example) == (2, 1, 1, "old")
    elsewhere = msgspec.structs.replace(FAILED, onnx=(OnnxUse("Max", 13),))
    assert judge(defect, {"old": elsewhere}, {}).located == 0

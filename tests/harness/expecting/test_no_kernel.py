"""The kernels that onnxruntime lacks: what its error tells, and the cells that lack another one than is listed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import onnx.parser
import pytest

from onnx_parity.harness.axes import Tier
from onnx_parity.harness.expecting import no_kernel
from onnx_parity.harness.expecting.expectations import ExpectationError
from onnx_parity.harness.judging.lacking_kernel import lacking_kernel
from onnx_parity.harness.record import Blame, Record, Stage, Status
from tests.records import RECORD

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 13]> main (double[2] x, bool c) => (double[2] a) {'
    "[choice] a = If (c) <then_branch = g () => (double[2] z) { [there] z = Atan (x) },"
    " else_branch = h () => (double[2] z) { [here] z = Neg (x) }> }"
)
ERROR = "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for {} node with name '{}'"


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (ERROR.format("Atan(7)", "there"), "Atan(7) of double"),
        (ERROR.format("If(13)", "choice"), "If(13) of bool"),
        (ERROR.format("Atan(7)", "elsewhere"), "Atan(7)"),
        ("no such words", "no such words"),
    ],
)
def test_what_an_error_tells(error: str, lacks: str) -> None:
    assert lacking_kernel(error, MODEL) == lacks


def fell_back(**more: object) -> Record:
    return msgspec.structs.replace(RECORD, **{"lacks": "Mod(13) of float16", **more})


def written(folder: Path, *lacking: str, versions: str = "") -> Path:
    (folder / no_kernel.FILE).write_text(no_kernel.write_text(Tier.DEFAULT, lacking, versions), "utf-8")
    no_kernel.load_once.cache_clear()
    return folder


def test_a_cell_that_lacks_what_is_not_listed_fails(tmp_path: Path) -> None:
    folder = written(tmp_path, "Mod(10) of float16")
    record = no_kernel.judge_record(fell_back(), folder, lambda tier: True)
    assert (record.status, record.stage, record.blame) == (Status.FAILED, Stage.LOAD, Blame.EXPORTER)
    assert record.reason == "onnxruntime has no kernel for Mod(13) of float16, and no_kernel.toml does not list it"


@pytest.mark.parametrize(
    ("record", "versions", "in_tier"),
    [
        (fell_back(lacks="Mod(10) of float16"), "", True),
        (fell_back(lacks=""), "", True),
        (fell_back(status=Status.FAILED), "", True),
        (fell_back(exporter="torch_script"), "", True),
        (fell_back(case="x[drawn]"), "", True),
        (fell_back(), "<1", True),
        (fell_back(), "", False),
    ],
    ids=["listed", "of onnxruntime", "failed", "of a peer", "drawn", "of another version", "of another tier"],
)
def test_others_stay_as_they_are(tmp_path: Path, record: Record, versions: str, in_tier: bool) -> None:
    folder = written(tmp_path, "Mod(10) of float16", versions=versions)
    assert no_kernel.judge_record(record, folder, lambda tier: in_tier) is record


def test_without_a_file_nothing_is_judged(tmp_path: Path) -> None:
    record = fell_back()
    assert no_kernel.judge_record(record, tmp_path, lambda tier: True) is record


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / no_kernel.FILE).write_text('tier = "smoke"\nlacking = 3', "utf-8")
    with pytest.raises(ExpectationError, match=r"no_kernel\.toml: Expected `array`"):
        no_kernel.load(tmp_path / no_kernel.FILE)

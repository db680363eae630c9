"""The page of operators: its statements about each, and the list of those that were not covered."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.results.public_names import NameGroup, PublicName
from onnx_parity.reports.operators import operators_page, write_operators
from tests.records import RECORD, write_run
from tests.reports.synthetic_run import info


def _record(opset: int, status: Status, reason: str = "", dtype: str = "float32") -> Record:
    return replace(
        RECORD,
        cell=f"erf-{dtype}-opset{opset}",
        case="erf",
        name="erf",
        family="elementwise",
        opset=opset,
        dtype=dtype,
        status=status,
        stage=Stage.COMPARE,
        reason=reason,
        aten=("aten::erf",),
    )


def _run(folder: Path, *records: Record) -> Path:
    return write_run(folder, records, info())


def test_says_since_when_and_why_not_earlier(tmp_path: Path) -> None:
    run = _run(
        tmp_path,
        _record(8, Status.UNSUPPORTED, "ONNX has Erf only from opset 9"),
        _record(9, Status.PASSED),
        _record(10, Status.PASSED),
    )
    (row,) = [line for line in operators_page(run).splitlines() if "`erf`" in line]
    assert row == "| elementwise | `erf` | 1 | 9 |  | float32 | 8: ONNX has Erf only from opset 9 |"


def test_a_dtype_that_is_right_from_another_opset_names_it(tmp_path: Path) -> None:
    run = _run(
        tmp_path,
        _record(9, Status.PASSED),
        _record(13, Status.PASSED),
        _record(9, Status.UNSUPPORTED, "no bfloat16", "bfloat16"),
        _record(13, Status.PASSED, "", "bfloat16"),
        _record(9, Status.PASSED, "", "float16"),
        _record(18, Status.PASSED),
    )
    (row,) = [line for line in operators_page(run).splitlines() if "`erf`" in line]
    assert row == "| elementwise | `erf` | 1 | 9 |  | bfloat16:13 float16 float32 | 9: no bfloat16 |"


def test_a_failure_is_not_since_anything(tmp_path: Path) -> None:
    run = _run(tmp_path, _record(9, Status.PASSED), _record(10, Status.FAILED, "output 0 differs"))
    (row,) = [line for line in operators_page(run).splitlines() if "`erf`" in line]
    assert "| – |" in row
    assert "10: **failed**: output 0 differs" in row


def test_untested_lowerings_are_listed_as_not_covered(tmp_path: Path) -> None:
    run = _run(tmp_path, _record(9, Status.PASSED))
    page = operators_page(run, ("aten::erf", "aten::erfc", "aten::max.dim"))
    assert page.endswith(
        "## Not covered\n\n2 operators with a lowering that no cell of this run traced:\n\n`aten::erfc`, `aten::max`\n"
    )


def test_says_what_is_covered_of_what(tmp_path: Path) -> None:
    run = _run(tmp_path, _record(9, Status.PASSED), replace(_record(9, Status.PASSED), name="opinfo.clamp", case="c"))
    names = [
        NameGroup("ATen, core set", "aten", [PublicName("aten::erf"), PublicName("aten::sgn", "it has no lowering")]),
        NameGroup("OpInfo entries", "opinfo", [PublicName("clamp"), PublicName("rand", "random"), PublicName("sgn")]),
    ]
    page = operators_page(run, (), names)
    assert "| ATen, core set | 1 | 2 |\n| OpInfo entries | 1 | 3 |\n" in page
    assert "## Left of ATen, core set\n\n- it has no lowering (1): `aten::sgn`\n" in page
    assert (
        "## Left of OpInfo entries\n\n- no case of this run is a sample of it (1): `sgn`\n- random (1): `rand`\n"
        in page
    )


def test_replaces_the_page_whole(tmp_path: Path) -> None:
    out = tmp_path / "docs" / "operators.md"
    run = _run(tmp_path, _record(9, Status.PASSED))
    write_operators(run, out)
    write_operators(run, out)
    assert out.read_text(encoding="utf-8") == operators_page(run)
    assert [path.name for path in out.parent.iterdir()] == ["operators.md"]

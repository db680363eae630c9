"""The page of operators: its statements about each, and the list of those that were not covered."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from onnx_parity.harness.record import Record, Stage, Status
from onnx_parity.harness.results.public_names import NameGroup, PublicName
from onnx_parity.reports.operators import operators_page, write_operators
from tests.records import RECORD, write_run
from tests.reports.synthetic_run import info


def _record(opset: int, status: Status, reason: str = "", name: str = "erf") -> Record:
    return replace(
        RECORD,
        cell=f"{name}-float32-opset{opset}",
        case=name,
        name=name,
        family="elementwise",
        opset=opset,
        status=status,
        stage=Stage.COMPARE,
        reason=reason,
        aten=("aten::erf",),
    )


def _run(folder: Path, *records: Record) -> Path:
    return write_run(folder, records, info())


def test_says_how_many_are_right_from_which_opset_on(tmp_path: Path) -> None:
    run = _run(
        tmp_path,
        _record(8, Status.UNSUPPORTED, "ONNX has Erf only from opset 9"),
        _record(9, Status.PASSED),
        _record(10, Status.PASSED),
        _record(9, Status.PASSED, name="wrong later"),
        _record(18, Status.FAILED, "output 0 differs", "wrong later"),
        _record(18, Status.PASSED, name="opinfo.clamp"),
    )
    page = operators_page(run)
    assert "| declared | of | opset 7 | opset 9 | opset 11 |" in page
    assert "\n| operators | 2 | 0 | 1 | 1 | 1 | 1 | 1 | 1 | 1 |\n" in page


def test_lowerings_that_no_cell_traced_are_listed(tmp_path: Path) -> None:
    run = _run(tmp_path, _record(9, Status.PASSED))
    page = operators_page(run, ("aten::erf", "aten::erfc", "aten::max.dim"))
    assert page.endswith("- 2 operators with a lowering that no cell of this run traced: `aten::erfc`, `aten::max`\n")


def test_says_what_is_covered_of_what(tmp_path: Path) -> None:
    run = _run(
        tmp_path,
        _record(9, Status.PASSED),
        _record(9, Status.PASSED, name="opinfo.clamp"),
        _record(18, Status.KNOWN, "onnxruntime's Sigmoid is imprecise", "opinfo.silu"),
        _record(18, Status.UNSUPPORTED, "sparse", "opinfo.sparse"),
    )
    names = [
        NameGroup(
            "ATen, core set",
            "aten",
            [
                PublicName("aten::erf"),
                PublicName("aten::sgn", "it has neither a lowering nor a decomposition"),
                PublicName("aten::add_", "in-place", as_others=True),
            ],
        ),
        NameGroup("OpInfo entries", "opinfo", [PublicName(name) for name in ("clamp", "silu", "sparse", "sgn")]),
    ]
    page = operators_page(run, (), names)
    assert "| ATen, core set | 3 | 1 | 0 | 0 | 0 | 1 | 1 |\n| OpInfo entries | 4 | 1 | 1 | 1 | 0 | 0 | 1 |\n" in page
    assert page.partition("## What is missing\n\n")[2].splitlines() == [
        "- ATen, core set, it has neither a lowering nor a decomposition: `aten::sgn`",
        "- OpInfo entries, every cell that has it is refused: `sparse`",
        "- OpInfo entries, exported, and fails as an expectation says: `silu`",
    ]


def test_a_long_list_is_counted(tmp_path: Path) -> None:
    names = [NameGroup("OpInfo entries", "opinfo", [PublicName(f"n{number}", "random") for number in range(42)])]
    page = operators_page(_run(tmp_path, _record(9, Status.PASSED)), (), names)
    assert page.endswith("`n39`, and 2 more\n")


def test_replaces_the_page_whole(tmp_path: Path) -> None:
    out = tmp_path / "docs" / "operators.md"
    run = _run(tmp_path, _record(9, Status.PASSED))
    write_operators(run, out)
    write_operators(run, out)
    assert out.read_text(encoding="utf-8") == operators_page(run)
    assert [path.name for path in out.parent.iterdir()] == ["operators.md"]

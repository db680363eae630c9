"""Cells that ended alike for one cause are one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from onnx_parity.harness.record import Blame, Record, Stage, Status
from onnx_parity.harness.results.causes import Cause, causes_of, name_few
from tests.records import RECORD

WRONG_VALUES = "output 0 at (1, {0}): runtime -0.97{0}, torch -0.488; error 4.9e-01, tolerance 2.4e-07, headroom 0.0000"


def wrong(case: str, *aten: str, opset: int = 9, **changes: Any) -> Record:
    """A cell with wrong values, of a program of these operators."""
    name = case.partition("[")[0]
    usual = {"status": Status.FAILED, "stage": Stage.COMPARE, "blame": Blame.EXPORTER, "reason": WRONG_VALUES.format(2)}
    return replace(RECORD, case=case, name=name, aten=aten, opset=opset, cell=f"{case}-{opset}", **{**usual, **changes})


def rows(*records: Record) -> list[tuple[str, int]]:
    return [(cause.subject, cause.cells) for cause in causes_of(records)]


def only(*records: Record) -> Cause:
    (cause,) = causes_of(records)
    return cause


def three_defects() -> Iterator[Record]:
    """Cells of a run in which `elu` is computed wrongly, `topk` is not loaded, and `var` is refused."""
    for opset in range(7, 16):
        for dtype in ("float32", "float16"):
            yield wrong("elu[alpha=0.5]", "aten::elu", opset=opset, dtype=dtype)
    yield wrong("elu_", "aten::elu", stage=Stage.RERUN_VALUES, reason=WRONG_VALUES.format(1) + "; 2 of 6 elements")
    yield wrong("elu_nan", "aten::elu", reason="output 0 at (0, 1): runtime nan, torch 0.5; NaN and infinities differ")
    yield wrong("network", "aten::convolution", "aten::elu", "aten::mean", stage=Stage.RERUN_SIZES)
    load = "Fail: [ONNXRuntimeError] : Node (n{0}) Op (TopK) [ShapeInferenceError] Axis {0} is beyond {1, 2}"
    for number, case in enumerate(("topk[k=1]", "topk[k=2]", "sort")):
        reason = load.replace("{0}", str(number))
        yield wrong(case, "aten::topk", "aten::slice", stage=Stage.LOAD, reason=reason)
    refused = "it is refused, and unsupported.toml does not say so: "
    for overload, opset in (("correction", 9), ("dim", 10), ("correction", 12)):
        error = f"aten::var.{overload}: counting along a dynamic axis needs ONNX's Range (from opset {opset + 1})"
        yield wrong(
            "var", "aten::var", opset=opset, stage=Stage.EXPORT, error=error, reason=refused + error, refused=True
        )
    yield wrong("std", stage=Stage.EXPORT, error=error, reason=refused + error, refused=True)


def test_three_defects_are_three_rows() -> None:
    records = list(three_defects())
    assert len(records) == 28
    assert rows(*records) == [("aten::elu", 21), ("topk, sort", 3), ("aten::var", 4)]
    elu = causes_of(records)[0]
    assert elu.where == "compare, rerun_sizes, rerun_values (exporter)"
    assert elu.extent == "21 cells of 4 cases, opset 7-15, float32, float16"
    assert elu.again == RECORD.again


@pytest.mark.parametrize(
    "changes",
    [
        {"stage": Stage.LOAD},
        {"blame": Blame.RUNTIME},
        {"status": Status.CRASHED},
        {"exporter": "torch_dynamo"},
        {"reason": "output 0 has shape (2, 3) from the runtime, (2, 4) from torch"},
        {"reason": "output 0 at (0,): runtime 0.0, torch -0.0; the sign of zero differs"},
        {"aten": ("aten::celu",)},
    ],
)
def test_what_differs_in_one_of_these_has_another_cause(changes: dict[str, object]) -> None:
    one = wrong("elu", "aten::elu")
    assert len(causes_of([one, replace(one, cell="other", **changes)])) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "float16"},
        {"opset": 20},
        {"shapes": "dynamic"},
        {"case": "elu[alpha=2]"},
        {"name": "elu_in_place"},
        {"reason": "output 0 at (0, 1, 7): runtime inf, torch 3; NaN and infinities differ; 3 of 7 elements"},
        {"reason": WRONG_VALUES.format(3) + " (other values)"},
    ],
)
def test_what_differs_in_these_has_the_same_cause(changes: dict[str, object]) -> None:
    one = wrong("elu", "aten::elu")
    assert only(one, replace(one, cell="other", **changes)).cells == 2


def test_the_runtime_tells_causes_apart_only_if_it_is_to_blame() -> None:
    ours = [wrong("elu", "aten::elu", runtime=name) for name in ("onnxruntime", "onnx.reference")]
    assert only(*ours).cells == 2
    assert len(causes_of(replace(each, blame=Blame.RUNTIME) for each in ours)) == 2


def test_a_program_belongs_to_the_smallest_one_within_it() -> None:
    small = wrong("var", "aten::sub", "aten::mean")
    large = wrong("std", "aten::sub", "aten::mean", "aten::sqrt")
    # In whatever order they were run, what is said of one cell is said of the smallest program.
    for records in ((small, large), (large, small)):
        assert rows(*records) == [("var, std", 2)]
        assert only(*records).first == small
    assert len(causes_of([small, wrong("mad", "aten::abs", "aten::mean")])) == 2


def test_a_failure_at_fewer_opsets_does_not_explain_one_at_more() -> None:
    small = [wrong("elu", "aten::elu", opset=opset) for opset in (9, 13)]
    network = [wrong("network", "aten::elu", "aten::mm", opset=opset) for opset in (10, 12)]
    assert rows(*small, *network) == [("aten::elu", 4)]
    assert rows(*small, *network, replace(network[0], opset=18)) == [("aten::elu", 2), ("network", 3)]


def test_without_operators_the_declaration_tells_causes_apart() -> None:
    died: dict[str, Any] = {
        "status": Status.CRASHED,
        "blame": None,
        "stage": Stage.RUN,
        "reason": "was killed by SIGFPE in stage run",
    }
    records = [wrong(case, **died) for case in ("topk[k=0]", "topk[k=1]", "sort")]
    assert rows(*records) == [("topk", 2), ("sort", 1)]


def test_refusals_are_told_by_their_reasons() -> None:
    refused: dict[str, Any] = {"status": Status.UNSUPPORTED, "blame": None, "stage": Stage.EXPORT, "dtype": "bfloat16"}
    records = [
        wrong(
            name, f"aten::{name}", reason=f"aten::{name}: Cast does not take torch.bfloat16 (from opset 13)", **refused
        )
        for name in ("elu", "exp", "erf", "add", "abs")
    ]
    cause = only(*records)
    assert cause.subject == "aten::abs, aten::add, aten::elu and 2 more"
    assert cause.detail == "aten::elu: Cast does not take torch.bfloat16 (from opset 13)"


def test_known_failures_are_told_by_the_reasons_of_their_expectations() -> None:
    known: dict[str, Any] = {"status": Status.KNOWN, "reason": "MaxPool is not defined for NaN"}
    records = [
        wrong("pool", "aten::max_pool2d", error=error, blame=blame, **known)
        for error, blame in (("output 0 differs", Blame.UNKNOWN), ("NaN and infinities differ", Blame.EXPORTER))
    ]
    assert only(*records).cells == 2


def test_the_gravest_come_first() -> None:
    records = [
        wrong("a", status=Status.UNSUPPORTED),
        wrong("b", "aten::b"),
        wrong("c", "aten::c", status=Status.CRASHED),
        wrong("d", "aten::d"),
    ]
    assert [cause.first.case for cause in causes_of(records)] == ["c", "b", "d", "a"]


def test_long_lists_of_names_are_cut() -> None:
    assert name_few("abcd") == "a, b, c, d"
    assert name_few("abcde") == "a, b, c and 2 more"

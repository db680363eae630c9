"""Coverage: the squares of a grid from its cells, and the opset from which on a row is right."""

from __future__ import annotations

from itertools import combinations

import pytest
from msgspec.structs import replace

from onnx_parity.harness.record import Blame, Record, Stage, Status
from onnx_parity.reports.coverage import Reason, RowHead, Since, aggregate, build_grid, right_since
from onnx_parity.reports.outcomes import State, Tally
from onnx_parity.reports.pages.coverage_data import since_by_dtype
from tests.reports.synthetic_run import PASSING

FAILED = replace(PASSING, status=Status.FAILED, stage=Stage.COMPARE, blame=Blame.EXPORTER, reason="off by one")
ABSENT = replace(PASSING, status=Status.ABSENT, stage=Stage.BUILD, device="cuda", reason="no CUDA device")


def grid_of(*records: Record, opsets: tuple[int, ...] = (18,)) -> tuple[State, ...]:
    (row,) = build_grid([RowHead("elu", "activation", "", "", records)], opsets).rows
    return tuple(square.state for square in row.squares)


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        ((), State.NOT_COVERED),
        ((Status.PASSED,), State.PASSED),
        ((Status.ABSENT,), State.ABSENT),
        ((Status.UNSUPPORTED,), State.UNSUPPORTED),
        ((Status.UNSUPPORTED, Status.ABSENT), State.UNSUPPORTED),
        ((Status.PASSED, Status.UNSUPPORTED), State.PARTLY),
        ((Status.PASSED, Status.KNOWN), State.KNOWN),
        ((Status.PASSED, Status.UNEXPECTED_PASS), State.UNEXPECTED_PASS),
        ((Status.PASSED, Status.FAILED, Status.KNOWN), State.FAILED),
        ((Status.PASSED, Status.FAILED, Status.CRASHED), State.CRASHED),
    ],
)
def test_a_square_is_as_grave_as_its_gravest_cell(statuses: tuple[Status, ...], state: State) -> None:
    assert aggregate(Tally(statuses)) is state


def test_a_square_is_a_pass_only_when_all_that_ran_passed() -> None:
    for size in range(len(Status) + 1):
        for statuses in combinations(Status, size):
            looks_right = aggregate(Tally(statuses)) is State.PASSED
            assert looks_right == (set(statuses) - {Status.ABSENT} == {Status.PASSED}), statuses


@pytest.mark.parametrize(
    ("states", "since"),
    [
        ("✓✓✓✓", Since(7, 7)),
        ("–✓✓✓", Since(8, 8)),
        ("◐◐✓✓", Since(9, 7)),
        ("✓×✓✓", Since(9, 9)),
        ("◐×◐✓", Since(10, 9)),
        ("✓✓✓×", Since(None, None)),
        ("✓✓✓~", Since(None, None)),
        ("◐◐◐◐", Since(None, 7)),
        ("✓✓✓–", Since(None, None)),
        ("✓○✓○", Since(7, 7)),
        ("○○○○", Since(None, None)),
        ("·✓✓·", Since(8, 8)),
    ],
)
def test_right_since(states: str, since: Since) -> None:
    glyphs = {
        "✓": State.PASSED, "–": State.UNSUPPORTED, "◐": State.PARTLY, "×": State.FAILED,
        "~": State.KNOWN, "○": State.ABSENT, "·": State.NOT_COVERED,
    }  # fmt: skip
    assert right_since({opset: glyphs[glyph] for opset, glyph in enumerate(states, 7)}) == since


def test_an_opset_without_cells_is_not_covered() -> None:
    assert grid_of(PASSING, opsets=(17, 18)) == (State.NOT_COVERED, State.PASSED)


def test_a_square_shows_that_part_of_it_did_not_run() -> None:
    grid = build_grid([RowHead("elu", "", "", "", (PASSING, ABSENT))], (18,))
    (square,) = grid.rows[0].squares
    assert (square.state, square.some_absent, square.summary) == (State.PASSED, True, "1 passed, 1 absent")
    assert grid.reasons == (Reason(State.ABSENT, "", "", "no CUDA device"),)


def test_an_absent_square_is_not_called_absent_in_part() -> None:
    (square,) = build_grid([RowHead("elu", "", "", "", (ABSENT,))], (18,)).rows[0].squares
    assert (square.state, square.some_absent) == (State.ABSENT, False)


def test_a_reason_is_kept_once_for_the_whole_grid() -> None:
    records = [replace(FAILED, opset=opset) for opset in (7, 8, 9)]
    grid = build_grid([RowHead("elu", "", "", "", records)], (7, 8, 9))
    assert grid.reasons == (Reason(State.FAILED, "compare · exporter", "", "off by one"),)
    assert [square.reasons for square in grid.rows[0].squares] == [(0,), (0,), (0,)]


def test_reasons_name_the_case_where_the_row_has_several() -> None:
    cases = [replace(ABSENT, case=f"elu[{n}]", cell=str(n)) for n in range(2)]
    records = [replace(FAILED, case="elu[0]"), *cases]
    grid = build_grid([RowHead("elu", "", "", "", records)], (18,))
    assert [(reason.state, reason.who) for reason in grid.reasons] == [
        (State.FAILED, "elu[0]"),
        (State.ABSENT, "2 cases"),
    ]


def test_a_square_lists_five_reasons_and_counts_the_others() -> None:
    records = [replace(FAILED, cell=str(n), reason=f"reason {n}") for n in range(8)]
    (square,) = build_grid([RowHead("elu", "", "", "", records)], (18,)).rows[0].squares
    assert (len(square.reasons), square.more_reasons) == (5, 3)


def test_what_onnx_does_not_have_at_an_opset_is_not_a_part_that_is_missing() -> None:
    refused = replace(PASSING, status=Status.UNSUPPORTED, dtype="bfloat16", reason="ONNX's Cast does not take bfloat16")
    assert grid_of(replace(PASSING, opset=9), replace(refused, opset=9), opsets=(9,)) == (State.PASSED,)
    assert grid_of(replace(PASSING, opset=13), replace(refused, opset=13), opsets=(13,)) == (State.PARTLY,)
    assert grid_of(replace(refused, opset=9), opsets=(9,)) == (State.UNSUPPORTED,)
    since = since_by_dtype([replace(PASSING, opset=9), replace(refused, opset=9), replace(PASSING, opset=13)])
    assert (since.whole, since.others) == (9, [])
    other = replace(refused, dtype="float16", opset=9)
    assert grid_of(replace(PASSING, opset=9), other, opsets=(9,)) == (State.PARTLY,)

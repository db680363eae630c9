"""What is known of sizes: which is never greater than another, and what a condition on them says."""

from __future__ import annotations

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from onnx_parity.exporter.capture.sizes.conditions import narrowed, satisfying
from onnx_parity.exporter.capture.sizes.order import in_order

N, M = sympy.symbols("n m", integer=True)
SIZES = {N: ValueRanges(0, int_oo), M: ValueRanges(0, int_oo)}


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (N, N),
        (N - 1, N),
        (N, 2 * N + M),
        (FloorDiv(N, 2), N),
        (N - FloorDiv(N, 2), N),
        (3 * FloorDiv(N, 3), N),
        (Mod(N, 4), N + 3),
        (Min(N, M), M),
        (Max(N - 2, 0), N),
        (N, Max(N, M)),
    ],
)
def test_is_never_greater(low: sympy.Expr, high: sympy.Expr) -> None:
    assert in_order(low, high, SIZES)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (N, M),
        (N + 1, N),
        (2 * N, N),
        (N, FloorDiv(N, 2)),
        (Max(N, M), M),
        (N, Min(N, M)),
        (N, sympy.Integer(8)),
        (sympy.Integer(1), N),
        (FloorDiv(N, 2), FloorDiv(N, 3)),
    ],
)
def test_may_be_greater(low: sympy.Expr, high: sympy.Expr) -> None:
    assert not in_order(low, high, SIZES)


def test_declared_ranges_are_used() -> None:
    assert in_order(N, sympy.Integer(8), {N: ValueRanges(1, 8)})
    assert in_order(N, M, {N: ValueRanges(1, 8), M: ValueRanges(8, int_oo)})


def test_conditions_narrow_the_ranges() -> None:
    inside = narrowed(SIZES, sympy.And(N < 4, sympy.Eq(M, 5)))
    assert (inside[N].lower, inside[N].upper) == (0, 3)
    assert (inside[M].lower, inside[M].upper) == (5, 5)
    assert narrowed(SIZES, N < M) == SIZES
    assert narrowed(SIZES, sympy.Or(N < 4, M < 4)) == SIZES


@pytest.mark.parametrize(
    "conditions",
    [[N < 4], [N >= 12], [N > M], [sympy.Eq(N, 5), N < M], [~sympy.Eq(Mod(N, 2), 0)], [N + M < 6], [4 - N > 0, M > 9]],
)
def test_sizes_that_satisfy_conditions_are_found(conditions: list[sympy.Basic]) -> None:
    found = satisfying({N: 6, M: 8}, conditions)
    assert all(condition.xreplace(found) == sympy.true for condition in conditions)
    assert min(found.values()) > 1


def test_sizes_stay_where_the_conditions_hold_or_cannot() -> None:
    assert satisfying({N: 6, M: 8}, [N > 3]) == {N: 6, M: 8}
    assert satisfying({N: 6, M: 8}, [N < 2]) == {N: 6, M: 8}

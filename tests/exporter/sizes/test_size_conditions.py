"""What is known of sizes: which is never greater than another, and what a condition on them says."""

from __future__ import annotations

import math

import pytest

from onnx_parity.exporter.expressions.bounds import Range
from onnx_parity.exporter.expressions.conditions import (
    And,
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    Or,
    Unequal,
)
from onnx_parity.exporter.expressions.expression import Expression, Number, Symbol, expression_of
from onnx_parity.exporter.expressions.integers_and_reals import FloorDiv, Max, Min, Mod
from onnx_parity.exporter.expressions.solving import in_order, narrowed
from onnx_parity.exporter.sizes.branch_sizes import find_sizes

N, M = Symbol("n"), Symbol("m")
SIZES = {N: Range(0, math.inf), M: Range(0, math.inf)}


def of(kind: type[Expression], *numbers: Expression | int) -> Expression:
    return kind.of(*map(expression_of, numbers))


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (N, N),
        (N - 1, N),
        (N, 2 * N + M),
        (of(FloorDiv, N, 2), N),
        (N - of(FloorDiv, N, 2), N),
        (3 * of(FloorDiv, N, 3), N),
        (of(Mod, N, 4), N + 3),
        (of(Min, N, M), M),
        (of(Max, N - 2, 0), N),
        (N, of(Max, N, M)),
    ],
)
def test_is_never_greater(low: Expression, high: Expression) -> None:
    assert in_order(low, high, SIZES)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (N, M),
        (N + 1, N),
        (2 * N, N),
        (N, of(FloorDiv, N, 2)),
        (of(Max, N, M), M),
        (N, of(Min, N, M)),
        (N, Number(8)),
        (Number(1), N),
        (of(FloorDiv, N, 2), of(FloorDiv, N, 3)),
    ],
)
def test_may_be_greater(low: Expression, high: Expression) -> None:
    assert not in_order(low, high, SIZES)


def test_declared_ranges_are_used() -> None:
    assert in_order(N, Number(8), {N: Range(1, 8)})
    assert in_order(N, M, {N: Range(1, 8), M: Range(8, math.inf)})


def test_conditions_narrow_the_ranges() -> None:
    inside = narrowed(SIZES, And.of(of(Less, N, 4), of(Equal, M, 5)))
    assert inside == {N: Range(0, 3), M: Range(5, 5)}
    assert narrowed(SIZES, of(Less, 2 * N + 1, 8)) == {**SIZES, N: Range(0, 3)}
    assert narrowed(SIZES, of(Greater, of(FloorDiv, N, 3), 1)) == {**SIZES, N: Range(6, math.inf)}
    assert narrowed(SIZES, of(Less, N, M)) == SIZES
    assert narrowed(SIZES, Or.of(of(Less, N, 4), of(Less, M, 4))) == SIZES


@pytest.mark.parametrize(
    "conditions",
    [
        [of(Less, N, 4)],
        [of(GreaterOrEqual, N, 12)],
        [of(Greater, N, M)],
        [of(Equal, N, 5), of(Less, N, M)],
        [of(Unequal, of(Mod, N, 2), 0)],
        [of(Less, N + M, 6)],
        [of(Greater, 4 - N, 0), of(Greater, M, 9)],
    ],
)
def test_sizes_that_satisfy_conditions_are_found(conditions: list[Expression]) -> None:
    found = find_sizes({N: 6, M: 8}, conditions)
    assert all(condition.at(found) for condition in conditions)
    assert min(found.values()) > 1


def test_sizes_stay_where_the_conditions_hold_or_cannot() -> None:
    assert find_sizes({N: 6, M: 8}, [of(Greater, N, 3)]) == {N: 6, M: 8}
    assert find_sizes({N: 6, M: 8}, [of(Less, N, 2)]) == {N: 6, M: 8}

"""Expressions over symbols: their values, ranges and texts are those of the same arithmetic in Python."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest

from onnx_parity.exporter.expressions import integers_and_reals as of
from onnx_parity.exporter.expressions.bounds import Range, bounds
from onnx_parity.exporter.expressions.conditions import (
    And,
    Comparison,
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Not,
    Or,
    Unequal,
)
from onnx_parity.exporter.expressions.expression import Add, Expression, Mul, Number, Symbol, expression_of
from onnx_parity.exporter.expressions.parsing import parse_condition
from onnx_parity.exporter.expressions.polynomials import exact_quotient, monomials, reduced
from onnx_parity.exporter.expressions.solving import follows_from, in_order, in_short, where_holds

N, M, K = (Symbol(name) for name in "nmk")
RANGES = {N: Range(0, math.inf), M: Range(1, 6), K: Range(2, math.inf)}

#: A drawn operation, with its operands; a symbol or a number.
Drawn = tuple[str, Any, Any] | Expression

_OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add": (Add.of, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (Mul.of, operator.mul),
    "floor": (of.FloorDiv.of, operator.floordiv),
    "rest": (of.Mod.of, operator.mod),
    "max": (of.Max.of, max),
    "min": (of.Min.of, min),
    "abs": (lambda one, other: of.Abs.of(one), lambda one, other: abs(one)),
    "half": (lambda one, other: of.FloorDiv.of(one, Number(2)), lambda one, other: one // 2),
    "sixth": (lambda one, other: of.FloorDiv.of(one, Number(6)), lambda one, other: one // 6),
    "odd": (lambda one, other: of.Mod.of(one, Number(2)), lambda one, other: one % 2),
    "choice": (lambda one, other: of.Choice.of(Less.of(one, other), one, other), min),
}
_COMPARISONS: dict[type[Comparison], Callable[[Any, Any], bool]] = {
    Equal: operator.eq,
    Unequal: operator.ne,
    Less: operator.lt,
    LessOrEqual: operator.le,
    Greater: operator.gt,
    GreaterOrEqual: operator.ge,
}


def _drawn(numbers: random.Random, depth: int) -> Drawn:
    if depth == 0 or numbers.random() < 0.15:
        return numbers.choice([N, M, K, Number(numbers.randint(-4, 6))])
    return numbers.choice([*_OPERATIONS]), _drawn(numbers, depth - 1), _drawn(numbers, depth - 1)


def _expression(drawn: Drawn) -> Expression:
    if isinstance(drawn, Expression):
        return drawn
    name, one, other = drawn
    made: Expression = _OPERATIONS[name][0](_expression(one), _expression(other))
    return made


def _number(drawn: Drawn, values: dict[Symbol, int]) -> int:
    if isinstance(drawn, Expression):
        return int(drawn.at(values))
    name, one, other = drawn
    return int(_OPERATIONS[name][1](_number(one, values), _number(other, values)))


def _pairs(seed: int, count: int) -> list[tuple[Drawn, Drawn]]:
    numbers = random.Random(seed)
    return [(_drawn(numbers, numbers.randint(1, 4)), _drawn(numbers, 2)) for _ in range(count)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 4))])
def test_drawn_expressions_have_the_values_of_python(seed: int) -> None:
    numbers = random.Random(seed)
    checked = 0
    for one, other in _pairs(seed, 250):
        try:
            a, b = _expression(one), _expression(other)
        except ZeroDivisionError:
            continue
        comparisons = {kind: kind.of(a, b) for kind in _COMPARISONS}
        known, always = bounds(a, RANGES), in_order(a, b, RANGES)
        for _ in range(5):
            values = {N: numbers.choice([0, 1, 2, 3, 5, 8, 13]), M: numbers.randint(1, 6), K: numbers.randint(2, 9)}
            try:
                x, y = _number(one, values), _number(other, values)
            except ZeroDivisionError:
                continue
            assert a.at(values) == x and b.at(values) == y, (a, b, values)
            assert known.lower <= x <= known.upper, (a, values)
            assert x <= y or not always, (a, b, values)
            for kind, comparison in comparisons.items():
                holds = _COMPARISONS[kind](x, y)
                possible, solved = bounds(comparison, RANGES), where_holds(comparison)
                assert comparison.at(values) == holds, (comparison, values)
                assert possible.lower <= holds <= possible.upper, (comparison, values)
                if solved is not None:
                    symbol, where = solved
                    assert holds == (where.lower <= values[symbol] <= where.upper), (comparison, values)
            checked += 1
    assert checked > 400


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (2 * N + M - 3, "m + 2*n - 3"),
        (N * M * N, "m*n**2"),
        (4 - N, "-n + 4"),
        (2 * (N + 1), "2*n + 2"),
        (M * (N + 1), "m*(n + 1)"),
        (of.FloorDiv.of(N + 3, Number(2)), "((n + 1)//2) + 1"),
        (of.FloorDiv.of(6 * N * M, 3 * M), "2*n"),
        (of.FloorDiv.of(N, 2 * M), "(n//(2*m))"),
        (of.Mod.of(4 * N + M + 5, Number(4)), "((m + 1) % 4)"),
        (of.Mod.of(N - of.Mod.of(M, Number(8)) + 9, Number(4)), "((n - m + 1) % 4)"),
        (of.Max.of(N - 2, Number(0)), "max(0, n - 2)"),
        (of.Max.of(N, N + 1, of.Max.of(N, M)), "max(m, n + 1)"),
        (of.FloatMul.of(of.ToFloat.of(N), Number(0.5)), "n * 0.5"),
        (of.FloorToInt.of(of.ToFloat.of(N)), "n"),
        (of.FloorToInt.of(of.ELEMENTARY["sqrt"].of(of.IntTrueDiv.of(N, M))), "math.floor(math.sqrt(n / m))"),
        (of.FloorToInt.of(of.IntTrueDiv.of(N, Number(4))), "(n//4)"),
        (of.CeilToInt.of(of.IntTrueDiv.of(N, Number(4))), "((n + 3)//4)"),
        (of.is_whole(of.IntTrueDiv.of(N, Number(4))), "n % 4 == 0"),
        (of.is_whole(of.IntTrueDiv.of(N, M)), "math.floor(n / m) == (n / m)"),
        (of.BitwiseAnd.of(N, M + 1) * 2, "2*(n & m + 1)"),
        (of.Choice.of(Less.of(N, M), N, M), "(n if n < m else m)"),
        (of.shifted_left(N, Number(3)), "8*n"),
        (Equal.of(Number(3), N), "n == 3"),
        (Less.of(N, N + M), "n < m + n"),
        (Not.of(Less.of(N, M)), "n >= m"),
        (And.of(Less.of(N, M), Or.of(Equal.of(K, Number(2)), Less.of(N, K))), "(n < m) and ((k == 2) or (n < k))"),
    ],
)
def test_texts(made: Expression, text: str) -> None:
    assert str(made) == text


def test_bits_of_constants_are_quotients_and_rests() -> None:
    for made, pythons in (
        (of.BitwiseAnd.of, operator.and_),
        (of.bitwise_or, operator.or_),
        (of.bitwise_xor, operator.xor),
    ):
        for bits in (*range(-20, 40), 0b1010_0110, -256):
            for expression in (made(N, Number(bits)), made(Number(bits), N)):
                assert not isinstance(expression, of.BitwiseAnd)
                assert all(expression.at({N: n}) == pythons(n, bits) for n in range(-20, 300, 3))


def test_bits_of_sizes() -> None:
    for n, m in itertools.product(range(40), repeat=2):
        assert of.bitwise_or(N, M).at({N: n, M: m}) == n | m
        assert of.bitwise_xor(N, M).at({N: n, M: m}) == n ^ m
    for n in (*range(-70, 70), *(2**power + step for power in range(7, 48) for step in (-1, 0, 1))):
        assert of.bit_length(N).at({N: n}) == n.bit_length()


def test_equal_expressions_are_found() -> None:
    assert N * (M + 1) - N * M != N
    assert Equal.of(N * (M + 1) - N * M, N) == expression_of(True)
    assert Less.of(N, N) == expression_of(False)
    assert And.of(Less.of(N, M), GreaterOrEqual.of(N, M)) == expression_of(False)
    assert Or.of(Less.of(N, M), GreaterOrEqual.of(N, M)) == expression_of(True)


def test_quotients_of_polynomials() -> None:
    assert exact_quotient((N + M) * (N - M) * 3, 3 * (N + M)) == N - M
    assert exact_quotient(N * N + 2 * N * M + M * M, N + M) == N + M
    assert exact_quotient(N * N + 1, N + 1) is None
    assert reduced(12 * N * M, 8 * N) == (3 * M, Number(2))
    assert monomials((N + 1) * (N - 1)) == {(N, N): 1, (): -1}


@pytest.mark.parametrize(
    ("comparison", "text"),
    [
        (Unequal(K * 6 * (M + 1), Number(6)), "k*(m + 1) != 1"),
        (Less(K * 6 * M, K * N * M * 6), "n > 1"),
        (LessOrEqual(K * 4, K * M * M * 2), "m**2 >= 2"),
        (Less(N * 2, N * M), "2*n < m*n"),  # Both are 0 where n is.
        (Equal(K * M, K * M * 2), "False"),
        (Unequal(of.Max.of(Number(1), N - 2) * 3, (N - 2) * 3), "n - 2 < 1"),
    ],
)
def test_comparisons_in_short(comparison: Comparison, text: str) -> None:
    assert str(in_short(comparison, RANGES)) == text


def test_real_numbers_are_computed_as_python_computes_them() -> None:
    tenth, seven = (of.FloatMul.of(of.ToFloat.of(N), Number(factor)) for factor in (0.1, 0.7))
    total = of.FloatAdd.of(tenth, seven)
    assert [total.at({N: size}) for size in range(50)] == [size * 0.1 + size * 0.7 for size in range(50)]
    assert Number(0.0) != Number(-0.0) and Number(2) != Number(2.0) and Number(math.nan) == Number(math.nan)


def test_long_expressions_take_no_time() -> None:
    """Those whose texts would be longer than memory."""
    size: Expression = N
    for _ in range(60):
        size = of.FloorDiv.of(size, Number(2)) + of.FloorDiv.of(size, Number(3)) + 7
    number = 20
    for _ in range(60):
        number = number // 2 + number // 3 + 7
    assert size.at({N: 20}) == number
    assert size.xreplace({N: 20}) == number
    assert bounds(size, {N: Range(20, 20)}) == Range(number, number)
    assert size.length > 1 << 40


@pytest.mark.parametrize(
    ("condition", "known", "follows"),
    [
        # It holds up to a size of 127, far beyond all numbers in it.
        ("(((n // 2) // 2) // 2) // 2 <= 7", "n % 2 == 0", False),
        ("((((n // 2) // 2) // 2) // 2) % 2 == 0", "n < 32", False),
        ("(((n // 2) // 2) // 2) // 2 <= 7", "n <= 127", True),
        ("(n // 2) // 2 > 7", "((n // 2) // 2) // 2 > 7", True),
    ],
)
def test_conditions_on_sizes_that_are_divided_several_times(condition: str, known: str, follows: bool) -> None:
    assert follows_from(parse_condition(condition), [parse_condition(known)]) is follows

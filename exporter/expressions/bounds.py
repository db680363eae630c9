"""The values that an expression can have where its symbols are within ranges."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from onnx_parity.exporter.expressions import integers_and_reals as of
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
from onnx_parity.exporter.expressions.expression import Add, Expression, Mul, Symbol, known, parts_of
from onnx_parity.exporter.expressions.polynomials import monomials

__all__ = ["ANY", "Range", "Ranges", "bounds", "known_truth", "simplified"]


class Range(NamedTuple):
    """All numbers from one to another, both included; infinite where there is no limit."""

    lower: Any
    upper: Any

    @property
    def is_single(self) -> bool:
        return bool(self.lower == self.upper)

    def __and__(self, other: Range) -> Range:
        return Range(max(self.lower, other.lower), min(self.upper, other.upper))


#: Those of symbols, and of expressions whose ranges do not follow from these.
Ranges = Mapping[Any, Range]
ANY = Range(-math.inf, math.inf)
_UNKNOWN, _HOLDS, _FAILS = Range(False, True), Range(True, True), Range(False, False)


def bounds(expression: Expression, ranges: Ranges) -> Range:
    """The range of an expression. Each function takes its arguments to be independent of each other."""
    return _bounds(expression, dict(ranges))


def _bounds(expression: Expression, ranges: dict[Any, Range]) -> Range:
    """The same, given the ranges of symbols. Those of the expressions that it is computed from are added."""
    found = ranges.get(expression)
    if found is None:
        found = ranges[expression] = _computed(expression, ranges)
    return found


def _computed(expression: Expression, ranges: dict[Any, Range]) -> Range:
    if expression.is_number:
        return Range(known(expression), known(expression))
    if isinstance(expression, Symbol):
        return ANY
    if isinstance(expression, Add):
        terms = [_scaled(_bounds(term, ranges), coefficient) for term, coefficient in expression.summands]
        return Range(
            expression.constant + sum([term.lower for term in terms]),
            expression.constant + sum([term.upper for term in terms]),
        )
    if isinstance(expression, Mul):
        product = Range(1, 1)
        for factor in expression.multiplied:
            product = _of_corners(_product, product, _bounds(factor, ranges))
        return _scaled(product, expression.coefficient)
    if isinstance(expression, Comparison):
        return _compared(expression, ranges)
    of_arguments = _OF.get(type(expression))
    if of_arguments is not None:
        return of_arguments(*[_bounds(each, ranges) for each in expression.args])
    return _UNKNOWN if isinstance(expression, And | Or | Not) else ANY


def simplified(expression: Expression, ranges: dict[Any, Range]) -> Expression:
    """The expression with `n` for `max(1, n)` where n is at least 1 within the ranges, and for `n % m` where n is less
    than m."""
    decided: dict[Any, Expression] = {}
    for each in parts_of(expression):
        if isinstance(each, of.Mod):
            number, divisor = each.args
            if _bounds(number, ranges).lower >= 0 and _bounds(divisor - number, ranges).lower > 0:
                decided[each] = number
        if isinstance(each, of.Max | of.Min):
            kept = [one for one in each.args if not any(_is_beyond(other, one, each, ranges) for other in each.args)]
            if 0 < len(kept) < len(each.args):
                decided[each] = type(each).of(*kept) if len(kept) > 1 else kept[0]
    return (
        expression.xreplace({symbol: symbol for symbol in expression.free_symbols} | decided) if decided else expression
    )


def _is_beyond(one: Expression, other: Expression, extreme: Expression, ranges: dict[Any, Range]) -> bool:
    """Whether one of two arguments of a maximum or a minimum makes the other needless."""
    if one is other:
        return False
    greater, less = (one, other) if isinstance(extreme, of.Max) else (other, one)
    return bool(_bounds(greater, ranges).lower >= _bounds(less, ranges).upper)


def known_truth(condition: Expression, ranges: Ranges) -> bool | None:
    """Whether a condition holds everywhere within the ranges; None if it does not hold everywhere, or nowhere."""
    # Symbols of two recordings are equal if their names are, be one an integer and the other a float.
    return _truth(condition, tuple((each, each.is_float, ranges.get(each, ANY)) for each in condition.free_symbols))


@lru_cache(maxsize=4096)
def _truth(condition: Expression, of_symbols: tuple[tuple[Symbol, bool, Range], ...]) -> bool | None:
    """The same, found once: torch asks it of each result of the same sizes, and so does each further recording."""
    ranges = {symbol: within for symbol, _, within in of_symbols}
    possible = bounds(condition, ranges)
    return bool(possible.lower) if possible.is_single else _known_by_cases(condition, ranges)


def _known_by_cases(condition: Expression, ranges: Ranges) -> bool | None:
    """The same of a condition on one of two numbers, which is known if it is with each of them."""
    choice = next((each for each in parts_of(condition) if isinstance(each, of.Choice)), None)
    if choice is None:
        return None
    case, then, otherwise = choice.args
    symbols = {symbol: symbol for symbol in condition.free_symbols}
    found = set()
    for holds, number in ((case, then), (Not.of(case), otherwise)):
        with_it = condition.xreplace({**symbols, choice: number})
        found.add(True if with_it == holds else False if with_it == Not.of(holds) else known_truth(with_it, ranges))
    return found.pop() if len(found) == 1 else None


def _product(one: Any, other: Any) -> Any:
    # 0 times a size without a limit is 0.
    return one * other if one and other else 0


def _scaled(range_: Range, coefficient: int) -> Range:
    ends = _product(range_.lower, coefficient), _product(range_.upper, coefficient)
    return Range(min(ends), max(ends))


def _of_corners(function: Callable[[Any, Any], Any], one: Range, other: Range) -> Range:
    """The range of a function that is monotonic in each argument."""
    ends = [function(a, b) for a, b in itertools.product(one, other)]
    return Range(min(ends), max(ends))


def _compared(comparison: Comparison, ranges: dict[Any, Range]) -> Range:
    one, other = comparison.args
    sides = _bounds(one, ranges), _bounds(other, ranges)
    if any(side.is_single and math.isinf(side.lower) for side in sides):
        # An integer without a limit is still not infinite.
        sides = _finite(one, sides[0]), _finite(other, sides[1])
    found = _of_sides(type(comparison), *sides)
    if found != _UNKNOWN or one.is_float or other.is_float:
        return found
    simpler = simplified(comparison, ranges)
    if simpler is not comparison:
        return _bounds(simpler, ranges)
    # The sides may have symbols in common: n is less than n + m.
    difference = Add.of(*[Mul.of(*each) * number for each, number in monomials(one - other).items()])
    return _of_sides(type(comparison), _bounds(difference, ranges), Range(0, 0))


def _finite(number: Expression, within: Range) -> Range:
    is_finite = not number.is_float or isinstance(number, of.ToFloat | of.IntTrueDiv)
    return within & Range(-sys.float_info.max, sys.float_info.max) if is_finite else within


def _of_sides(kind: type[Comparison], one: Range, other: Range) -> Range:
    if kind in (Unequal, GreaterOrEqual, Greater):
        opposite = _of_sides(kind.opposite, one, other)
        return Range(not opposite.upper, not opposite.lower)
    if kind is Equal:
        if one.upper < other.lower or other.upper < one.lower:
            return _FAILS
        return _HOLDS if one.is_single and one == other else _UNKNOWN
    assert kind in (Less, LessOrEqual)
    if one.upper < other.lower or (kind is LessOrEqual and one.upper <= other.lower):
        return _HOLDS
    return _FAILS if one.lower > other.upper or (kind is Less and one.lower >= other.upper) else _UNKNOWN


def _not_zero(divisor: Range) -> Range:
    """The range of an integer by which the program divides, which fails at 0."""
    return Range(1, divisor.upper) if divisor.lower == 0 < divisor.upper else divisor


def _quotient(number: Range, divisor: Range, divide: Callable[[Any, Any], Any], beyond: int) -> Range:
    """The range of a quotient. `beyond` is that of a negative number and an infinite one."""
    if divisor.lower <= 0 <= divisor.upper:
        return ANY

    def rounded(a: Any, b: Any) -> Any:
        if math.isinf(b):
            return beyond if a and (a > 0) != (b > 0) else 0
        return a * math.copysign(1, b) if math.isinf(a) else divide(a, b)

    return _of_corners(rounded, number, divisor)


def _rest(number: Range, divisor: Range) -> Range:
    if divisor.upper < 0:
        return Range(divisor.lower + 1, 0)
    if divisor.lower <= 0:
        return ANY
    if number.lower >= 0:
        return number if number.upper < divisor.lower else Range(0, min(number.upper, divisor.upper - 1))
    return Range(0, divisor.upper - 1)


def _absolute(number: Range) -> Range:
    ends = abs(number.lower), abs(number.upper)
    return Range(0 if number.lower <= 0 <= number.upper else min(ends), max(ends))


def _power(number: Range, exponent: Range) -> Range:
    if number.lower < 1 or exponent.lower < 0:
        return ANY
    is_short = not math.isinf(number.upper) and exponent.upper < 64
    return Range(number.lower ** min(exponent.lower, 64), number.upper**exponent.upper if is_short else math.inf)


def _monotonic(function: Callable[[Any], Any]) -> Callable[[Range], Range]:
    def found(number: Range) -> Range:
        ends = [each if math.isinf(each) else function(each) for each in number]
        return Range(*ends)

    return found


def _of_positive(function: Callable[[float], float], number: Range, least: int) -> Range:
    return _monotonic(function)(number) if number.lower >= least else ANY


def _masked(number: Range, mask: Range) -> Range:
    ends = [each.upper for each in (number, mask) if each.lower >= 0]
    return Range(0, min(ends)) if ends else ANY


def _float_sum(one: Range, other: Range) -> Range:
    return Range(one.lower + other.lower, one.upper + other.upper)


_OF: dict[type[Expression], Callable[..., Range]] = {
    of.FloorDiv: lambda number, divisor: _quotient(number, _not_zero(divisor), lambda a, b: a // b, beyond=-1),
    of.IntTrueDiv: lambda number, divisor: _quotient(number, _not_zero(divisor), lambda a, b: a / b, beyond=0),
    of.FloatDiv: lambda number, divisor: _quotient(number, divisor, lambda a, b: a / b, beyond=0),
    of.Mod: lambda number, divisor: _rest(number, _not_zero(divisor)),
    of.Max: lambda *each: Range(max([one.lower for one in each]), max([one.upper for one in each])),
    of.Min: lambda *each: Range(min([one.lower for one in each]), min([one.upper for one in each])),
    of.Abs: _absolute,
    of.Pow: _power,
    of.BitwiseAnd: _masked,
    of.Choice: lambda _, then, orelse: Range(min(then.lower, orelse.lower), max(then.upper, orelse.upper)),
    of.ToFloat: _monotonic(float),
    of.FloatAdd: _float_sum,
    of.FloatSub: lambda one, other: _float_sum(one, Range(-other.upper, -other.lower)),
    of.FloatMul: lambda one, other: _of_corners(_product, one, other),
    of.FloorToInt: _monotonic(math.floor),
    of.CeilToInt: _monotonic(math.ceil),
    of.TruncToInt: _monotonic(math.trunc),
    of.RoundToInt: _monotonic(round),
    of.ELEMENTARY["sqrt"]: lambda number: _of_positive(math.sqrt, number, 0),
    of.ELEMENTARY["log"]: lambda number: _of_positive(math.log, number, 1),
    of.ELEMENTARY["log2"]: lambda number: _of_positive(math.log2, number, 1),
    of.ELEMENTARY["log10"]: lambda number: _of_positive(math.log10, number, 1),
    And: lambda *each: Range(all(one.lower for one in each), all(one.upper for one in each)),
    Or: lambda *each: Range(any(one.lower for one in each), any(one.upper for one in each)),
    Not: lambda one: Range(not one.upper, not one.lower),
}

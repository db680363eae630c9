"""What a condition says about one symbol, and whether one number is never greater than another."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx_parity.exporter.expressions.bounds import Range, Ranges, bounds, known_truth
from onnx_parity.exporter.expressions.conditions import (
    And,
    Comparison,
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Unequal,
)
from onnx_parity.exporter.expressions.expression import Add, Expression, Mul, Number, Symbol, known, parts_of
from onnx_parity.exporter.expressions.integers_and_reals import FloorDiv, Max, Min, Mod
from onnx_parity.exporter.expressions.polynomials import monomials

__all__ = ["follows_from", "holds_everywhere", "in_order", "in_short", "narrowed", "where_holds"]


#: Up to how many sizes are tried one by one.
_MOST_TRIED = 100_000


def where_holds(condition: Expression) -> tuple[Symbol, Range] | None:
    """The symbol that a comparison is about and its range where the comparison holds. None if there are several
    symbols, or none, and if the range is not found."""
    if not isinstance(condition, Comparison) or len(condition.free_symbols) != 1:
        return None
    one, other = condition.args
    if one.is_float or other.is_float:
        return None
    limits = {
        Equal: Range(0, 0),
        Less: Range(-math.inf, -1),
        LessOrEqual: Range(-math.inf, 0),
        Greater: Range(1, math.inf),
        GreaterOrEqual: Range(0, math.inf),
    }.get(type(condition))
    return None if limits is None else _solved(one - other, limits)


def _solved(number: Expression, limits: Range) -> tuple[Symbol, Range] | None:
    """The symbol in a number that is within limits, and the range of the symbol."""
    while True:
        if isinstance(number, Symbol):
            return number, limits
        constant, terms = number.terms()
        if len(terms) != 1:
            return None
        ((number, coefficient),) = terms
        low, high = limits if coefficient > 0 else reversed(limits)
        limits = Range(
            low * coefficient if math.isinf(low) else -((constant - low) // coefficient),
            high * coefficient if math.isinf(high) else (high - constant) // coefficient,
        )
        if isinstance(number, FloorDiv) and isinstance(number.args[1], Number) and number.args[1].plain > 0:
            number, divisor = number.args[0], known(number.args[1])
            limits = Range(limits.lower * divisor, limits.upper * divisor + divisor - 1)
        elif not isinstance(number, Symbol):
            return None


def narrowed(ranges: Ranges, condition: Expression) -> dict[Symbol, Range]:
    """The ranges of symbols where a condition holds, as far as it is about one at a time."""
    found = dict(ranges)
    for part in condition.args if isinstance(condition, And) else (condition,):
        solved = where_holds(part)
        if solved is not None and solved[0] in found:
            within = found[solved[0]] & solved[1]
            if within.lower <= within.upper:
                found[solved[0]] = within
    return found


def in_short(comparison: Expression, ranges: Ranges) -> Expression:
    """A comparison of two products without the factors that both have and that are positive within the ranges; `n >= 1`
    for `max(1, n) == n`."""
    if not isinstance(comparison, Comparison) or any(each.is_float for each in comparison.args):
        return comparison
    (number, one), (other_number, other) = (each.factors() for each in comparison.args)
    left, others = list(one), list(other)
    for each in one:
        if each in others and bounds(each, ranges).lower > 0:
            left.remove(each)
            others.remove(each)
    divisor = math.gcd(number, other_number) or 1
    sides = Mul.of(Number(number // divisor), *left), Mul.of(Number(other_number // divisor), *others)
    if isinstance(comparison, Equal | Unequal):
        for most, least in (sides, sides[::-1]):
            if most == Max.of(Number(1), least):
                return (GreaterOrEqual if isinstance(comparison, Equal) else Less).of(least, Number(1))
    return type(comparison).of(*sides)


def holds_everywhere(condition: Expression, ranges: Ranges) -> bool:
    """Whether it can be shown that a condition holds for all values of the symbols within their ranges."""
    known = known_truth(condition, ranges)
    if known is not None or not isinstance(condition, Comparison):
        return known is True
    one, other = condition.args
    if one.is_float or other.is_float:
        return False
    if isinstance(condition, Less | LessOrEqual):
        return in_order(one + (1 if isinstance(condition, Less) else 0), other, ranges)
    if isinstance(condition, Greater | GreaterOrEqual):
        return holds_everywhere(condition.mirrored(other, one), ranges)
    return isinstance(condition, Unequal) and (in_order(one + 1, other, ranges) or in_order(other + 1, one, ranges))


def follows_from(condition: Expression, known: Sequence[Expression]) -> bool:
    """Whether a condition on sizes follows from others that hold.

    Remainders, as in `n % 2 == 1`, repeat: one size after the other is tried, up to well beyond all numbers in them.
    """
    ranges: dict[Symbol, Range] = {symbol: Range(0, math.inf) for symbol in condition.free_symbols}
    for each in known:
        ranges = narrowed(ranges, each)
    if condition in known or holds_everywhere(condition, ranges):
        return True
    if (number := _at_least_zero(condition)) is not None:
        others = (number - other for each in known if (other := _at_least_zero(each)) is not None)
        if any(isinstance(rest, Number) and rest.plain >= 0 for rest in others):
            return True
    if len(condition.free_symbols) != 1:
        return False
    (symbol,) = condition.free_symbols
    about = [each for each in known if each.free_symbols == condition.free_symbols]
    numbers = [number for each in (condition, *about) for number in _numbers_in(each)]
    divisor = math.lcm(*map(_divisor, (condition, *about)))
    # What is compared with a number is the size divided by so much.
    end = math.lcm(divisor, *(number or 1 for number in numbers)) + 2 * divisor * sum(numbers)
    if not about or end > _MOST_TRIED:
        return False
    is_tried = False
    for size in range(end + 1):
        if all(each.holds_at({symbol: size}) for each in about):
            is_tried = True
            if not condition.holds_at({symbol: size}):
                return False
    return is_tried


def _numbers_in(expression: Expression) -> list[int]:
    """The numbers in an expression, each as often as it is there."""
    if isinstance(expression, Number):
        return [abs(int(expression))]
    return [number for each in expression.args for number in _numbers_in(each)]


def _divisor(expression: Expression) -> int:
    """After how many sizes an expression repeats, or goes on as before: `n // 2 // 2` after 4."""
    within = math.lcm(*map(_divisor, expression.args))
    by = expression.args[1] if isinstance(expression, FloorDiv | Mod) else None
    return within * (abs(int(by)) or 1) if isinstance(by, Number) else within


def _at_least_zero(condition: Expression) -> Expression | None:
    """A whole number that is at least 0 where a comparison holds, and below 0 where it does not."""
    if not isinstance(condition, Less | LessOrEqual | Greater | GreaterOrEqual):
        return None
    low, high = condition.args if isinstance(condition, Less | LessOrEqual) else condition.args[::-1]
    if low.is_float or high.is_float:
        return None
    return high - low - (1 if isinstance(condition, Less | Greater) else 0)


def in_order(low: Expression, high: Expression, ranges: Ranges) -> bool:
    """Whether it can be shown that `low` is at most `high`, for all values of the symbols within their ranges."""
    if low == high:
        return True
    if isinstance(low, Max):
        return all(in_order(each, high, ranges) for each in low.args)
    if isinstance(high, Min):
        return all(in_order(low, each, ranges) for each in high.args)
    if isinstance(low, Min) and any(in_order(each, high, ranges) for each in low.args):
        return True
    if isinstance(high, Max) and any(in_order(low, each, ranges) for each in high.args):
        return True
    if low.is_float or high.is_float:
        return False
    difference = high - low
    return _is_never_negative(difference, ranges) or bounds(_with_quotients(difference), ranges).lower >= 0


def _with_quotients(number: Expression) -> Expression:
    """A sum with `m * (n // m)` for `n - n % m`."""
    constant, terms = number.terms()
    summands = [
        (term.args[0] - term.args[1] * FloorDiv.of(*term.args) if isinstance(term, Mod) else term) * coefficient
        for term, coefficient in terms
    ]
    return Add.of(Number(constant), *summands)


def _is_never_negative(difference: Expression, ranges: Ranges) -> bool:
    """The difference is a sum of terms. A quotient that is rounded down is (number - rest) / divisor, of which the
    bounds of the terms alone do not know."""
    within = dict(ranges)
    common = 1
    quotients: dict[Expression, tuple[Expression, int]] = {}
    for each in parts_of(difference):
        if isinstance(each, FloorDiv | Mod):
            number, divisor = each.args
            if isinstance(divisor, Number) and divisor.plain > 0 and bounds(number, ranges).lower >= 0:
                rest = Symbol(f"rest of {each}")
                within[rest] = Range(0, known(divisor) - 1)
                quotients[each] = (number - rest, known(divisor)) if isinstance(each, FloorDiv) else (rest, 1)
                common = math.lcm(common, quotients[each][1])
    # Multiplied by the common divisor, which makes no difference to the sign.
    whole = {each: Mul.of(Number(common // divisor), number) for each, (number, divisor) in quotients.items()}
    terms: list[Expression] = []
    for monomial, coefficient in monomials(difference).items():
        in_quotients = [each for each in monomial if each in whole]
        if len(in_quotients) > 1:
            return False
        factors = [whole.get(each, each) for each in monomial]
        terms.append(Mul.of(Number(coefficient if in_quotients else coefficient * common), *factors))
    least = 0
    for monomial, coefficient in monomials(Add.of(*terms)).items():
        found = bounds(Mul.of(Number(1), *monomial), within) if monomial else Range(1, 1)
        end = found.lower if coefficient > 0 else found.upper
        if math.isinf(end):
            return False
        least += coefficient * end
    # The difference is a whole number, so that it is not negative if it is more than -1.
    return least > -common

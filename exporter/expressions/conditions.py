"""Conditions on numbers: comparisons, and what is composed of them."""

from __future__ import annotations

import functools
import operator
from typing import Any, ClassVar

from onnx_parity.exporter.expressions.expression import Condition, Expression, Plain, Truth, known
from onnx_parity.exporter.expressions.polynomials import monomials

__all__ = [
    "FALSE",
    "TRUE",
    "And",
    "Comparison",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Not",
    "Or",
    "Unequal",
    "negated",
]


TRUE, FALSE = Truth(True), Truth(False)


class Comparison(Condition):
    """A comparison of two numbers. A known one is on the right."""

    precedence = 0
    #: The comparison that holds where this one does not, and the one with the sides exchanged.
    opposite: ClassVar[type[Comparison]]
    mirrored: ClassVar[type[Comparison]]

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        one, other = args
        if one.is_number and other.is_number:
            return _truth(cls.value(known(one), known(other)))
        if one.is_number:
            return cls.mirrored.of(other, one)
        if not one.is_float and not other.is_float:
            difference = monomials(one - other)
            if not difference.keys() - {()}:
                return _truth(cls.value(difference.get((), 0), 0))
        return cls(one, other)

    @property
    def text(self) -> str:
        one, other = self.args
        return f"{one.compared} {self.spelled} {other.compared}"


def _comparison(name: str, sign: str, value: Any) -> type[Comparison]:
    return type(name, (Comparison,), {"spelled": sign, "value": staticmethod(value)})


Equal = _comparison("Equal", "==", operator.eq)
Unequal = _comparison("Unequal", "!=", operator.ne)
Less = _comparison("Less", "<", operator.lt)
LessOrEqual = _comparison("LessOrEqual", "<=", operator.le)
Greater = _comparison("Greater", ">", operator.gt)
GreaterOrEqual = _comparison("GreaterOrEqual", ">=", operator.ge)
for _one, _opposite, _mirrored in (
    (Equal, Unequal, Equal),
    (Unequal, Equal, Unequal),
    (Less, GreaterOrEqual, Greater),
    (LessOrEqual, Greater, GreaterOrEqual),
    (Greater, LessOrEqual, Less),
    (GreaterOrEqual, Less, LessOrEqual),
):
    _one.opposite, _one.mirrored = _opposite, _mirrored


class Not(Condition):
    value = staticmethod(operator.not_)

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        (condition,) = args
        if isinstance(condition, Truth):
            return _truth(not condition)
        if isinstance(condition, Not):
            return condition.args[0]
        if isinstance(condition, Comparison) and not any(each.is_float for each in condition.args):
            return condition.opposite(*condition.args)
        return cls(condition)

    @property
    def text(self) -> str:
        return f"not ({self.args[0]})"


class _Joined(Condition):
    precedence = 0
    #: The result if one of the conditions is this one.
    decisive: ClassVar[Truth]

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        flat = [part for each in args for part in (each.args if isinstance(each, cls) else (each,))]
        kept = [each for each in dict.fromkeys(flat) if not isinstance(each, Truth)]
        if cls.decisive in flat or any(Not.of(each) in kept for each in kept):
            return cls.decisive
        if len(kept) < 2:
            return kept[0] if kept else _truth(not cls.decisive)
        return cls(*sorted(kept, key=lambda each: each.key))

    @functools.cached_property
    def text(self) -> str:
        return f" {self.spelled} ".join(f"({each})" for each in self.args)


class And(_Joined):
    spelled, decisive = "and", FALSE

    @staticmethod
    def value(*numbers: Any) -> Plain:
        return all(numbers)


class Or(_Joined):
    spelled, decisive = "or", TRUE

    @staticmethod
    def value(*numbers: Any) -> Plain:
        return any(numbers)


def negated(condition: Expression) -> Expression:
    """The condition that holds where another one does not, of comparisons as far as possible."""
    if isinstance(condition, And | Or):
        return (Or if isinstance(condition, And) else And).of(*map(negated, condition.args))
    return Not.of(condition)


def _truth(value: Any) -> Truth:
    return TRUE if value else FALSE

"""Functions of integers and of real numbers.

Real numbers are computed as Python computes them, in float64 and one operation after the other: they are not
rearranged, because each operation rounds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from onnx_parity.exporter.expressions.conditions import Equal
from onnx_parity.exporter.expressions.expression import Add, Expression, Mul, Number, Plain, expression_of, known
from onnx_parity.exporter.expressions.polynomials import exact_quotient, is_positive, reduced

__all__ = [
    "ELEMENTARY",
    "Abs",
    "BitwiseAnd",
    "CeilToInt",
    "Choice",
    "Elementary",
    "FloatAdd",
    "FloatDiv",
    "FloatMul",
    "FloatPow",
    "FloatSub",
    "FloorDiv",
    "FloorToInt",
    "IntTrueDiv",
    "Max",
    "Min",
    "Mod",
    "Pow",
    "RoundToInt",
    "ToFloat",
    "TruncToInt",
    "bit_length",
    "bitwise_or",
    "bitwise_xor",
    "is_whole",
    "shifted_left",
    "shifted_right",
]

_ONE = Number(1)


def _refuse_zero(divisor: Expression) -> None:
    if divisor.is_number and not known(divisor):
        raise ZeroDivisionError("division by zero")


class _Division(Expression):
    """One of the two results of a division of integers."""

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        number, divisor = args
        _refuse_zero(divisor)
        is_known = number.is_number and divisor.is_number
        return super().of(number, divisor) if is_known else cls._of_unknown(number, divisor)

    @classmethod
    def _of_unknown(cls, number: Expression, divisor: Expression) -> Expression:
        raise NotImplementedError

    @property
    def text(self) -> str:
        number, divisor = self.args
        return f"({number.within(3)}{self.spelled}{divisor.within(3)})"

    @property
    def compared(self) -> str:
        return self.text[1:-1]


def _is_subtracted(number: Expression) -> bool:
    """Whether every term but the constant is subtracted."""
    _, terms = number.terms()
    return bool(terms) and all(coefficient < 0 for _, coefficient in terms)


class FloorDiv(_Division):
    """The quotient of two integers, rounded down."""

    spelled, value = "//", staticmethod(operator.floordiv)

    @classmethod
    def _of_unknown(cls, number: Expression, divisor: Expression) -> Expression:
        if divisor == _ONE or number == Number(0):
            return number
        whole = exact_quotient(number, divisor)
        if whole is not None:
            return whole
        if isinstance(number, FloorDiv) and is_positive(divisor):
            return cls.of(number.args[0], Mul.of(number.args[1], divisor))
        # Terms that the divisor divides are taken out: (2 n + 3) // 2 is n + 1.
        rest, parts = number, []
        if isinstance(number, Add):
            terms = [(term, exact_quotient(term, divisor)) for term in number.args]
            parts = [quotient for _, quotient in terms if quotient is not None]
            rest = Add.of(*[term for term, quotient in terms if quotient is None])
            if isinstance(divisor, Number) and isinstance(rest, Add):
                more, below = divmod(rest.constant, int(divisor))
                parts, rest = [*parts, Number(more)], rest - rest.constant + below
        rest, divisor = reduced(rest, divisor)
        if is_positive(divisor) and _is_subtracted(rest):
            # Rounding up is written as rounding down, in one way: -(-n // 2) and (n + 1) // 2 are equal.
            return Add.of(*parts, -cls.of(-rest + divisor - 1, divisor))
        is_known = divisor == _ONE or rest == Number(0) or (rest.is_number and divisor.is_number)
        quotient = cls.of(rest, divisor) if is_known else cls(rest, divisor)
        return Add.of(*parts, quotient) if parts else quotient


class Mod(_Division):
    """The rest of a quotient that is rounded down, which has the sign of the divisor."""

    spelled, value = " % ", staticmethod(operator.mod)

    @classmethod
    def _of_unknown(cls, number: Expression, divisor: Expression) -> Expression:
        if exact_quotient(number, divisor) is not None:
            return Number(0)
        if isinstance(number, Mod) and number.args[1] == divisor:
            return number
        congruent = _without_rests(number, divisor)
        if congruent != number:
            return cls.of(congruent, divisor)
        if isinstance(number, Add):
            rest = Add.of(*[term for term in number.args if exact_quotient(term, divisor) is None])
            if isinstance(divisor, Number):
                constant, _ = rest.terms()
                rest = rest - constant + constant % int(divisor)
            if rest != number:
                return cls.of(rest, divisor)
        return cls(number, divisor)


def _without_rests(number: Expression, divisor: Expression) -> Expression:
    """A number with the same rest in which terms are no rests of quotients by multiples of the divisor themselves: that
    of -(n % 4), divided by 4, is that of -n."""
    constant, terms = number.terms()
    if not any(isinstance(term, Mod) for term, _ in terms):
        return number
    summands = [
        Mul.of(Number(coefficient), term.args[0])
        if isinstance(term, Mod) and exact_quotient(term.args[1], divisor) is not None
        else Mul.of(Number(coefficient), term)
        for term, coefficient in terms
    ]
    return Add.of(Number(constant), *summands)


class _Operator(Expression):
    """A function that Python has an operator for."""

    precedence = 0

    @property
    def text(self) -> str:
        one, other = self.args
        return f"{one.within(1)} {self.spelled} {other.within(1)}"


class _Extreme(Expression):
    _extreme: Callable[..., Any]

    @classmethod
    def value(cls, *numbers: Any) -> Plain:
        return cls._extreme(numbers)  # type: ignore[no-any-return]

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        flat = [part for each in args for part in (each.args if isinstance(each, cls) else (each,))]
        kept: list[Expression] = []
        for each in dict.fromkeys(flat):
            for place, other in enumerate(kept):
                difference = None if each.is_float or other.is_float else each - other
                if isinstance(difference, Number):
                    kept[place] = other if cls._extreme((difference.plain, 0)) == 0 else each
                    break
                if isinstance(each, Number) and isinstance(other, Number):
                    kept[place] = expression_of(cls._extreme((other.plain, each.plain)))
                    break
            else:
                kept.append(each)
        if len(kept) == 1:
            return kept[0]
        if not any(each.is_float for each in kept):  # Of 0.0 and -0.0, and of NaN, Python returns the first.
            kept.sort(key=lambda each: each.key)
        return cls(*kept)

    @property
    def is_float(self) -> bool:  # type: ignore[override]
        return any(each.is_float for each in self.args)


class Max(_Extreme):
    spelled = "max"
    _extreme = staticmethod(max)


class Min(_Extreme):
    spelled = "min"
    _extreme = staticmethod(min)


class Abs(Expression):
    spelled = "abs"
    value = staticmethod(abs)

    @property
    def is_float(self) -> bool:  # type: ignore[override]
        return self.args[0].is_float


class Pow(_Operator):
    """A power of an integer whose exponent is not negative."""

    spelled, value = "**", staticmethod(operator.pow)

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        number, exponent = args
        if isinstance(exponent, Number) and 0 <= exponent.plain < 16:
            return Mul.of(_ONE, *[number] * int(exponent))
        return super().of(*args)


class BitwiseAnd(_Operator):
    """The bits that two integers have in common. Those of a constant are computed by quotients and their rests."""

    spelled, value = "&", staticmethod(operator.and_)

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        number, mask = _with_constant_last(args)
        if number.is_number or not isinstance(mask, Number):
            return super().of(number, mask)
        bits = int(mask)
        if bits < 0:
            return number - cls.of(number, Number(~bits))
        runs, low = [], 0
        while bits >> low:
            high = low
            while bits >> high & 1:
                high += 1
            if high > low:
                rest = Mod.of(FloorDiv.of(number, Number(1 << low)), Number(1 << high - low))
                runs.append(Mul.of(rest, Number(1 << low)))
            low = high + 1
        return Add.of(*runs) if runs else Number(0)


def bitwise_or(one: Expression, other: Expression) -> Expression:
    return one + other - BitwiseAnd.of(one, other)


def bitwise_xor(one: Expression, other: Expression) -> Expression:
    return one + other - 2 * BitwiseAnd.of(one, other)


def bit_length(number: Expression) -> Expression:
    """The number of bits of an integer without its sign, as Python's `int.bit_length` counts them: none of 0."""
    size = Abs.of(number)
    logarithm = ELEMENTARY["log2"].of(ToFloat.of(Max.of(size, _ONE)))
    return Choice.of(Equal.of(size, Number(0)), Number(0), FloorToInt.of(logarithm) + 1)


def _with_constant_last(args: Sequence[Expression]) -> Sequence[Expression]:
    return args[::-1] if isinstance(args[0], Number) else args


def shifted_left(number: Expression, by: Expression) -> Expression:
    return Mul.of(number, Pow.of(Number(2), by))


def shifted_right(number: Expression, by: Expression) -> Expression:
    return FloorDiv.of(number, Pow.of(Number(2), by))


class Choice(Expression):
    """One of two numbers, by a condition."""

    @property
    def text(self) -> str:
        condition, then, otherwise = self.args
        return f"({then} if {condition} else {otherwise})"

    @staticmethod
    def value(condition: Any, then: Plain, otherwise: Plain) -> Plain:
        return then if condition else otherwise

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        condition, then, otherwise = args
        if condition.is_number:
            return then if known(condition) else otherwise
        return then if then == otherwise else cls(*args)

    @property
    def is_float(self) -> bool:  # type: ignore[override]
        return self.args[1].is_float


# --- real numbers -----------------------------------------------------------------------------------------------------


class _Real(Expression):
    is_float = True


class ToFloat(_Real):
    value = staticmethod(float)

    @property
    def text(self) -> str:
        return self.args[0].text


class FloatAdd(_Operator, _Real):
    spelled, value = "+", staticmethod(operator.add)


class FloatSub(_Operator, _Real):
    spelled, value = "-", staticmethod(operator.sub)


class FloatMul(_Operator, _Real):
    spelled, value = "*", staticmethod(operator.mul)


class _Quotient(_Operator, _Real):
    @classmethod
    def of(cls, *args: Expression) -> Expression:
        _refuse_zero(args[1])
        return super().of(*args)


class FloatDiv(_Quotient):
    spelled, value = "/", staticmethod(operator.truediv)


class FloatPow(_Operator, _Real):
    spelled, value = "**", staticmethod(operator.pow)


class IntTrueDiv(_Quotient):
    """The quotient of two integers, as a float."""

    spelled, value = "/", staticmethod(operator.truediv)


class _Rounding(Expression):
    @classmethod
    def of(cls, *args: Expression) -> Expression:
        # Sizes are floats without rounding.
        return args[0].args[0] if isinstance(args[0], ToFloat) else super().of(*args)


class FloorToInt(_Rounding):
    spelled = "math.floor"
    value = staticmethod(math.floor)

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        number, divisor = _whole_quotient(args[0])
        return super().of(*args) if divisor is None else FloorDiv.of(number, divisor)


class CeilToInt(_Rounding):
    spelled = "math.ceil"
    value = staticmethod(math.ceil)

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        number, divisor = _whole_quotient(args[0])
        return super().of(*args) if divisor is None else FloorDiv.of(number + divisor - 1, divisor)


def _whole_quotient(real: Expression) -> tuple[Expression, Expression | None]:
    """The integers of a quotient that has the whole number before or behind it wherever the exact one has: those of
    sizes, which are below 2**53, by a known number."""
    if not isinstance(real, IntTrueDiv):
        return real, None
    number, divisor = real.args
    is_known = isinstance(divisor, Number) and divisor.plain > 0 and not number.is_number
    return number, divisor if is_known else None


def is_whole(real: Expression) -> Expression:
    """The condition that a real number is a whole one."""
    number, divisor = _whole_quotient(real)
    if divisor is not None:
        return Equal.of(Mod.of(number, divisor), Number(0))
    return Equal.of(ToFloat.of(FloorToInt.of(real)), real)


class TruncToInt(_Rounding):
    spelled = "math.trunc"
    value = staticmethod(math.trunc)


class RoundToInt(_Rounding):
    spelled = "round"
    value = staticmethod(round)


class Elementary(_Real):
    """A function of `math`."""


def _elementary(function: Callable[[float], float]) -> type[Elementary]:
    name = function.__name__
    return type(name, (Elementary,), {"value": staticmethod(function), "spelled": f"math.{name}"})


#: The functions of `math` by their names.
ELEMENTARY: dict[str, type[Elementary]] = {
    each.__name__: _elementary(each)
    for each in (
        math.sqrt, math.exp, math.log, math.log2, math.log10, math.cos, math.cosh, math.sin, math.sinh, math.tan,
        math.tanh, math.asin, math.acos, math.atan,
    )
}  # fmt: skip

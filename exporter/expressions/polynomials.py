"""Expressions as polynomials: their terms, and quotients without a rest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from onnx_parity.exporter.expressions.expression import Add, Expression, Mul, Number

__all__ = ["exact_quotient", "is_polynomial", "is_positive", "monomials", "reduced"]

#: A product of factors, which are no sums or products, in their order.
_Monomial = tuple[Expression, ...]


def monomials(expression: Expression) -> dict[_Monomial, int]:
    """The coefficients of the expression as a polynomial, by products of what is no sum or product itself."""
    if isinstance(expression, Add):
        found: dict[_Monomial, int] = {(): expression.constant} if expression.constant else {}
        for term, coefficient in expression.summands:
            for monomial, number in monomials(term).items():
                found[monomial] = found.get(monomial, 0) + coefficient * number
        return {monomial: number for monomial, number in found.items() if number}
    coefficient, factors = expression.factors()
    if not any(isinstance(each, Add) for each in factors):
        return {tuple(factors): coefficient} if coefficient else {}
    product: dict[_Monomial, int] = {(): coefficient}
    for factor in factors:
        product = _multiplied(product, monomials(factor) if isinstance(factor, Add) else {(factor,): 1})
    return product


def _multiplied(one: Mapping[_Monomial, int], other: Mapping[_Monomial, int]) -> dict[_Monomial, int]:
    found: dict[_Monomial, int] = {}
    for a, number in one.items():
        for b, another in other.items():
            monomial = tuple(sorted(a + b, key=lambda factor: factor.key))
            found[monomial] = found.get(monomial, 0) + number * another
    return {monomial: number for monomial, number in found.items() if number}


def exact_quotient(number: Expression, divisor: Expression) -> Expression | None:
    """What is multiplied by the divisor in a number, whatever the symbols are; None if it is not divisible."""
    coefficient, factors = number.factors()
    other, others = divisor.factors()
    left = Counter(factors)
    left.subtract(others)
    if other and not coefficient % other and min(left.values(), default=0) >= 0:
        return Mul.of(Number(coefficient // other), *left.elements())
    if not isinstance(divisor, Add):
        if isinstance(number, Add):
            parts = [exact_quotient(each, divisor) for each in number.args]
            return None if None in parts else Add.of(*[part for part in parts if part is not None])
        return None
    return _divided(monomials(number), monomials(divisor))


def reduced(number: Expression, divisor: Expression) -> tuple[Expression, Expression]:
    """Both without the number and the factors that they have in common."""
    whole = exact_quotient(number, divisor)
    if whole is not None:
        return whole, Number(1)
    coefficient, factors = number.factors()
    other, others = divisor.factors()
    shared = math.gcd(coefficient, other) if is_positive(divisor) or not isinstance(divisor, Number) else 1
    common = Counter(factors) & Counter(others)
    if shared < 2 and not common:
        return number, divisor
    left, remaining = (Counter(each) - common for each in (factors, others))
    return (
        Mul.of(Number(coefficient // (shared or 1)), *left.elements()),
        Mul.of(Number(other // (shared or 1)), *remaining.elements()),
    )


def is_positive(number: Expression) -> bool:
    """Whether it is a known number above 0."""
    return isinstance(number, Number) and number.plain > 0


def is_polynomial(expression: Expression) -> bool:
    """Whether an expression consists of sums and products alone."""
    return all(factor.is_Symbol for monomial in monomials(expression) for factor in monomial)


def _divided(number: dict[_Monomial, int], divisor: Mapping[_Monomial, int]) -> Expression | None:
    """The quotient of two polynomials if there is no remainder."""
    every = sorted({factor for each in (number, divisor) for monomial in each for factor in monomial}, key=_key)

    def order(monomial: _Monomial) -> tuple[int, ...]:
        counts = Counter(monomial)
        return tuple([counts[factor] for factor in every])

    largest = max(divisor, key=order)
    quotient: list[Expression] = []
    while number:
        leading = max(number, key=order)
        left = Counter(leading)
        left.subtract(largest)
        if min(left.values(), default=0) < 0 or number[leading] % divisor[largest]:
            return None
        factor, monomial = number[leading] // divisor[largest], tuple(left.elements())
        quotient.append(Mul.of(Number(factor), *monomial))
        for each, own in _multiplied(divisor, {monomial: factor}).items():
            number[each] = number.get(each, 0) - own
            if not number[each]:
                del number[each]
    return Add.of(*quotient)


def _key(expression: Expression) -> tuple[Any, ...]:
    return expression.key

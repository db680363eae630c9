"""Numbers that are computed from symbols: integers, sums and products.

A program computes with the same few sizes over and over: `batch * 12 * (length + 1)`. An expression is kept in one
form, so that equal sizes are mostly equal expressions: sums and products are flat and sorted, like terms are collected,
and a product of a number and a sum is a sum. torch uses sympy for this, whose import takes 0.25 s, and which takes 50
us for a sum or product. An expression has those of sympy's attributes that torch asks for.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

__all__ = [
    "UNDEFINED",
    "Add",
    "Condition",
    "Expression",
    "Mul",
    "Number",
    "Plain",
    "Symbol",
    "Truth",
    "expression_of",
    "known",
    "parts_of",
]

#: A number or a truth value of Python.
Plain = int | float
#: What computing an expression raises for values for which it is not defined: a quotient by 0, the root of -1.
UNDEFINED = (ArithmeticError, ValueError)
_NO_SYMBOLS: frozenset[Symbol] = frozenset()
#: A term of a sum without its coefficient, and the coefficient.
_Term = tuple["Expression", int]


class Expression:
    """A function of `args`, which are expressions too. Expressions of one class with equal arguments are equal."""

    args: tuple[Expression, ...]
    free_symbols: frozenset[Symbol]
    #: How many numbers, symbols and functions its text consists of.
    length = 1

    is_Symbol = is_Integer = is_Boolean = is_number = False
    #: Whether its value is a float.
    is_float = False
    #: How the function or operator is spelled in Python; the name of the class if it has no other.
    spelled = ""
    #: How closely the text holds together: that of a sum is put in parentheses within a product.
    precedence = 3

    def __init__(self, *args: Expression) -> None:
        self.args = args
        self.free_symbols = (
            args[0].free_symbols if len(args) == 1 else _NO_SYMBOLS.union(*[each.free_symbols for each in args])
        )
        self.length = 1 + sum([each.length for each in args])
        self._hash = hash((self.__class__.__name__, args))

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        """The expression in its one form, which may be of another class, such as a number."""
        if all(each.is_number for each in args):
            return expression_of(cls.value(*[known(each) for each in args]))
        return cls(*args)

    @staticmethod
    def value(*numbers: Any) -> Plain:
        """The function of plain numbers."""
        raise NotImplementedError

    def at(self, values: Mapping[Symbol, Plain]) -> Plain:
        """The value of the expression for values of all its symbols."""
        return self.found_in(dict(values))

    def holds_at(self, values: Mapping[Symbol, Plain]) -> bool:
        """Whether a condition holds for values of all its symbols, and is defined for them."""
        try:
            return bool(self.at(values))
        except UNDEFINED:
            return False

    def found_in(self, values: dict[Any, Plain]) -> Plain:
        """The value, given those of all symbols. Those of the expressions that it is computed from are added."""
        found = values.get(self)
        if found is None:
            found = values[self] = self.computed_in(values)
        return found

    def computed_in(self, values: dict[Any, Plain]) -> Plain:
        return self.value(*[each.found_in(values) for each in self.args])

    def xreplace(self, values: Mapping[Any, Any]) -> Expression:
        """The expression with some symbols replaced by numbers or by other expressions."""
        return self.replaced_in(dict(values))

    def replaced_in(self, values: dict[Any, Any]) -> Expression:
        """The same, given what replaces symbols. What replaces expressions is added."""
        if self.free_symbols.isdisjoint(values):
            return self
        found = values.get(self)
        if found is None:
            args = [expression_of(each.replaced_in(values)) for each in self.args]
            try:
                found = self.of(*args)
            except UNDEFINED:
                found = type(self)(*args)
            values[self] = found
        return expression_of(found)

    def terms(self) -> tuple[int, tuple[_Term, ...]]:
        """The constant and the other terms of which it is the sum."""
        return 0, ((self, 1),)

    def factors(self) -> tuple[int, tuple[Expression, ...]]:
        """The number and the other factors of which it is the product."""
        return 1, (self,)

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """By which expressions are sorted: numbers, symbols, and what is computed from these."""
        return 2, type(self).__name__, tuple([each.key for each in self.args])

    @functools.cached_property
    def text(self) -> str:
        """The expression in Python."""
        return f"{self.spelled or type(self).__name__}({', '.join(map(str, self.args))})"

    def within(self, precedence: int) -> str:
        """The text within another, in parentheses where it needs them."""
        return f"({self.text})" if self.precedence < precedence else self.text

    @property
    def compared(self) -> str:
        """The text as a side of a comparison."""
        return self.within(1)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and self._hash == other._hash and self.args == other.args

    def __add__(self, other: Expression | int) -> Expression:
        return Add.of(self, expression_of(other))

    def __sub__(self, other: Expression | int) -> Expression:
        return Add.of(self, Mul.of(Number(-1), expression_of(other)))

    def __rsub__(self, other: int) -> Expression:
        return Number(other) - self

    def __mul__(self, other: Expression | int) -> Expression:
        return Mul.of(self, expression_of(other))

    def __neg__(self) -> Expression:
        return Mul.of(Number(-1), self)

    __radd__, __rmul__ = __add__, __mul__


class Symbol(Expression):
    """A size or a number that is not known at export."""

    is_Symbol = True

    def __init__(self, name: str, *, is_float: bool = False) -> None:
        self.name, self.args = name, ()
        self.free_symbols = frozenset([self])
        if not name.isidentifier():
            self.precedence = 1  # The name of an axis may be an expression, "past + sequence".
        if is_float:
            self.is_float = True

    def computed_in(self, values: dict[Any, Plain]) -> Plain:
        raise KeyError(self)

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        return 1, len(self.name), self.name

    @property
    def text(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Symbol and self.name == other.name)


class Number(Expression):
    """A known integer or float."""

    is_number = True

    def __init__(self, plain: int | float) -> None:
        self.plain, self.args, self.free_symbols = plain, (), _NO_SYMBOLS
        if type(plain) is float:
            self.is_float = True

    @property
    def is_Integer(self) -> bool:  # type: ignore[override]
        return not self.is_float

    def found_in(self, values: dict[Any, Plain]) -> Plain:
        return self.plain

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        return 0, self.plain

    def terms(self) -> tuple[int, tuple[_Term, ...]]:
        assert isinstance(self.plain, int), "sums and products of floats round, and are not rearranged"
        return self.plain, ()

    def factors(self) -> tuple[int, tuple[Expression, ...]]:
        constant, _ = self.terms()
        return constant, ()

    @property
    def text(self) -> str:
        return str(self.plain)

    @property
    def precedence(self) -> int:  # type: ignore[override]
        return 3 if self.plain >= 0 else 1

    def __int__(self) -> int:
        return int(self.plain)

    def __float__(self) -> float:
        return float(self.plain)

    def __hash__(self) -> int:
        return hash(self.plain)

    def __eq__(self, other: object) -> bool:
        # 2 and 2.0 are different numbers, as are 0.0 and -0.0.
        plain = other.plain if type(other) is Number else other
        return type(plain) is type(self.plain) and (plain == self.plain or plain != plain) and repr(plain) == self.text


class Condition(Expression):
    """An expression whose value is a truth value."""

    is_Boolean = True


class Truth(Condition):
    """A condition that is known to hold, or not to hold."""

    is_number = True

    def __init__(self, plain: bool) -> None:
        self.plain, self.args, self.free_symbols = plain, (), frozenset()

    def found_in(self, values: dict[Any, Plain]) -> Plain:
        return self.plain

    @property
    def text(self) -> str:
        return str(self.plain)

    def __bool__(self) -> bool:
        return self.plain

    def __hash__(self) -> int:
        return hash(self.plain)

    def __eq__(self, other: object) -> bool:
        return (other.plain if isinstance(other, Truth) else other) is self.plain


class Add(Expression):
    """A sum of integers: a constant, and terms with coefficients."""

    precedence = 1

    def __init__(self, constant: int, summands: tuple[_Term, ...]) -> None:
        self.constant, self.summands = constant, summands
        scaled = [_scaled(term, coefficient) for term, coefficient in summands]
        super().__init__(*([Number(constant)] if constant else []), *scaled)

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        constant = 0
        found: dict[Expression, int] = {}
        for each in args:
            number, terms = each.terms()
            constant += number
            for term, coefficient in terms:
                found[term] = found.get(term, 0) + coefficient
        summands = [(term, coefficient) for term, coefficient in found.items() if coefficient]
        if not summands:
            return Number(constant)
        if len(summands) == 1 and not constant:
            return _scaled(*summands[0])
        return cls(constant, tuple(sorted(summands, key=lambda summand: summand[0].key)))

    def computed_in(self, values: dict[Any, Plain]) -> Plain:
        return self.constant + sum([coefficient * term.found_in(values) for term, coefficient in self.summands])

    def terms(self) -> tuple[int, tuple[_Term, ...]]:
        return self.constant, self.summands

    def factors(self) -> tuple[int, tuple[Expression, ...]]:
        content = math.gcd(self.constant, *[coefficient for _, coefficient in self.summands])
        if content == 1:
            return 1, (self,)
        summands = tuple([(term, coefficient // content) for term, coefficient in self.summands])
        return content, (Add(self.constant // content, summands),)

    @functools.cached_property
    def text(self) -> str:
        sorted_terms = sorted(self.args, key=lambda term: (-len(term.factors()[1]), term.key))
        texts = [term.within(1) for term in sorted_terms]
        return texts[0] + "".join(f" - {each[1:]}" if each.startswith("-") else f" + {each}" for each in texts[1:])


class Mul(Expression):
    """A product of integers: a coefficient, and factors, of which some may be equal."""

    precedence = 2

    def __init__(self, coefficient: int, multiplied: tuple[Expression, ...]) -> None:
        self.coefficient, self.multiplied = coefficient, multiplied
        super().__init__(*([Number(coefficient)] if coefficient != 1 else []), *multiplied)

    @classmethod
    def of(cls, *args: Expression) -> Expression:
        coefficient = 1
        multiplied: list[Expression] = []
        for each in args:
            number, factors = each.factors()
            coefficient *= number
            multiplied += factors
        if not coefficient or not multiplied:
            return Number(coefficient)
        if len(multiplied) == 1:
            return _scaled(multiplied[0], coefficient)
        return cls(coefficient, tuple(sorted(multiplied, key=lambda factor: factor.key)))

    def computed_in(self, values: dict[Any, Plain]) -> Plain:
        return self.coefficient * math.prod([each.found_in(values) for each in self.multiplied])

    def terms(self) -> tuple[int, tuple[_Term, ...]]:
        return 0, ((_scaled(self, 1), self.coefficient),)

    def factors(self) -> tuple[int, tuple[Expression, ...]]:
        return self.coefficient, self.multiplied

    @functools.cached_property
    def text(self) -> str:
        texts = [
            each.within(2) if count == 1 else f"{each.within(3)}**{count}"
            for each, count in Counter(self.multiplied).items()
        ]
        number = {1: "", -1: "-"}.get(self.coefficient, f"{self.coefficient}*")
        return number + "*".join(texts)


def _scaled(term: Expression, coefficient: int) -> Expression:
    """The product of a coefficient and a term, whose own coefficient it replaces."""
    if isinstance(term, Add):
        if coefficient == 1:
            return term
        return Add(term.constant * coefficient, tuple([(each, own * coefficient) for each, own in term.summands]))
    if isinstance(term, Mul):
        if term.coefficient == coefficient:
            return term
        factors = term.multiplied
        return factors[0] if len(factors) == 1 and coefficient == 1 else Mul(coefficient, factors)
    return term if coefficient == 1 else Mul(coefficient, (term,))


def expression_of(number: Any) -> Expression:
    """The expression for a plain number or truth value; an expression itself."""
    if isinstance(number, bool):
        return Truth(number)
    return Number(number) if isinstance(number, (int, float)) else number


def known(expression: Expression) -> Any:
    """The number, or truth value, of an expression without symbols."""
    return expression.at({})


def parts_of(expression: Expression) -> dict[Expression, None]:
    """The expression and all that it is computed from, each once."""
    found: dict[Expression, None] = {}
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found[each] = None
            waiting += each.args
    return found

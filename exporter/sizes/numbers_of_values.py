"""The symbols of numbers that a program reads from tensors, or that count what is in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onnx_parity.exporter.expressions.bounds import ANY, Range
from onnx_parity.exporter.expressions.conditions import Equal, Unequal
from onnx_parity.exporter.expressions.expression import Expression, Mul, Number, Symbol, expression_of
from onnx_parity.exporter.expressions.integers_and_reals import Choice, Min
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.sizes.answers import declared_range
from onnx_parity.exporter.sizes.size_node import Answers, SizeNode, as_number, expression_of_size

__all__ = ["NumbersOfValues"]


class NumbersOfValues(Answers):
    """What is known of these symbols. torch makes them by the methods of its own environment."""

    def __init__(self) -> None:
        self.computed = {}
        self._read: dict[Symbol, Range] = {}
        #: Those of them that are sizes.
        self._counts: set[Symbol] = set()
        #: What the program checks.
        self._assured: set[Expression] = set()
        #: Numbers that are at most another one wherever the program runs.
        self._known_orders: set[tuple[Expression, Expression]] = set()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """A side of a branch. What the program checks there, be it by torch, is not known to hold on the other side."""
        assured, orders, read = {*self._assured}, {*self._known_orders}, dict(self._read)
        try:
            yield
        finally:
            self._assured, self._known_orders = assured, orders
            self._read = self._read | read

    def _new_number(self, prefix: str, *, is_float: bool = False) -> Symbol:
        symbol = Symbol(f"{prefix}{len(self._read)}", is_float=is_float)
        self._read[symbol] = ANY
        return symbol

    def create_unbacked_symint(self) -> torch.SymInt:
        return torch.SymInt(SizeNode(self._new_number("u"), self, int))

    def create_unbacked_symfloat(self) -> torch.SymFloat:
        return torch.SymFloat(SizeNode(self._new_number("zuf", is_float=True), self, float))

    def create_unbacked_symbool(self) -> torch.SymBool:
        number = self._new_number("u")
        self._read[number] = Range(0, 1)
        return torch.SymBool(SizeNode(Equal.of(number, expression_of(1)), self, bool))

    def create_symintnode(self, sym: Expression, **_: Any) -> Size:
        return self.size_of(sym)

    def size_of(self, expression: Expression) -> Size:
        """A size for an expression over sizes."""
        size: Size = as_number(expression, self)
        return size

    def is_unbacked_symint(self, symbol: Expression) -> bool:
        """Whether a symbol is a number that is read from a tensor, or that counts what is in it."""
        return symbol in self._read

    def _constrain_range(self, number: Expression, least: Any, most: Any) -> None:
        limits = declared_range((least, most))
        if number in self._read:
            self._read[number] &= limits  # type: ignore[index]

    def constrain(self, number: torch.SymInt, min: int | None = None, max: int | None = None) -> None:
        """Take a number to be a size, and to be within these limits, by the names that torch gives them."""
        symbol = number.node.expr
        if symbol in self._read:
            self._counts.add(symbol)
            self._read[symbol] &= Range(min or 0, math.inf if max is None else max)

    def broadcast(self, one: Size, other: Size) -> Size | None:
        """The size that two sizes broadcast to, wherever they do: the one that is not 1. None if neither depends on
        values, and they do not differ where an axis is empty alone."""
        sides = expression_of_size(one), expression_of_size(other)
        if all(map(self.has_value, sides)):
            return self._not_one_where_empty(*sides)
        for size, beside in (sides, sides[::-1]):
            if self.known(Unequal.of(size, Number(1))) is True:
                return self.size_of(size)
            if size == Min.of(Number(1), beside):  # As that of x[:1].
                return self.size_of(beside)
        met = {part: None for size in sides for part in _sizes_met(size)}
        return self.size_of(_first_but_one(sorted(met, key=lambda part: part.key)))

    def _not_one_where_empty(self, one: Expression, other: Expression) -> Size | None:
        """Of two sizes that are one unless an axis is empty, that which is not 1 then: of those of `x` and of
        `F.pad(x[1:], (0, 0, 1, 0))`, that of `x`."""
        symbols = one.free_symbols | other.free_symbols
        if len(symbols) != 1 or self.known_if_occupied(Equal.of(one, other)) is not True:
            return None
        nothing = dict.fromkeys(symbols, Number(0))
        for size, beside in ((one, other), (other, one)):
            if size.xreplace(nothing) == Number(1):
                return self.size_of(beside)
        return None

    def new_count(self, shape: Sequence[Size]) -> torch.SymInt:
        """A number of elements of a tensor of this shape."""
        count = self.create_unbacked_symint()
        whole = Mul.of(*map(expression_of_size, shape))
        self.constrain(count, max=int(whole) if isinstance(whole, Number) else None)
        return count


def _sizes_met(size: Expression) -> list[Expression]:
    """The sizes that a size is broadcast from."""
    if isinstance(size, Choice):
        condition, others, first = size.args
        if condition == Equal.of(first, Number(1)):
            return [first, *_sizes_met(others)]
    return [size]


def _first_but_one(sizes: Sequence[Expression]) -> Expression:
    """The first of sizes that is not 1."""
    first, *others = sizes
    return Choice.of(Equal.of(first, Number(1)), _first_but_one(others), first) if others else first

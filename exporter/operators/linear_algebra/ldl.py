"""The LDL decomposition of symmetric and Hermitian matrices, with the pivots that LAPACK's sytrf and hetrf choose, and
solutions with it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.complex_loops import (
    conjugate,
    inverse,
    joined,
    number_of,
    real_part,
    times,
)
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import (
    broadcast_batch,
    column,
    diagonal,
    element,
    first_flagged,
    lying,
    row,
    stacked_columns,
    standing,
    sum_over,
    take_columns,
    transposed,
    triangle,
)
from onnx_parity.exporter.registry.lowerings import lowering

#: Of Bunch and Kaufman. The elements grow least with it.
_ALPHA = (1 + math.sqrt(17)) / 8


class _Reals:
    """What is done with elements that are real."""

    def flags(self, sizes: Sequence[Size]) -> tuple[Size, ...]:
        """The sizes of what tells something of each element."""
        return tuple(sizes)

    def times(self, g: Graph, x: Value, y: Value) -> Value:
        product: Value = g.op("Mul", x, y)
        return product

    def over(self, g: Graph, x: Value, y: Value) -> Value:
        quotient: Value = g.op("Div", x, y)
        return quotient

    def size(self, g: Graph, x: Value) -> Value:
        """By which pivots are chosen."""
        return shaped(g.op("Abs", x), x.sizes)

    def mirrored(self, g: Graph, x: Value) -> Value:
        """What an element is on the other side of the diagonal."""
        return x

    def on_diagonal(self, g: Graph, x: Value) -> Value:
        return x

    def one(self, g: Graph, rank: int, dtype: torch.dtype) -> Value:
        return g.const(1, dtype)


class _Complex(_Reals):
    """Of elements whose parts are on the first axis."""

    def __init__(self, *, hermitian: bool) -> None:
        self._hermitian = hermitian

    def flags(self, sizes: Sequence[Size]) -> tuple[Size, ...]:
        return (1, *sizes[1:])

    def times(self, g: Graph, x: Value, y: Value) -> Value:
        return times(g, x, y)

    def over(self, g: Graph, x: Value, y: Value) -> Value:
        return times(g, x, inverse(g, y))

    def size(self, g: Graph, x: Value) -> Value:
        return shaped(g.reduce("Sum", g.op("Abs", x), [0], True), self.flags(x.sizes))

    def mirrored(self, g: Graph, x: Value) -> Value:
        return conjugate(g, x) if self._hermitian else x

    def on_diagonal(self, g: Graph, x: Value) -> Value:
        if not self._hermitian:
            return x
        real = real_part(g, x)
        return joined(g, real, shaped(g.op("Mul", real, 0), real.sizes))

    def one(self, g: Graph, rank: int, dtype: torch.dtype) -> Value:
        return number_of(g, 1.0, rank, dtype)


@lowering("aten::linalg_ldl_factor_ex")
def ldl_factor(
    g: Graph, self: Value, hermitian: bool = False, check_errors: bool = False
) -> tuple[Value, Value, Value | None]:
    ld, pivots, singular = _factored(g, self, _Reals())
    return ld, pivots, first_flagged(g, singular) if g.is_used(2) else None


@lowering("onnx_parity::complex_ldl_factor")
def complex_ldl_factor(g: Graph, a: Value, hermitian: bool) -> tuple[Value, Value, Value | None]:
    ld, *others = _factored(g, a, _Complex(hermitian=hermitian))
    pivots, singular = (shaped(g.squeeze(each, [0]), each.sizes[1:]) for each in others)
    return ld, pivots, first_flagged(g, singular) if g.is_used(2) else None


def _factored(g: Graph, a: Value, of: _Reals) -> tuple[Value, Value, Value]:
    """L below the diagonal and the blocks of D on it, from the lower triangle; the pivots; where D is singular.

    A block is one element, or 2 by 2. An iteration finds one column of L; the second one of a block is found with the
    first, and carried. A pivot is the row, from 1, that was swapped with the last of the block, negative for 2 by 2.
    """
    lower = triangle(g, a, 0, False)
    whole = shaped(g.op("Add", lower, of.mirrored(g, transposed(g, triangle(g, a, -1, False)))), a.shape)
    batch, size = a.sizes[:-2], a.sizes[-1]
    rows, zero, one = g.iota(size), g.const(0, a.dtype), of.one(g, a.rank - 1, a.dtype)
    last = g.op("Sub", g.scalar(size, torch.int64), 1)
    each_one = of.flags((*batch, 1))

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        rest, is_second, second, second_pivot = carried
        following = g.extreme("Min", g.op("Add", k, 1), last)
        partner, is_alone = _pivot(g, rest, rows, k, of)
        place = g.where(g.op("Or", is_alone, is_second), k, following)
        moved = of.mirrored(g, _swapped(g, rest, rows, place, g.where(is_second, k, partner)))
        first, other = column(g, moved, k), column(g, moved, following)
        beside = element(g, first, following)
        head, below = (of.on_diagonal(g, element(g, *each)) for each in ((first, k), (other, following)))

        # With a block of one element: first / head, and what it explains of the rest.
        after = shaped(g.greater(rows, k), rows.shape)
        tail = shaped(g.where(after, first, zero), first.shape)
        is_nothing = _is_zero(g, head, of)
        alone = of.over(g, tail, shaped(g.where(is_nothing, one, head), head.sizes))
        alone = shaped(g.where(after, alone, zero), first.shape)  # Not -0.
        by_alone = of.times(g, standing(g, alone), lying(g, of.mirrored(g, tail)))

        # With [[head, mirrored], [beside, below]]: the two columns times its inverse.
        divisor = shaped(g.where(_is_zero(g, beside, of), one, beside), beside.sizes)
        mirrored = of.mirrored(g, divisor)
        of_first, of_other = of.over(g, below, divisor), of.over(g, head, mirrored)
        less_one = shaped(g.op("Sub", of.times(g, of_first, of_other), one), beside.sizes)
        after_both = shaped(g.greater(rows, following), rows.shape)
        tails = [shaped(g.where(after_both, each, zero), first.shape) for each in (first, other)]
        pair = []
        for factor, by, (one_tail, other_tail) in ((of_first, mirrored, tails), (of_other, divisor, tails[::-1])):
            mixed = shaped(g.op("Sub", of.times(g, one_tail, factor), other_tail), first.shape)
            found = of.over(g, mixed, shaped(of.times(g, less_one, by), beside.sizes))
            pair.append(shaped(g.where(after_both, found, zero), first.shape))
        by_pair = g.op(
            "Add",
            *(of.times(g, standing(g, x), lying(g, of.mirrored(g, y))) for x, y in zip(tails, pair, strict=True)),
        )

        explained = g.where(standing(g, is_alone), by_alone, by_pair)
        reduced = shaped(g.where(standing(g, is_second), rest, g.op("Sub", moved, explained)), rest.shape)
        is_here, is_next = (shaped(g.equal(rows, each), rows.shape) for each in (k, following))
        found = g.where(is_here, head, g.where(is_alone, alone, g.where(is_next, beside, pair[0])))
        number = g.op("Add", partner, 1)
        pivot = shaped(g.where(is_alone, number, g.op("Neg", number)), each_one)
        opens_pair = g.op("And", g.op("Not", is_second), g.op("Not", is_alone))
        is_singular = g.op("And", g.op("And", is_nothing, is_alone), g.op("Not", is_second))
        return [
            reduced,
            shaped(opens_pair, each_one),
            shaped(g.where(is_next, below, pair[1]), first.shape),
            pivot,
            shaped(g.where(is_second, second, found), first.shape),
            shaped(g.where(is_second, second_pivot, pivot), each_one),
            shaped(is_singular, each_one),
        ]

    initial = [
        whole,
        g.full(each_one, False, torch.bool),
        g.full((*batch, size), 0, a.dtype),
        g.full(each_one, 0, torch.int64),
    ]
    *_, columns, pivots, singular = g.repeat(size, initial, step)
    pivots, singular = (g.squeeze(stacked_columns(g, each), [len(batch)]) for each in (pivots, singular))
    return stacked_columns(g, columns), g.cast(pivots, torch.int32), singular


def _is_zero(g: Graph, x: Value, of: _Reals) -> Value:
    size = of.size(g, x)
    return shaped(g.equal(size, g.const(0, x.dtype)), size.sizes)


def _pivot(g: Graph, rest: Value, rows: Value, k: Value, of: _Reals) -> tuple[Value, Value]:
    """The row to swap with, and whether the block is one element."""
    zero = g.const(0, rest.dtype)
    magnitudes = of.size(g, column(g, rest, k))
    vector = magnitudes.sizes
    one_each = (*vector[:-1], 1)
    after = shaped(g.greater(rows, k), rows.shape)
    own = element(g, magnitudes, k)
    below = shaped(g.where(after, magnitudes, g.const(-1, rest.dtype)), vector)
    chosen = shaped(g.op("ArgMax", below, axis_i=rest.rank - 2, keepdims_i=1), one_each)
    highest = g.extreme("Max", g.reduce("Max", below, [rest.rank - 2], True), zero)
    is_chosen = shaped(g.equal(rows, chosen), vector)
    of_chosen = of.size(g, sum_over(g, shaped(g.where(standing(g, is_chosen), rest, zero), rest.shape), -2))
    own_of_chosen = sum_over(g, shaped(g.where(is_chosen, of_chosen, zero), vector), -1, keepdim=True)
    is_other = g.op("And", g.op("Not", is_chosen), g.op("Not", shaped(g.less(rows, k), rows.shape)))
    others = shaped(g.where(is_other, of_chosen, zero), vector)
    highest_of_chosen = g.reduce("Max", others, [rest.rank - 2], True)
    limit = g.op("Mul", highest, _ALPHA)
    is_large = g.greater_or_equal(own, limit)
    scaled = g.op("Mul", limit, g.op("Div", highest, highest_of_chosen))
    stays = g.op("Or", is_large, g.greater_or_equal(own, scaled))
    takes_chosen = g.greater_or_equal(own_of_chosen, g.op("Mul", highest_of_chosen, _ALPHA))
    return shaped(g.where(stays, k, chosen), one_each), shaped(g.op("Or", stays, takes_chosen), one_each)


def _swapped(g: Graph, a: Value, rows: Value, one: Value, other: Value) -> Value:
    """Matrices with two rows, and the same columns, swapped in each, and then transposed."""
    shape = (*a.sizes[:-2], rows.sizes[0])
    order = g.expand(_order(g, rows, one, other, (*other.sizes[:-1], rows.sizes[0])), shape)
    return take_columns(g, transposed(g, take_columns(g, a, order)), order)


def _order(g: Graph, rows: Value, one: Value, other: Value, shape: Sequence[Size]) -> Value:
    """The numbers of rows of which two are swapped."""
    rest = g.where(g.equal(rows, other), one, rows)
    return shaped(g.where(g.equal(rows, one), other, rest), shape)


@lowering("aten::linalg_ldl_solve")
def ldl_solve(g: Graph, LD: Value, pivots: Value, B: Value, *, hermitian: bool = False) -> Value:
    return _solved(g, LD, g.cast(pivots, torch.int64), B, _Reals())


@lowering("onnx_parity::complex_ldl_solve")
def complex_ldl_solve(g: Graph, ld: Value, pivots: Value, b: Value, hermitian: bool) -> Value:
    numbers = g.unsqueeze(g.cast(pivots, torch.int64), [0])
    return _solved(g, ld, shaped(numbers, (1, *pivots.sizes)), b, _Complex(hermitian=hermitian))


def _solved(g: Graph, ld: Value, numbers: Value, b: Value, of: _Reals) -> Value:
    """The solution of P @ L @ D @ L.T @ P.T @ x = b. Each block's swaps are made when its columns are used."""
    size = ld.sizes[-1]
    rows = g.iota(size)
    last = g.op("Sub", g.scalar(size, torch.int64), 1)
    opens = _opens_pair(g, numbers)
    partners = shaped(g.op("Sub", g.op("Abs", numbers), 1), numbers.shape)

    def swapped(x: Value, k: Value) -> Value:
        """Rows swapped as block k says; the second row of a block of two says nothing."""
        opens_here = element(g, opens, k)
        is_single = shaped(g.greater(element(g, numbers, k), g.const(0)), opens_here.shape)
        place = g.op("Add", k, g.cast(opens_here, torch.int64))
        swaps = g.op("Or", is_single, opens_here)
        other = g.where(swaps, element(g, partners, k), place)
        order = _order(g, rows, place, other, numbers.sizes)
        order = g.expand(order, (*x.sizes[:-2], size))
        return transposed(g, take_columns(g, transposed(g, x), order))

    def multiples(k: Value) -> Value:
        """The column of L below its block."""
        first = g.op("Add", k, g.cast(element(g, opens, k), torch.int64))
        kept = g.where(g.greater(rows, first), column(g, ld, k), g.const(0, ld.dtype))
        return standing(g, shaped(kept, ld.sizes[:-1]))

    def forth(k: Value, carried: list[Value]) -> Sequence[Value]:
        x = swapped(carried[0], k)
        return [shaped(g.op("Sub", x, of.times(g, multiples(k), lying(g, row(g, x, k)))), x.shape)]

    def back(number: Value, carried: list[Value]) -> Sequence[Value]:
        k = g.op("Sub", last, number)
        (x,) = carried
        products = shaped(of.times(g, x, of.mirrored(g, multiples(k))), x.shape)
        is_here = standing(g, shaped(g.equal(rows, k), rows.shape))
        less = shaped(g.op("Sub", x, g.reduce("Sum", products, [x.rank - 2], True)), x.shape)
        return [swapped(shaped(g.where(is_here, less, x), x.shape), k)]

    (half,) = g.repeat(size, [broadcast_batch(g, ld, b)], forth)
    (solution,) = g.repeat(size, [_over_blocks(g, ld, opens, half, of)], back)
    return solution


def _opens_pair(g: Graph, numbers: Value) -> Value:
    """Whether each pivot is the first one of a block of 2 by 2: every other one of those that are negative."""

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        is_negative = shaped(g.less(element(g, numbers, k), g.const(0)), carried[0].shape)
        opens = shaped(g.op("And", is_negative, g.op("Not", carried[0])), carried[0].shape)
        return [opens, opens]

    _, stacked = g.repeat(numbers.sizes[-1], [g.full((*numbers.sizes[:-1], 1), False, torch.bool)], step)
    return g.squeeze(stacked_columns(g, stacked), [numbers.rank - 1])


def _over_blocks(g: Graph, ld: Value, opens: Value, x: Value, of: _Reals) -> Value:
    """The solution of D @ y = x. An element of a block of two has the other one before or after it."""
    size = ld.sizes[-1]
    rows, zero = g.iota(size), g.const(0, ld.dtype)
    before = g.extreme("Max", g.op("Sub", rows, 1), g.const(0))
    after = g.extreme("Min", g.op("Add", rows, 1), g.op("Sub", g.scalar(size, torch.int64), 1))

    def taken(v: Value, places: Value, axis: int) -> Value:
        return shaped(g.op("Gather", v, places, axis_i=axis), v.shape)

    closes = g.op("And", taken(opens, before, opens.rank - 1), g.op("Not", opens))
    is_single = shaped(g.op("Not", g.op("Or", opens, closes)), opens.shape)
    own = diagonal(g, ld)
    one = of.one(g, own.rank, own.dtype)
    is_beside = shaped(g.equal(g.along(size, 0, 2), g.op("Add", g.along(size, 1, 2), 1)), (size, size))
    below = sum_over(g, shaped(g.where(is_beside, ld, zero), ld.shape), -2)
    # What is beside the element, and what is on the other side of the diagonal.
    last = own.rank - 1
    beside = shaped(g.where(opens, of.mirrored(g, below), taken(below, before, last)), own.shape)
    beside = shaped(g.where(_is_zero(g, beside, of), one, beside), own.shape)
    mirrored = of.mirrored(g, beside)
    others = shaped(g.where(opens, taken(own, after, last), taken(own, before, last)), own.shape)
    factor = shaped(of.over(g, others, beside), own.shape)
    less_one = shaped(g.op("Sub", of.times(g, of.over(g, own, mirrored), factor), one), own.shape)
    determinant = shaped(of.times(g, less_one, mirrored), own.shape)
    other_x = g.where(standing(g, opens), taken(x, after, x.rank - 2), taken(x, before, x.rank - 2))
    mixed = shaped(g.op("Sub", of.times(g, x, standing(g, factor)), other_x), x.shape)
    in_pair = of.over(g, mixed, standing(g, determinant))
    divisor = standing(g, shaped(g.where(is_single, own, one), own.shape))
    return shaped(g.where(standing(g, is_single), of.over(g, x, divisor), in_pair), x.shape)

"""The LDL decomposition of symmetric matrices, with the pivots that LAPACK's sytrf chooses, and solutions with it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.lowering.aten.matrix_loops import (
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
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.registry import lowering
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

#: Of Bunch and Kaufman. The elements grow least with it.
_ALPHA = (1 + math.sqrt(17)) / 8


@lowering("aten::linalg_ldl_factor_ex")
def ldl_factor(
    g: Graph, self: Value, hermitian: bool = False, check_errors: bool = False
) -> tuple[Value, Value, Value | None]:
    """L below the diagonal and the blocks of D on it, from the lower triangle; the pivots; LAPACK's `info`.

    A block is one element, or 2 by 2. An iteration finds one column of L; the second one of a block is found with the
    first, and carried. A pivot is the row, from 1, that was swapped with the last of the block, negative for 2 by 2.
    """
    lower = triangle(g, self, 0, False)
    whole = shaped(g.op("Add", lower, transposed(g, triangle(g, self, -1, False))), self.shape)
    batch, size = self.sizes[:-2], self.sizes[-1]
    rows, zero, one = g.iota(size), g.const(0, self.dtype), g.const(1, self.dtype)
    last = g.op("Sub", g.scalar(size, torch.int64), 1)

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        rest, is_second, second, second_pivot = carried
        following = g.extreme("Min", g.op("Add", k, 1), last)
        partner, is_alone = _pivot(g, rest, rows, k)
        place = g.where(g.op("Or", is_alone, is_second), k, following)
        moved = _swapped(g, rest, rows, place, g.where(is_second, k, partner))
        first, other = column(g, moved, k), column(g, moved, following)
        head, beside, below = element(g, first, k), element(g, first, following), element(g, other, following)

        # With a block of one element: first / head, and what it explains of the rest.
        after = shaped(g.greater(rows, k), rows.shape)
        tail = shaped(g.where(after, first, zero), first.shape)
        alone = g.op("Div", tail, g.where(g.equal(head, zero), one, head))
        alone = shaped(g.where(after, alone, zero), first.shape)  # Not -0.
        by_alone = g.op("Mul", standing(g, alone), lying(g, tail))

        # With [[head, beside], [beside, below]]: the two columns times its inverse.
        divisor = g.where(g.equal(beside, zero), one, beside)
        of_first, of_other = g.op("Div", below, divisor), g.op("Div", head, divisor)
        determinant = g.op("Mul", g.op("Sub", g.op("Mul", of_first, of_other), 1), divisor)
        after_both = shaped(g.greater(rows, following), rows.shape)
        tails = [shaped(g.where(after_both, each, zero), first.shape) for each in (first, other)]
        pair = [
            shaped(
                g.where(
                    after_both,
                    g.op("Div", g.op("Sub", g.op("Mul", factor, one_tail), other_tail), determinant),
                    zero,
                ),
                first.shape,
            )
            for factor, one_tail, other_tail in ((of_first, *tails), (of_other, *reversed(tails)))
        ]
        by_pair = g.op("Add", *(g.op("Mul", standing(g, x), lying(g, y)) for x, y in zip(tails, pair, strict=True)))

        explained = g.where(standing(g, is_alone), by_alone, by_pair)
        reduced = shaped(g.where(standing(g, is_second), rest, g.op("Sub", moved, explained)), rest.shape)
        is_here, is_next = (shaped(g.equal(rows, each), rows.shape) for each in (k, following))
        found = g.where(is_here, head, g.where(is_alone, alone, g.where(is_next, beside, pair[0])))
        number = g.op("Add", partner, 1)
        pivot = shaped(g.where(is_alone, number, g.op("Neg", number)), (*batch, 1))
        opens_pair = g.op("And", g.op("Not", is_second), g.op("Not", is_alone))
        is_singular = g.op("And", g.op("And", g.equal(head, zero), is_alone), g.op("Not", is_second))
        return [
            reduced,
            shaped(opens_pair, (*batch, 1)),
            shaped(g.where(is_next, below, pair[1]), first.shape),
            pivot,
            shaped(g.where(is_second, second, found), first.shape),
            shaped(g.where(is_second, second_pivot, pivot), (*batch, 1)),
            shaped(is_singular, (*batch, 1)),
        ]

    initial = [
        whole,
        g.full((*batch, 1), False, torch.bool),
        g.full((*batch, size), 0, self.dtype),
        g.full((*batch, 1), 0, torch.int64),
    ]
    *_, columns, pivots, singular = g.repeat(size, initial, step)
    pivots, singular = (g.squeeze(stacked_columns(g, each), [len(batch)]) for each in (pivots, singular))
    info = first_flagged(g, singular) if g.is_used(2) else None
    return stacked_columns(g, columns), g.cast(pivots, torch.int32), info


def _pivot(g: Graph, rest: Value, rows: Value, k: Value) -> tuple[Value, Value]:
    """The row to swap with, and whether the block is one element."""
    zero = g.const(0, rest.dtype)
    vector = rest.sizes[:-1]
    magnitudes = g.op("Abs", column(g, rest, k))
    after = shaped(g.greater(rows, k), rows.shape)
    own = element(g, magnitudes, k)
    below = shaped(g.where(after, magnitudes, g.const(-1, rest.dtype)), vector)
    chosen = shaped(g.op("ArgMax", below, axis_i=rest.rank - 2, keepdims_i=1), (*rest.sizes[:-2], 1))
    highest = g.extreme("Max", g.reduce("Max", below, [rest.rank - 2], True), zero)
    is_chosen = shaped(g.equal(rows, chosen), vector)
    of_chosen = g.op("Abs", sum_over(g, shaped(g.where(standing(g, is_chosen), rest, zero), rest.shape), -2))
    own_of_chosen = sum_over(g, shaped(g.where(is_chosen, of_chosen, zero), vector), -1, keepdim=True)
    is_other = g.op("And", g.op("Not", is_chosen), g.op("Not", shaped(g.less(rows, k), rows.shape)))
    others = shaped(g.where(is_other, of_chosen, zero), vector)
    highest_of_chosen = g.reduce("Max", others, [rest.rank - 2], True)
    limit = g.op("Mul", highest, _ALPHA)
    is_large = g.greater_or_equal(own, limit)
    scaled = g.op("Mul", limit, g.op("Div", highest, highest_of_chosen))
    stays = g.op("Or", is_large, g.greater_or_equal(own, scaled))
    takes_chosen = g.greater_or_equal(own_of_chosen, g.op("Mul", highest_of_chosen, _ALPHA))
    one_each = (*rest.sizes[:-2], 1)
    return shaped(g.where(stays, k, chosen), one_each), shaped(g.op("Or", stays, takes_chosen), one_each)


def _swapped(g: Graph, a: Value, rows: Value, one: Value, other: Value) -> Value:
    """Symmetric matrices with two rows, and the same columns, swapped in each."""
    order = _order(g, rows, one, other, (*a.sizes[:-2], rows.sizes[0]))
    return take_columns(g, transposed(g, take_columns(g, a, order)), order)


def _order(g: Graph, rows: Value, one: Value, other: Value, shape: Sequence[Size]) -> Value:
    """The numbers of rows of which two are swapped."""
    rest = g.where(g.equal(rows, other), one, rows)
    return shaped(g.where(g.equal(rows, one), other, rest), shape)


@lowering("aten::linalg_ldl_solve")
def ldl_solve(g: Graph, LD: Value, pivots: Value, B: Value, *, hermitian: bool = False) -> Value:
    """The solution of P @ L @ D @ L.T @ P.T @ x = b. Each block's swaps are made when its columns are used."""
    size = LD.sizes[-1]
    rows = g.iota(size)
    last = g.op("Sub", g.scalar(size, torch.int64), 1)
    numbers = g.cast(pivots, torch.int64)
    opens = _opens_pair(g, numbers)
    partners = shaped(g.op("Sub", g.op("Abs", numbers), 1), pivots.shape)

    def swapped(x: Value, k: Value) -> Value:
        """Rows swapped as block k says; the second row of a block of two says nothing."""
        opens_here = element(g, opens, k)
        is_single = shaped(g.greater(element(g, numbers, k), g.const(0)), opens_here.shape)
        place = g.op("Add", k, g.cast(opens_here, torch.int64))
        swaps = g.op("Or", is_single, opens_here)
        other = g.where(swaps, element(g, partners, k), place)
        order = _order(g, rows, place, other, pivots.sizes)
        order = g.expand(order, (*x.sizes[:-2], size))
        return transposed(g, take_columns(g, transposed(g, x), order))

    def multiples(k: Value) -> Value:
        """The column of L below its block."""
        first = g.op("Add", k, g.cast(element(g, opens, k), torch.int64))
        kept = g.where(g.greater(rows, first), column(g, LD, k), g.const(0, LD.dtype))
        return standing(g, shaped(kept, LD.sizes[:-1]))

    def forth(k: Value, carried: list[Value]) -> Sequence[Value]:
        x = swapped(carried[0], k)
        return [shaped(g.op("Sub", x, g.op("Mul", multiples(k), lying(g, row(g, x, k)))), x.shape)]

    def back(number: Value, carried: list[Value]) -> Sequence[Value]:
        k = g.op("Sub", last, number)
        (x,) = carried
        products = shaped(g.op("Mul", multiples(k), x), x.shape)
        is_here = standing(g, shaped(g.equal(rows, k), rows.shape))
        less = shaped(g.op("Sub", x, g.reduce("Sum", products, [x.rank - 2], True)), x.shape)
        return [swapped(shaped(g.where(is_here, less, x), x.shape), k)]

    (half,) = g.repeat(size, [broadcast_batch(g, LD, B)], forth)
    (solution,) = g.repeat(size, [_over_blocks(g, LD, opens, half)], back)
    return solution


def _opens_pair(g: Graph, numbers: Value) -> Value:
    """Whether each pivot is the first one of a block of 2 by 2: every other one of those that are negative."""

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        is_negative = shaped(g.less(element(g, numbers, k), g.const(0)), carried[0].shape)
        opens = shaped(g.op("And", is_negative, g.op("Not", carried[0])), carried[0].shape)
        return [opens, opens]

    _, stacked = g.repeat(numbers.sizes[-1], [g.full((*numbers.sizes[:-1], 1), False, torch.bool)], step)
    return g.squeeze(stacked_columns(g, stacked), [numbers.rank - 1])


def _over_blocks(g: Graph, ld: Value, opens: Value, x: Value) -> Value:
    """The solution of D @ y = x. An element of a block of two has the other one before or after it."""
    size = ld.sizes[-1]
    rows, one = g.iota(size), g.const(1, ld.dtype)
    before = g.extreme("Max", g.op("Sub", rows, 1), g.const(0))
    after = g.extreme("Min", g.op("Add", rows, 1), g.op("Sub", g.scalar(size, torch.int64), 1))

    def taken(v: Value, places: Value, axis: int) -> Value:
        return shaped(g.op("Gather", v, places, axis_i=axis), v.shape)

    closes = g.op("And", taken(opens, before, opens.rank - 1), g.op("Not", opens))
    is_single = shaped(g.op("Not", g.op("Or", opens, closes)), opens.shape)
    own = diagonal(g, ld)
    is_beside = shaped(g.equal(g.along(size, 0, 2), g.op("Add", g.along(size, 1, 2), 1)), (size, size))
    beside = sum_over(g, shaped(g.where(is_beside, ld, g.const(0, ld.dtype)), ld.shape), -2)
    beside = shaped(g.where(opens, beside, taken(beside, before, own.rank - 1)), own.shape)
    beside = shaped(g.where(g.equal(beside, g.const(0, ld.dtype)), one, beside), own.shape)
    others = g.where(opens, taken(own, after, own.rank - 1), taken(own, before, own.rank - 1))
    factor = shaped(g.op("Div", others, beside), own.shape)
    determinant = g.op("Mul", g.op("Sub", g.op("Mul", g.op("Div", own, beside), factor), 1), beside)
    other_x = g.where(standing(g, opens), taken(x, after, x.rank - 2), taken(x, before, x.rank - 2))
    mixed = g.op("Sub", g.op("Mul", standing(g, factor), x), other_x)
    in_pair = g.op("Div", mixed, standing(g, shaped(determinant, own.shape)))
    divisor = standing(g, shaped(g.where(is_single, own, one), own.shape))
    return shaped(g.where(standing(g, is_single), g.op("Div", x, divisor), in_pair), x.shape)

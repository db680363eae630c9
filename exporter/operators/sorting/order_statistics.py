"""Medians, searchsorted and bucketize."""

from __future__ import annotations

import math

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product, shaped
from onnx_parity.exporter.lowering.values.value import Operand, Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::median", "aten::nanmedian")
def median_of_all(g: Graph, self: Value) -> Value:
    size = product(self.sizes)
    flat = g.reshape(self, [size])
    if not (isinstance(size, int) and size > 0):
        # The median of no elements is NaN, in their dtype.
        nan = g.const(torch.tensor([math.nan]).to(self.dtype))
        if isinstance(size, int):
            return g.reshape(nan, [])
        missing = g.slice(nan, [0], [0], [torch.sym_max(1 - size, 0)])
        flat = shaped(g.op("Concat", flat, missing, axis_i=0), [torch.sym_max(size, 1)])
    return _median(g, flat, 0, keepdim=False)[0]


@lowering("aten::median.dim", "aten::nanmedian.dim")
def median(g: Graph, self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    if self.rank == 0:
        return self, g.const(0, torch.int64)
    return _median(g, self, dim % self.rank, keepdim)


def _median(g: Graph, x: Value, axis: int, keepdim: bool) -> tuple[Value, Value]:
    """The lower median and its index. In median, NaN is larger than all numbers; nanmedian ignores it."""
    size = x.sizes[axis]
    if isinstance(size, int) and size == 0:
        g.unsupported("the median of an empty axis has no index; export with a non-empty axis")
    ordered, indices = g.top_k(x, size, axis, largest=False)
    one = [*x.sizes[:axis], 1, *x.sizes[axis + 1 :]]
    middle = g.full(one, (size - 1) // 2, torch.int64)
    if x.dtype.is_floating_point:
        missing = g.is_nan(x)
        absent = g.reduce("Sum", g.cast(missing, torch.int64), [axis], keepdim=True)
        counted = g.op("Sub", g.scalar(size, torch.int64), absent)
        if g.operator == "aten::nanmedian":
            # If all are NaN the median is NaN, the first element.
            last = g.extreme("Max", g.op("Sub", counted, 1), g.const(0, torch.int64))
            middle = shaped(g.op("Div", last, 2), one)
        else:
            # If any is NaN it is the median: the first element after all numbers.
            is_missing = g.greater(absent, g.const(0, torch.int64))
            middle = g.where(is_missing, shaped(counted, one), middle)
    found = [g.gather_elements(each, middle, axis) for each in (ordered, indices)]
    value, index = found if keepdim else (g.squeeze(each, [axis]) for each in found)
    return value, index


# --- search in sorted sequences ---------------------------------------------------------------------------------------


@lowering("aten::searchsorted")
def searchsorted(
    g: Graph,
    sorted_sequence: Value,
    self: Operand,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """The index at which each value is to be inserted to keep the sequence sorted"""
    sequence = sorted_sequence
    if sorter is not None:
        sequence = g.gather_elements(sequence, sorter, sequence.rank - 1)
    [values] = g.promote(self, dtype=sequence.dtype) if not isinstance(self, Value) else [self]
    return _before(g, sequence, values, right or side == "right", out_int32)


@lowering("aten::bucketize")
def bucketize(g: Graph, self: Operand, boundaries: Value, out_int32: bool = False, right: bool = False) -> Value:
    [values] = g.promote(self, dtype=boundaries.dtype) if not isinstance(self, Value) else [self]
    return _before(g, boundaries, values, right, out_int32)


def _before(g: Graph, sequence: Value, values: Value, right: bool, out_int32: bool) -> Value:
    """The count of `not (each >= value)`, or with `right` of `not (each > value)`, so that NaN is inserted last."""
    dtype = g.result_type(sequence, values)
    sequence = _as_searched(g, sequence)
    each, value = g.cast(sequence, dtype), g.cast(values, dtype)
    each = g.unsqueeze(each, list(range(values.rank)) if each.rank == 1 else [each.rank - 1])
    value = g.unsqueeze(value, [values.rank])
    beyond = g.greater(each, value) if right else g.greater_or_equal(each, value)
    before = g.cast(g.op("Not", beyond), torch.int64)
    count = g.reduce("Sum", before, [values.rank], keepdim=False)
    return g.cast(count, g.out.dtype)


def _as_searched(g: Graph, sequence: Value) -> Value:
    """A sequence that ends with NaN, changed so that counting finds what torch's search by halves finds.

    The search goes on to the right of a NaN, as of a lower number. So it ends behind all elements unless it meets a
    number that is not lower before it meets NaN. These are numbers at which it arrives by going to the right only: the
    last of them that is not NaN takes the place of all elements behind it.
    """
    size, axis = sequence.sizes[-1], sequence.rank - 1
    if sequence.has_no_nan or (isinstance(size, int) and size == 0):
        return sequence
    # The first that is met has half of all elements behind it, rounded up, itself among them; the next half of these.
    if isinstance(size, int):
        met = {size - max((size + 1) // 2 >> steps, 1) for steps in range(size.bit_length())}
        candidates = g.const([place if place in met else -1 for place in range(size)], torch.int64)
    else:
        rest = g.op("Div", g.scalar(size + 1, torch.int64), 2)
        rests = g.op("Div", rest, g.const([2**steps for steps in range(48)], torch.int64))
        hits = g.equal(g.op("Sub", g.scalar(size, torch.int64), g.along(size, 0, 2)), rests)
        is_met = g.cast(g.reduce("Sum", g.cast(hits, torch.int64), [1], False), torch.bool)
        candidates = g.where(shaped(is_met, [size]), g.iota(size), g.const(-1))
    last = g.reduce("Max", g.where(g.is_nan(sequence), g.const(-1), candidates), [axis], True)
    # If none of them is a number, -1 stands for the last element, which is NaN.
    places = g.extreme("Min", g.iota(size), last)
    return g.gather_elements(sequence, places, axis)

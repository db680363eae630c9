"""Medians, searchsorted and bucketize, bincount and histc."""

from __future__ import annotations

import math

import onnx_ir as ir
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product, shaped
from onnx_parity.exporter.lowering.values.value import Operand, Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::median", "aten::nanmedian")
def median_of_all(g: Graph, self: Value) -> Value:
    size = product(self.sizes)
    flat = shaped(g.reshape(self, [size]), [size])
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
        missing = shaped(g.is_nan(x), x.sizes)
        absent = shaped(g.reduce("Sum", g.cast(missing, torch.int64), [axis], keepdim=True), one)
        counted = g.op("Sub", g.scalar(size, torch.int64), absent)
        if g.operator == "aten::nanmedian":
            # If all are NaN the median is NaN, the first element.
            last = g.extreme("Max", g.op("Sub", counted, 1), g.const(0, torch.int64))
            middle = shaped(g.op("Div", last, 2), one)
        else:
            # If any is NaN it is the median: the first element after all numbers.
            is_missing = shaped(g.greater(absent, g.const(0, torch.int64)), one)
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
    each, value = g.cast(sequence, dtype), g.cast(values, dtype)
    each = g.unsqueeze(each, list(range(values.rank)) if each.rank == 1 else [each.rank - 1])
    value = g.unsqueeze(value, [values.rank])
    beyond = g.greater(each, value) if right else g.greater_or_equal(each, value)
    before = g.cast(g.op("Not", beyond), torch.int64)
    count = g.reduce("Sum", before, [values.rank], keepdim=False)
    return g.cast(shaped(count, values.sizes), g.out.dtype)


# --- counts -----------------------------------------------------------------------------------------------------------


@lowering("aten::bincount")
def bincount(g: Graph, self: Value, weights: Value | None = None, minlength: Size = 0) -> Value:
    """How often each number up to the largest occurs, or the sum of the weights of its occurrences"""
    x = g.cast(self, torch.int64)
    # Without numbers there are no bins: the largest is -1 then.
    largest = g.reduce("Max", g.op("Concat", x, g.const([-1], torch.int64), axis_i=0), [0], keepdim=True)
    count = g.extreme("Max", g.op("Add", largest, 1), g.ints([minlength]))
    bins = g.iota_below(count)
    hits = g.equal(g.unsqueeze(bins, [1]), g.unsqueeze(x, [0]))
    if weights is None:
        shares = g.cast(hits, g.out.dtype)
    else:
        shares = g.where(hits, g.unsqueeze(g.cast(weights, g.out.dtype), [0]), g.const(0, g.out.dtype))
    return g.reduce("Sum", shares, [1], keepdim=False)


@lowering("aten::histc")
def histc(g: Graph, self: Value, bins: int = 100, min: float = 0, max: float = 0) -> Value:
    """How many elements are in each of `bins` equal intervals from min to max, or over the range of the elements"""
    size = product(self.sizes)
    x = shaped(g.reshape(self, [size]), [size])
    of_integers = not x.dtype.is_floating_point  # As torch does on a GPU only.
    if of_integers:
        x = g.cast(x, torch.int64)
    first, last = (int(min), int(max)) if of_integers else (min, max)
    if _is_interval_of_each_number(self, bins, first, last):
        numbers = torch.arange(int(first), int(first) + bins)[:, None]
        return _counts(g, g.equal(g.const(numbers, x.dtype), g.unsqueeze(x, [0])), self.dtype)
    low, high = g.const(first, x.dtype), g.const(last, x.dtype)
    if min == max:
        low, high = (g.reduce(how, x, [0], keepdim=False) for how in ("Min", "Max"))
    # If all elements are equal, the range is made 2 wide, with them in the middle.
    is_equal = g.cast(g.equal(low, high), x.dtype)
    low, high = g.op("Sub", low, is_equal), g.op("Add", high, is_equal)
    above, width = g.op("Sub", x, low), g.op("Sub", high, low)
    if of_integers:
        position = g.op("Div", g.op("Mul", above, bins), width)
    else:
        position = g.op("Floor", g.op("Mul", g.op("Div", above, width), bins))
    # The last interval has its upper end too.
    bin_index = shaped(g.extreme("Min", position, g.const(bins - 1, x.dtype)), [size])
    inside = g.op("And", g.op("Not", g.less(x, low)), g.op("Not", g.greater(x, high)))
    hits = g.equal(g.const(torch.arange(bins)[:, None], x.dtype), g.unsqueeze(bin_index, [0]))
    return _counts(g, g.op("And", hits, g.unsqueeze(shaped(inside, [size]), [0])), self.dtype)


#: Up to so many intervals, and up to such numbers, float32's rounding changes no interval of a whole number.
_EXACT_BINS, _EXACT_NUMBERS = 1024, 2**20


def _is_interval_of_each_number(x: Value, bins: int, first: object, last: object) -> bool:
    """Whether the elements are whole numbers, and each number from the first to the last has an interval of its own.

    So transformers counts the tokens of each expert: `histc(expert.float(), bins=experts, min=0, max=experts - 1)`.
    """
    if not isinstance(first, (int, float)) or not isinstance(last, (int, float)):
        return False  # They depend on sizes or values.
    fits = last - first == bins - 1 and float(first).is_integer() and abs(first) <= _EXACT_NUMBERS
    return fits and 1 < bins <= _EXACT_BINS and _is_whole(x)


def _is_whole(x: Value) -> bool:
    """Whether all elements are known to be whole numbers: integers, or float32 that was cast from integers."""
    if not x.dtype.is_floating_point:
        return True
    cast = x.ir.producer()
    if cast is None or cast.domain or cast.op_type != "Cast" or cast.inputs[0] is None:
        return False
    return x.dtype is torch.float32 and cast.inputs[0].dtype in (ir.DataType.INT32, ir.DataType.INT64)


def _counts(g: Graph, hits: Value, dtype: torch.dtype) -> Value:
    """How many elements hit each interval, from a row of flags for each."""
    counted = dtype if dtype.is_floating_point else torch.int64
    return g.cast(g.reduce("Sum", g.cast(hits, counted), [1], keepdim=False), dtype)

"""Counts of numbers: bincount and histc."""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


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
    x = g.reshape(self, [size])
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
    above, width = (_rounded(g, g.op("Sub", *each), x.dtype) for each in ((x, low), (high, low)))
    # In this order, and rounded each time: that decides in which interval an element at a bound is.
    scaled = _rounded(g, g.op("Mul", above, bins), x.dtype)
    position = _rounded(g, g.op("Div", scaled, width), x.dtype)
    if not of_integers:
        position = g.op("Floor", position)
    # The last interval has its upper end too.
    bin_index = g.extreme("Min", position, g.const(bins - 1, position.dtype))
    inside = g.op("And", g.op("Not", g.less(x, low)), g.op("Not", g.greater(x, high)))
    hits = g.equal(g.const(torch.arange(bins)[:, None], position.dtype), g.unsqueeze(bin_index, [0]))
    return _counts(g, g.op("And", hits, g.unsqueeze(inside, [0])), self.dtype)


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


def _rounded(g: Graph, number: Value, dtype: torch.dtype) -> Value:
    """A number that is rounded to bfloat16, in float32: the next operator would take it as it was computed.

    In float16, onnxruntime leaves out such casts.
    """
    return g.cast(g.cast(number, dtype), torch.float32) if dtype is torch.bfloat16 else number


def _counts(g: Graph, hits: Value, dtype: torch.dtype) -> Value:
    """How many elements hit each interval, from a row of flags for each."""
    counted = dtype if dtype.is_floating_point else torch.int64
    return g.cast(g.reduce("Sum", g.cast(hits, counted), [1], keepdim=False), dtype)

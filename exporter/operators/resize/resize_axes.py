"""Axes that are resized, and which elements of the input those of the output are computed from."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["Axis", "Source", "covering_weights", "gathered", "known_weights", "mixed", "resized", "weighted_sum"]


class Axis(msgspec.Struct, frozen=True):
    """One spatial axis: its number, its sizes before and after, and the factor that the user gave."""

    number: int
    before: Size
    after: Size
    factor: float | None
    #: The ratios of the sizes at which torch takes these, whatever the factor: at 1, it leaves the axis as it is.
    whole_ratios: tuple[int, ...]

    def may_have(self, ratio: int) -> bool:
        """Whether some sizes have this ratio, although the factor is another: 1.3 * 3 is 3, rounded down.

        An axis of one element does not count, of which every element of the result is one.
        """
        if self.factor is None or self.factor == ratio:
            return False
        if isinstance(self.before, int) and isinstance(self.after, int):
            return self.after == ratio * self.before
        return ratio < self.factor < ratio + 0.5

    @property
    def whole_factor(self) -> int | None:
        """The factor, if it is an integer."""
        if isinstance(self.before, int) and isinstance(self.after, int):
            if not self.before or self.after % self.before:
                return None
            times = self.after // self.before
            return times if self.factor in (None, times) else None
        return int(self.factor) if self.factor is not None and self.factor.is_integer() else None

    @property
    def keeps_ratio(self) -> bool:
        """Whether the factor is the ratio of the sizes."""
        if self.factor is None:
            return True
        known = isinstance(self.before, int) and isinstance(self.after, int)
        return known and self.before * self.factor == self.after

    @property
    def holds_in_float32(self) -> bool:
        """Whether the factor rounded to float32 gives the same size, in every precision of the multiplication."""
        if self.factor is None:
            return False
        if isinstance(self.before, int):
            narrow = torch.tensor(self.factor, dtype=torch.float32)
            return int(narrow * self.before) == int(narrow.double() * self.before) == self.after
        return self.factor.as_integer_ratio()[1] <= 2**8


def resized(x: Value, axis: Axis) -> tuple[Size, ...]:
    return (*x.sizes[: axis.number], axis.after, *x.sizes[axis.number + 1 :])


def gathered(g: Graph, x: Value, axis: Axis, indices: Value) -> Value:
    return shaped(g.op("Gather", x, indices, axis_i=axis.number), resized(x, axis))


def mixed(g: Graph, x: Value, axis: Axis, weights: torch.Tensor | Value) -> Value:
    """A product along an axis with a matrix (size before, size after) of weights."""
    matrix = g.cast(weights, x.dtype) if isinstance(weights, Value) else g.const(weights.to(x.dtype))
    swap = list(range(x.rank))
    swap[axis.number], swap[-1] = swap[-1], swap[axis.number]
    return shaped(g.transpose(g.matmul(g.transpose(x, swap), matrix), swap), resized(x, axis))


def known_weights(axis: Axis, mode: str, corners: bool, antialias: bool) -> torch.Tensor:
    """A matrix (size before, size after) of weights: torch's own resizing of the unit vectors."""
    before, after = axis.before, axis.after
    units = torch.eye(int(before), dtype=torch.float64).reshape(int(before), 1, 1, int(before))
    aten = torch.ops.aten
    kernels = {
        ("linear", False): aten.upsample_bilinear2d,
        ("linear", True): aten._upsample_bilinear2d_aa,
        ("cubic", False): aten.upsample_bicubic2d,
        ("cubic", True): aten._upsample_bicubic2d_aa,
    }
    weights: torch.Tensor = kernels[mode, antialias](units, [1, after], corners, None, axis.factor)
    return weights.reshape(int(before), int(after))


def covering_weights(g: Graph, source: Source, mode: str, corners: bool) -> Value:
    """A matrix (size before, size after) of the weights of an antialiased resizing, in float64.

    An element of the output covers those of the input that are near its centre, farther ones the more it shrinks.
    """
    before, after = source.axis.before, source.axis.after
    zero, one = (g.const(number, torch.float64) for number in (0, 1))
    ratio = source.ratio(corners)
    stretch = g.extreme("Max", ratio, one)
    centre = g.op("Mul", ratio, g.op("Add", g.cast(g.along(after, 1, 2), torch.float64), 0.5))
    reach = g.op("Mul", stretch, 1.0 if mode == "linear" else 2.0)
    place = g.cast(g.along(before, 0, 2), torch.float64)
    first = g.op("Floor", g.op("Add", g.op("Sub", centre, reach), 0.5))
    behind = g.op("Floor", g.op("Add", g.op("Add", centre, reach), 0.5))
    whole = (before, after)
    covers = shaped(g.op("And", g.op("Not", g.less(place, first)), g.less(place, behind)), whole)
    distance = g.op("Abs", g.op("Div", g.op("Add", g.op("Sub", place, centre), 0.5), stretch))
    distance = shaped(distance, whole)
    if mode == "linear":
        weight = g.extreme("Max", g.op("Sub", one, distance), zero)
    else:
        is_near, is_inside = (g.less(distance, g.const(end, torch.float64)) for end in (1, 2))
        far = g.where(is_inside, source.far(distance, -0.5), zero)
        weight = g.where(is_near, source.near(distance, -0.5), far)
    weight = g.where(covers, weight, zero)
    return g.op("Div", weight, g.reduce("Sum", weight, [0], True))


def weighted_sum(g: Graph, x: Value, axis: Axis, taps: Sequence[tuple[Value, Value]]) -> Value:
    """The sum of elements times weights."""
    behind = list(range(1, x.rank - axis.number))
    parts = [g.op("Mul", gathered(g, x, axis, index), g.unsqueeze(weight, behind)) for index, weight in taps]
    total = parts[0]
    for part in parts[1:]:
        total = g.op("Add", total, part)
    return shaped(total, resized(x, axis))


class Source:
    """The input indices of the elements along an output axis, and their weights, computed as in torch.

    They are computed at run time where sizes are dynamic.
    """

    def __init__(self, g: Graph, axis: Axis, dtype: torch.dtype) -> None:
        self.g = g
        self.axis = axis
        #: torch computes the indices for halves in float32 too.
        self.dtype = torch.float64 if dtype is torch.float64 else torch.float32
        self.result = dtype

    def nearest(self, shift: float, is_long: bool) -> Value:
        """The indices, for an axis that may have 2**23 elements or more. On a shorter one float32 has all numbers, and
        no product reaches the size."""
        g = self.g
        # In float32 for every dtype, as in torch.
        self.dtype = torch.float32
        after = self.axis.after
        places = g.cast(g.iota(after), self.dtype) if is_long else g.iota(after, self.dtype)
        index = g.cast(g.op("Mul", self._shifted(places, shift), self.ratio(False)), torch.int64)
        return self._inside(index) if is_long else index

    def linear(self, corners: bool) -> list[tuple[Value, Value]]:
        g = self.g
        source = self._source(corners)
        if not corners:
            source = g.op("Relu", source)
        first = g.op("Floor", source)
        weight = g.op("Sub", source, first)
        index = self._inside(g.cast(first, torch.int64))
        # An infinite neighbour times a weight of 0 is NaN: where an axis is copied, each element is its own neighbour.
        step = self._unless(1, g.const(1, torch.int64), 0)
        return [
            (index, g.cast(g.op("Sub", 1, weight), self.result)),
            (self._inside(g.op("Add", index, step)), g.cast(weight, self.result)),
        ]

    def cubic(self, corners: bool) -> list[tuple[Value, Value]]:
        """Cubic convolution with a = -3/4: the two elements on either side, and their weights."""
        g = self.g
        source = self._source(corners)
        first = g.op("Floor", source)
        after = g.op("Sub", source, first)
        index = g.cast(first, torch.int64)
        distances = [g.op("Add", after, 1), after, g.op("Sub", 1, after), g.op("Sub", 2, after)]
        weights = [self.far(distances[0]), self.near(distances[1]), self.near(distances[2]), self.far(distances[3])]
        return [
            (self._inside(g.op("Add", index, offset), lower=True), g.cast(weight, self.result))
            for offset, weight in zip((-1, 0, 1, 2), weights, strict=True)
        ]

    def near(self, x: Value, a: float = -0.75) -> Value:
        """(a + 2) x^3 - (a + 3) x^2 + 1"""
        g = self.g
        return g.op("Add", g.op("Mul", g.op("Mul", g.op("Sub", g.op("Mul", x, a + 2), a + 3), x), x), 1)

    def far(self, x: Value, a: float = -0.75) -> Value:
        """a x^3 - 5 a x^2 + 8 a x - 4 a"""
        g = self.g
        inner = g.op("Add", g.op("Mul", g.op("Sub", g.op("Mul", x, a), 5 * a), x), 8 * a)
        return g.op("Sub", g.op("Mul", inner, x), 4 * a)

    def _source(self, corners: bool) -> Value:
        g = self.g
        number = g.cast(g.iota(self.axis.after), self.dtype)
        if corners:
            return g.op("Mul", number, self.ratio(True))
        return g.op("Sub", g.op("Mul", self._shifted(number, 0.5), self.ratio(False)), 0.5)

    def _shifted(self, number: Value, shift: float) -> Value:
        return self.g.op("Add", number, shift) if shift else number

    def ratio(self, corners: bool) -> Value:
        """The distance in the input of adjacent output elements."""
        g = self.g
        before, after, factor = self.axis.before, self.axis.after, self.axis.factor
        if corners:
            if isinstance(after, int) and after == 1:
                return g.const(0.0, self.dtype)
            if not isinstance(after, int):
                # As in torch, the ratio is 0 at an output size of 1.
                steps, one = g.op("Sub", self._number(after), 1), g.const(1, self.dtype)
                ratio = g.op("Div", g.op("Sub", self._number(before), 1), g.op("Max", steps, one))
                return g.op("Mul", ratio, g.op("Min", steps, one))
            return g.op("Div", g.op("Sub", self._number(before), 1), float(after - 1))
        if factor is not None:
            ratio = g.const(1.0 / factor, self.dtype)
            for whole in self.axis.whole_ratios:
                ratio = self._unless(whole, ratio, 1 / whole)
            return ratio
        return g.op("Div", self._number(before), self._number(after))

    def _unless(self, ratio: int, number: Value, instead: float) -> Value:
        """A number, and another one where the sizes have a ratio that torch takes whatever the factor."""
        g = self.g
        if ratio not in self.axis.whole_ratios or not self.axis.may_have(ratio):
            return number
        before, after = (g.scalar(size, torch.int64) for size in (self.axis.before, self.axis.after))
        has_ratio = g.equal(g.op("Mul", before, ratio) if ratio != 1 else before, after)
        return g.where(has_ratio, g.const(instead, number.dtype), number)

    def _number(self, size: Size) -> Value:
        return self.g.cast(self.g.ints([size]), self.dtype)

    def _inside(self, index: Value, lower: bool = False) -> Value:
        """Indices limited to the last element, and to the first where they can be negative."""
        g = self.g
        if lower:
            index = g.extreme("Max", index, g.const(0, torch.int64))
        return g.extreme("Min", index, g.op("Sub", g.scalar(self.axis.before, torch.int64), 1))

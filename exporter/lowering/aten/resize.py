"""Upsampling: nearest, linear and cubic interpolation over one to three spatial axes, with and without antialiasing.

ONNX's Resize is used where it is certain to select the same elements as torch. Elsewhere (before opset 11, for dtypes
that it does not take, for factors whose rounding may differ) each axis in turn is interpolated with Gather, from
indices that are computed as in torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.registry import lowering
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Number, Value


@dataclass(frozen=True, slots=True)
class _Axis:
    """One spatial axis: its number, its sizes before and after, and the factor that the user gave."""

    number: int
    before: Size
    after: Size
    factor: float | None

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


def _axes(g: Graph, x: Value, scales: Sequence[float | None]) -> list[_Axis]:
    first = x.rank - len(scales)
    return [
        _Axis(first + number, x.sizes[first + number], g.out.shape[first + number], factor)
        for number, factor in enumerate(scales)
    ]


@lowering(
    "aten::upsample_nearest1d", "aten::upsample_nearest2d", "aten::upsample_nearest3d",
    "aten::_upsample_nearest_exact1d", "aten::_upsample_nearest_exact2d", "aten::_upsample_nearest_exact3d",
)  # fmt: skip
def upsample_nearest(
    g: Graph, self: Value, output_size: list[Size], scales: float | None = None, scales_d: float | None = None,
    scales_h: float | None = None, scales_w: float | None = None,
) -> Value:  # fmt: skip
    """Element floor(i / factor), or floor((i + 1/2) / factor) in the exact variant"""
    axes = _axes(g, self, _given(len(output_size), scales, scales_d, scales_h, scales_w))
    factors = [axis.whole_factor for axis in axes]
    if None not in factors and g.can_repeat(self.dtype):
        return g.repeated(self, [1] * (self.rank - len(axes)) + [int(factor or 1) for factor in factors])
    x = self
    shift = 0.5 if "exact" in g.operator else 0.0
    for axis in axes:
        if axis.whole_factor != 1:
            x = _gathered(g, x, axis, _Source(g, axis, x.dtype).nearest(shift))
    return x


@lowering("aten::upsample_linear1d", "aten::upsample_bilinear2d", "aten::upsample_trilinear3d")
def upsample_linear(
    g: Graph, self: Value, output_size: list[Size], align_corners: bool, scales: float | None = None,
    scales_d: float | None = None, scales_h: float | None = None, scales_w: float | None = None,
) -> Value:  # fmt: skip
    given = _given(len(output_size), scales, scales_d, scales_h, scales_w)
    return _interpolated(g, self, _axes(g, self, given), "linear", align_corners)


@lowering("aten::upsample_bicubic2d")
def upsample_bicubic2d(
    g: Graph, self: Value, output_size: list[Size], align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:  # fmt: skip
    return _interpolated(g, self, _axes(g, self, [scales_h, scales_w]), "cubic", align_corners)


@lowering("aten::_upsample_bilinear2d_aa", "aten::_upsample_bicubic2d_aa")
def upsample_antialiased(
    g: Graph, self: Value, output_size: list[Size], align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:  # fmt: skip
    """A weighted mean of the elements that an output element covers; onnxruntime's antialias has other weights"""
    mode = "bilinear" if "bilinear" in g.operator else "bicubic"
    x = self
    for axis in _axes(g, self, [scales_h, scales_w]):
        if not (isinstance(axis.before, int) and isinstance(axis.after, int)):
            g.unsupported("antialiased resizing of a dynamic axis is not supported: remove it from dynamic_axes")
        if not self.dtype.is_floating_point:
            g.unsupported(
                f"antialiased resizing of {self.dtype} is not supported: convert to torch.float32 before it, and back "
                "after"
            )
        x = _mixed(g, x, axis.number, _antialiasing(axis.before, axis.after, axis.factor, mode, align_corners))
    return x


def _given(axes: int, *scales: float | None) -> list[float | None]:
    """The factors of the axes: for one axis the argument `scales`, else scales_d, scales_h and scales_w."""
    return [scales[0]] if axes == 1 else list(scales[-axes:])


def _interpolated(g: Graph, x: Value, axes: list[_Axis], mode: str, corners: bool) -> Value:
    if not x.dtype.is_floating_point:
        g.unsupported(
            f"{mode} interpolation of {x.dtype} is not supported: convert to torch.float32 before it, and back after"
        )
    if g.can_interpolate(x.dtype):
        outer = x.rank - len(axes)
        if corners or all(axis.keeps_ratio for axis in axes):
            return g.interpolated(x, mode, corners, g.out.shape, None)
        if all(axis.holds_in_float32 for axis in axes):
            return g.interpolated(x, mode, corners, g.out.shape, [1.0] * outer + [axis.factor or 1.0 for axis in axes])
    for axis in axes:
        source = _Source(g, axis, x.dtype)
        taps = source.linear(corners) if mode == "linear" else source.cubic(corners)
        parts = []
        for index, weight in taps:
            behind = list(range(1, x.rank - axis.number))
            parts.append(g.op("Mul", _gathered(g, x, axis, index), g.unsqueeze(weight, behind)))
        total = parts[0]
        for part in parts[1:]:
            total = g.op("Add", total, part)
        x = shaped(total, _resized(x, axis))
    return x


def _resized(x: Value, axis: _Axis) -> tuple[Size, ...]:
    return (*x.sizes[: axis.number], axis.after, *x.sizes[axis.number + 1 :])


def _gathered(g: Graph, x: Value, axis: _Axis, indices: Value) -> Value:
    return shaped(g.op("Gather", x, indices, axis_i=axis.number), _resized(x, axis))


def _mixed(g: Graph, x: Value, axis: int, weights: torch.Tensor) -> Value:
    """A product along an axis with a matrix (size before, size after) of weights."""
    swap = list(range(x.rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    mixed = g.matmul(g.transpose(x, swap), g.const(weights.to(x.dtype)))
    return shaped(g.transpose(mixed, swap), (*x.sizes[:axis], weights.shape[1], *x.sizes[axis + 1 :]))


def _antialiasing(before: int, after: int, factor: float | None, mode: str, corners: bool) -> torch.Tensor:
    """The weights along one axis: torch's own resizing of the unit vectors."""
    units = torch.eye(before, dtype=torch.float64).reshape(before, 1, 1, before)
    kernel = torch.ops.aten._upsample_bilinear2d_aa if mode == "bilinear" else torch.ops.aten._upsample_bicubic2d_aa
    weights: torch.Tensor = kernel(units, [1, after], corners, None, factor)
    return weights.reshape(before, after)


class _Source:
    """The input indices of the elements along an output axis, and their weights, computed as in torch.

    They are computed at run time where sizes are dynamic.
    """

    def __init__(self, g: Graph, axis: _Axis, dtype: torch.dtype) -> None:
        self.g = g
        self.axis = axis
        #: torch computes the indices for halves in float32 too.
        self.dtype = torch.float64 if dtype is torch.float64 else torch.float32
        self.result = dtype

    def nearest(self, shift: float) -> Value:
        g = self.g
        # In float32 for every dtype, as in torch.
        self.dtype = torch.float32
        source = g.op("Mul", self._shifted(g.cast(g.iota(self.axis.after), self.dtype), shift), self._ratio(False))
        return self._inside(g.cast(g.op("Floor", source), torch.int64))

    def linear(self, corners: bool) -> list[tuple[Value, Value]]:
        g = self.g
        source = self._source(corners)
        if not corners:
            source = g.op("Relu", source)
        first = g.op("Floor", source)
        weight = g.op("Sub", source, first)
        index = self._inside(g.cast(first, torch.int64))
        return [
            (index, g.cast(g.op("Sub", 1, weight), self.result)),
            (self._inside(g.op("Add", index, 1)), g.cast(weight, self.result)),
        ]

    def cubic(self, corners: bool) -> list[tuple[Value, Value]]:
        """Cubic convolution with a = -3/4: the two elements on either side, and their weights."""
        g = self.g
        source = self._source(corners)
        first = g.op("Floor", source)
        after = g.op("Sub", source, first)
        index = g.cast(first, torch.int64)
        distances = [g.op("Add", after, 1), after, g.op("Sub", 1, after), g.op("Sub", 2, after)]
        weights = [self._far(distances[0]), self._near(distances[1]), self._near(distances[2]), self._far(distances[3])]
        return [
            (self._inside(g.op("Add", index, offset), lower=True), g.cast(weight, self.result))
            for offset, weight in zip((-1, 0, 1, 2), weights, strict=True)
        ]

    def _near(self, x: Value) -> Value:
        """(a + 2) x^3 - (a + 3) x^2 + 1"""
        g = self.g
        return g.op("Add", g.op("Mul", g.op("Mul", g.op("Sub", g.op("Mul", x, 1.25), 2.25), x), x), 1)

    def _far(self, x: Value) -> Value:
        """a x^3 - 5 a x^2 + 8 a x - 4 a"""
        g = self.g
        inner = g.op("Sub", g.op("Mul", g.op("Add", g.op("Mul", x, -0.75), 3.75), x), 6)
        return g.op("Add", g.op("Mul", inner, x), 3)

    def _source(self, corners: bool) -> Value:
        g = self.g
        number = g.cast(g.iota(self.axis.after), self.dtype)
        if corners:
            return g.op("Mul", number, self._ratio(True))
        return g.op("Sub", g.op("Mul", self._shifted(number, 0.5), self._ratio(False)), 0.5)

    def _shifted(self, number: Value, shift: float) -> Value:
        return self.g.op("Add", number, shift) if shift else number

    def _ratio(self, corners: bool) -> Value:
        """The distance in the input of adjacent output elements."""
        g = self.g
        before, after, factor = self.axis.before, self.axis.after, self.axis.factor
        if corners:
            if isinstance(after, int) and after == 1:
                return g.const(0.0, self.dtype)
            if not isinstance(after, int):
                # At an output size of 1 the only index is 0, whatever the ratio.
                steps = g.op("Max", g.op("Sub", self._number(after), 1), g.const(1, self.dtype))
                return g.op("Div", g.op("Sub", self._number(before), 1), steps)
            return g.op("Div", g.op("Sub", self._number(before), 1), float(after - 1))
        if factor is not None:
            return g.const(1.0 / factor, self.dtype)
        return g.op("Div", self._number(before), self._number(after))

    def _number(self, size: Number) -> Value:
        return self.g.scalar(size, self.dtype)

    def _inside(self, index: Value, lower: bool = False) -> Value:
        """Indices limited to the last element, and to the first where they can be negative."""
        g = self.g
        if lower:
            index = g.extreme("Max", index, g.const(0, torch.int64))
        return g.extreme("Min", index, g.op("Sub", g.scalar(self.axis.before, torch.int64), 1))

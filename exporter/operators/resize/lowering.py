"""Upsampling: nearest, linear and cubic interpolation over one to three spatial axes, with and without antialiasing.

ONNX's Resize is used where it is certain to select the same elements as torch. Elsewhere (before opset 11, for dtypes
that it does not take, for factors whose rounding may differ) each axis in turn is interpolated with Gather, from
indices that are computed as in torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from msgspec.structs import replace

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.resize.resize_axes import (
    Axis,
    Source,
    covering_weights,
    gathered,
    known_weights,
    mixed,
    weighted_sum,
)
from onnx_parity.exporter.operators.resize.resize_bytes import interpolated_bytes
from onnx_parity.exporter.registry.lowerings import lowering


def _axes(g: Graph, x: Value, scales: Sequence[float | None], *, whole_ratios: tuple[int, ...] = (1,)) -> list[Axis]:
    """The axes, with the factor that torch takes where the sizes have such a ratio: 1 where it copies an axis."""
    axes = []
    for number, factor in enumerate(scales, x.rank - len(scales)):
        axis = Axis(number, x.sizes[number], g.out.shape[number], factor, whole_ratios)
        known = [ratio for ratio in whole_ratios if isinstance(axis.before, int) and axis.may_have(ratio)]
        axes.append(replace(axis, factor=float(known[0])) if known else axis)
    return axes


@lowering(
    "aten::upsample_nearest1d", "aten::upsample_nearest2d", "aten::upsample_nearest3d",
    "aten::_upsample_nearest_exact1d", "aten::_upsample_nearest_exact2d", "aten::_upsample_nearest_exact3d",
)  # fmt: skip
def upsample_nearest(
    g: Graph, self: Value, output_size: list[Size], scales: float | None = None, scales_d: float | None = None,
    scales_h: float | None = None, scales_w: float | None = None,
) -> Value:  # fmt: skip
    """Element floor(i / factor), or floor((i + 1/2) / factor) in the exact variant"""
    given = _given(len(output_size), scales, scales_d, scales_h, scales_w)
    # In two dimensions, torch shifts the index by one bit where a size doubles.
    axes = _axes(g, self, given, whole_ratios=(1, 2) if g.operator == "aten::upsample_nearest2d" else ())
    factors = [axis.whole_factor for axis in axes]
    if all(factor == 1 for factor in factors):
        return self
    if None not in factors and g.can_repeat(self.dtype):
        return g.repeated(self, [1] * (self.rank - len(axes)) + [int(factor or 1) for factor in factors])
    x = self
    shift = 0.5 if "exact" in g.operator else 0.0
    for axis in axes:
        if axis.whole_factor != 1:
            # A sound may be as long as that; an image or a volume is not.
            x = gathered(g, x, axis, Source(g, axis, x.dtype).nearest(shift, is_long=len(axes) == 1))
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
    # Of bytes, torch copies an axis whose size stays the same; floats it resamples.
    axes = _axes(g, self, [scales_h, scales_w], whole_ratios=() if self.dtype.is_floating_point else (1,))
    return _interpolated(g, self, axes, "cubic", align_corners)


@lowering("aten::_upsample_bilinear2d_aa", "aten::_upsample_bicubic2d_aa")
def upsample_antialiased(
    g: Graph, self: Value, output_size: list[Size], align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:  # fmt: skip
    """A weighted mean of the elements that an output element covers; onnxruntime's antialias has other weights"""
    mode = "linear" if "bilinear" in g.operator else "cubic"
    x = self
    axes = _axes(g, self, [scales_h, scales_w])
    if not self.dtype.is_floating_point:
        return interpolated_bytes(g, x, axes, mode, align_corners, True)
    for axis in axes:
        known = isinstance(axis.before, int) and isinstance(axis.after, int)
        weights = (
            known_weights(axis, mode, align_corners, True)
            if known
            else covering_weights(g, Source(g, axis, torch.float64), mode, align_corners)
        )
        x = mixed(g, x, axis, weights)
    return x


def _given(axes: int, *scales: float | None) -> list[float | None]:
    """The factors of the axes: for one axis the argument `scales`, else scales_d, scales_h and scales_w."""
    return [scales[0]] if axes == 1 else list(scales[-axes:])


def _interpolated(g: Graph, x: Value, axes: list[Axis], mode: str, corners: bool) -> Value:
    if all(axis.whole_factor == 1 for axis in axes):
        return x
    if not x.dtype.is_floating_point:
        return interpolated_bytes(g, x, axes, mode, corners, False)
    if g.can_interpolate(x.dtype):
        outer = x.rank - len(axes)
        if corners or all(axis.keeps_ratio for axis in axes):
            return g.interpolated(x, mode, corners, g.out.shape, None)
        # onnxruntime copies if all sizes stay the same, and no single axis.
        if all(axis.holds_in_float32 for axis in axes) and not any(axis.may_have(1) for axis in axes):
            return g.interpolated(x, mode, corners, g.out.shape, [1.0] * outer + [axis.factor or 1.0 for axis in axes])
    for axis in axes:
        if 1 in axis.whole_ratios and axis.whole_factor == 1:
            continue
        source = Source(g, axis, x.dtype)
        taps = source.linear(corners) if mode == "linear" else source.cubic(corners)
        x = weighted_sum(g, x, axis, taps)
    return x

"""What is recorded for arithmetic: writes in place, and differences between neighbours where sizes are dynamic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.registry.in_place import DYNAMIC, copy_back
from onnx_parity.exporter.registry.recorded import any_size_is_dynamic, instead_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

_aten = torch.ops.aten

copy_back(
    "addcdiv_", "addcmul_", "atan2_", "bitwise_and_.Tensor", "bitwise_left_shift_.Tensor", "bitwise_or_.Tensor",
    "bitwise_right_shift_.Tensor", "bitwise_xor_.Tensor", "copysign_", "div_.Tensor_mode", "div_.Scalar_mode",
    "floor_divide_", "fmod_", "gcd_", "hypot_", "lcm_", "lerp_", "nextafter_", "remainder_", to=DYNAMIC,
)  # fmt: skip


@instead_of(
    "aten::__ilshift__.Tensor", "aten::__irshift__.Tensor", where=DYNAMIC.include, why=DYNAMIC.why, gives_operator=True
)
def shift_in_place(op: OpOverload, self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    is_left = op is _aten.__ilshift__.Tensor
    return self.copy_((torch.bitwise_left_shift if is_left else torch.bitwise_right_shift)(self, other))


_ASKS_FOR_SIZES = "torch's own asks for a size whether it is 0 or 1, or less than the order of the differences"


@instead_of("aten::diff", where=any_size_is_dynamic, why=_ASKS_FOR_SIZES)
def diff(
    self: torch.Tensor, n: int = 1, dim: int = -1, prepend: torch.Tensor | None = None,
    append: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    parts = [each for each in (prepend, self, append) if each is not None]
    x = self if len(parts) == 1 else torch.cat(parts, dim)
    for _ in range(n):
        before, after = _neighbours(x, dim)
        x = after.logical_xor(before) if x.dtype is torch.bool else after - before
    return x


@instead_of("aten::trapezoid.dx", "aten::trapz.dx", where=any_size_is_dynamic, why=_ASKS_FOR_SIZES)
def trapezoid(y: torch.Tensor, *, dx: float = 1, dim: int = -1) -> torch.Tensor:
    before, after = _neighbours(y, dim)
    return (before + after).sum(dim) * (dx / 2)


@instead_of("aten::trapezoid.x", "aten::trapz.x", where=any_size_is_dynamic, why=_ASKS_FOR_SIZES)
def trapezoid_at(y: torch.Tensor, x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    before, after = _neighbours(x, dim if x.ndim > 1 else 0)
    width = after - before
    if x.ndim == 1:
        width = width.reshape(-1, *[1] * (-1 - dim if dim < 0 else y.ndim - 1 - dim))
    before, after = _neighbours(y, dim)
    return ((before + after) * width).sum(dim) / 2


def _neighbours(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All elements along an axis that have a next one, and these next ones."""
    return _aten.slice.Tensor(x, dim, 0, -1), _aten.slice.Tensor(x, dim, 1)


@instead_of(
    "aten::gradient.scalarint",
    "aten::gradient.scalararray",
    "aten::gradient.array",
    where=any_size_is_dynamic,
    why="torch's own reads sizes as plain ints",
)
def gradient(
    self: torch.Tensor, *, spacing: float | None = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> list[torch.Tensor]:
    axes = _axes(self, dim)
    return _gradients(self, [1.0 if spacing is None else spacing] * len(axes), axes, edge_order)


@instead_of(
    "aten::gradient.scalarrayint",
    "aten::gradient.scalarrayarray",
    "aten::gradient.tensorarrayint",
    "aten::gradient.tensorarray",
    where=any_size_is_dynamic,
    why="torch's own reads sizes as plain ints",
)
def gradient_with_spacings(
    self: torch.Tensor, *, spacing: Sequence[Any], dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> list[torch.Tensor]:
    axes = _axes(self, dim)
    return _gradients(self, spacing if len(spacing) == len(axes) else list(spacing) * len(axes), axes, edge_order)


def _axes(x: torch.Tensor, dim: int | Sequence[int] | None) -> list[int]:
    return list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)


def _gradients(x: torch.Tensor, spacings: Sequence[Any], axes: Sequence[int], edge_order: int) -> list[torch.Tensor]:
    if not all(isinstance(each, torch.Tensor) for each in spacings):
        return [_even_gradient(x, step, axis, edge_order) for axis, step in zip(axes, spacings, strict=True)]
    return [_uneven_gradient(x, places, axis, edge_order) for axis, places in zip(axes, spacings, strict=True)]


def _even_gradient(x: torch.Tensor, step: float, axis: int, edge_order: int) -> torch.Tensor:
    first, second, last, before = (x.narrow(axis, place, 1) for place in (0, 1, -1, -2))
    if edge_order == 1:
        start, end = (second - first) / step, (last - before) / step
    else:
        third, earlier = x.narrow(axis, 2, 1), x.narrow(axis, -3, 1)
        start = (second * 4 - first * 3 - third) / (2 * step)
        end = (last * 3 - before * 4 + earlier) / (2 * step)
    inner = (_aten.slice(x, axis, 2) - _aten.slice(x, axis, 0, -2)) / (2 * step)
    return torch.cat([start, inner, end], axis)


def _uneven_gradient(x: torch.Tensor, places: torch.Tensor, axis: int, edge_order: int) -> torch.Tensor:
    steps = places[1:] - places[:-1]
    shape = [1] * x.ndim
    shape[axis] = -1
    before, after = steps[:-1].reshape(shape), steps[1:].reshape(shape)
    ends = []
    for near, far, a, b in ((0, 1, steps[0], steps[1:2].sum()), (-1, -2, steps[-1], steps[-2:-1].sum())):
        first, second = (x.narrow(axis, place, 1) for place in (near, far))
        slope = (second - first) / a if near == 0 else (first - second) / a
        if edge_order != 1:
            third = x.narrow(axis, 2 if near == 0 else -3, 1)
            weights = -(2 * a + b) / (a * (a + b)), (a + b) / (a * b), -a / (b * (a + b))
            slope = weights[0] * first + weights[1] * second + weights[2] * third
            slope = slope if near == 0 else -slope
        ends.append(slope)
    inner = (
        -after / (before * (before + after)) * _aten.slice(x, axis, 0, -2)
        + (after - before) / (before * after) * _aten.slice(x, axis, 1, -1)
        + before / (after * (before + after)) * _aten.slice(x, axis, 2)
    )
    return torch.cat([ends[0], inner, ends[1]], axis)

"""Images at the points of a grid, by an expression that autograd differentiates: a sum over pixels."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size

__all__ = ["sample_by_pixels"]

#: The parameter of the cubic convolution, as in torch.
_CUBIC_A = -0.75


def sample_by_pixels(
    input: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool
) -> torch.Tensor:
    """A sum over pixels, times their weights along each axis."""
    batch, channels, *sizes = input.shape
    taps = []
    # The grid has the coordinate of the last axis first. Derivatives of unbind() are joined, and keep the sign of 0.
    for coordinate, size in zip(reversed(grid.flatten(1, -2).unbind(-1)), sizes, strict=True):
        x = (coordinate + 1) * ((size - 1 if align_corners else size) * 0.5)
        taps.append(_taps(x if align_corners else x - 0.5, size, _Sampling(len(sizes), mode, padding, align_corners)))
    pixels = input.flatten(2)
    total: Any = 0
    for chosen in itertools.product(*taps):
        place, weight, inside = torch.zeros_like(chosen[0][0], dtype=torch.int64), None, None
        for (at, share), size in zip(chosen, sizes, strict=True):
            here = (at >= 0) & (at <= size - 1)
            place = place * size + torch.where(here, at, 0).to(torch.int64)
            inside = here if inside is None else inside & here
            weight = share if weight is None else weight * share
        read = pixels.gather(2, place.unsqueeze(1).expand(-1, channels, -1))
        total = total + torch.where(inside.unsqueeze(1), read * weight.unsqueeze(1), 0)  # type: ignore[union-attr]
    result: torch.Tensor = total.reshape(batch, channels, *grid.shape[1:-1])
    return result


class _Sampling(msgspec.Struct, frozen=True):
    """How an image is interpolated and continued, by torch's numbers."""

    rank: int
    mode: int
    padding: int
    align_corners: bool


def _taps(x: torch.Tensor, size: Size, how: _Sampling) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The pixels along an axis that a coordinate is interpolated from, and their weights."""
    one = torch.ones_like(x)
    if how.mode == 1:
        # The result depends on the grid, by which its derivative is 0.
        return [(_on_image(x, size, how).detach().round(), torch.where(torch.zeros_like(x, dtype=torch.bool), x, one))]
    if how.mode == 0:
        x = _on_image(x, size, how)
        low = x.detach().floor()
        return [(low, low + 1 - x), (low + 1, x - low)]
    low = x.detach().floor()
    part = x - low
    weights = (_far(part + 1), _near(part), _near(1 - part), _far(2 - part))
    return [(_on_image(low + step, size, how), weight) for step, weight in zip((-1, 0, 1, 2), weights, strict=True)]


def _near(x: torch.Tensor) -> torch.Tensor:
    return ((_CUBIC_A + 2) * x - (_CUBIC_A + 3)) * x * x + 1


def _far(x: torch.Tensor) -> torch.Tensor:
    return ((_CUBIC_A * x - 5 * _CUBIC_A) * x + 8 * _CUBIC_A) * x - 4 * _CUBIC_A


def _on_image(x: torch.Tensor, size: Size, how: _Sampling) -> torch.Tensor:
    """Coordinates on the image, or outside of it where zeros are read there. On its border the derivative is 0."""
    if how.padding == 0:
        return x
    at, sign = x.detach(), torch.ones_like(x)
    last: Any = size - 1
    if how.padding == 2:
        low = 0.0 if how.align_corners else -0.5
        # With a single pixel the span is 0: it must not be divided by, and every coordinate is that pixel.
        span: Any = torch.sym_max(last, 1) if how.align_corners else size
        away = (at - low).abs()
        turns = (away / span).floor()
        is_odd = turns.remainder(2) != 0
        sign = torch.where(is_odd ^ (at < low), -1, sign)
        rest = away - turns * span
        at = torch.where(is_odd, span - rest, rest) + low
    inside = (at > 0) & (at < last)
    # A product, so that derivatives of 0 have the signs that torch's kernels give them, and of finite coordinates.
    slope = sign * inside if how.rank == 3 else torch.where(inside, sign, 0)
    moved = x.nan_to_num(0, 0, 0) * slope
    return moved + (at.clamp(0, last) - moved.detach())

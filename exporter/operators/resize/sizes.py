"""`F.interpolate` by factors that depend on dynamic sizes, such as `scale_factor=x.shape[2] / 16`.

torch takes factors as plain numbers. Here the elements that each output element is a mean of, and their weights, are
computed from the factor with operators, for one axis after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.sizes.symbolic_numbers import with_symbolic_numbers

__all__: list[str] = []

_NAMES = ("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias")
_NEAREST = {"nearest": 0.0, "nearest-exact": 0.5}
_SMOOTH = frozenset({"linear", "bilinear", "trilinear", "bicubic"})
#: torch's coefficient of cubic convolution.
_CUBIC = -0.75


@with_symbolic_numbers(F.interpolate)
def interpolate(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    given = {**dict(zip(_NAMES, args, strict=False)), **kwargs}
    x: torch.Tensor = given["input"]
    factors, mode = given.get("scale_factor"), given.get("mode", "nearest")
    count = x.ndim - 2
    factors = [*factors] if isinstance(factors, (list, tuple)) else [factors] * count
    if len(factors) != count or not any(isinstance(factor, Varying) for factor in factors):
        return NotImplemented
    sizes = [torch.sym_int(size * factor) for size, factor in zip(x.shape[2:], factors, strict=True)]
    if given.get("recompute_scale_factor") or given.get("align_corners"):
        # torch then uses the factors for the sizes alone.
        left = {name: value for name, value in given.items() if name not in ("scale_factor", "recompute_scale_factor")}
        return torchs(**{**left, "size": sizes})
    if given.get("antialias") or not x.is_floating_point() or mode not in {*_NEAREST, *_SMOOTH}:
        return NotImplemented
    for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        x = _interpolate_axis(x, axis, size, factor, mode)
    return x


def _interpolate_axis(x: torch.Tensor, axis: int, size: Any, factor: Any, mode: str) -> torch.Tensor:
    last = x.shape[axis] - 1
    if mode in _NEAREST:
        # torch computes these in float32, which decides which element is taken.
        steps = torch.arange(size, dtype=torch.float32, device=x.device) + _NEAREST[mode]
        ratio = torch.scalar_tensor(1.0 / factor, dtype=torch.float32, device=x.device)
        places = (steps * _unless_whole(ratio, x, axis, size, factor, mode)).floor()
        return x.index_select(axis, _clamp_to_axis(places, last))
    places = torch.arange(size, dtype=torch.float64, device=x.device) + 0.5
    places = places / _unless_whole(factor, x, axis, size, factor, mode) - 0.5
    if mode != "bicubic":
        places = places.clamp(min=0)
    first = places.floor()
    rest = places - first
    weights = _cubic_weights(rest) if mode == "bicubic" else {0: 1 - rest, 1: rest}
    shape = [-1, *[1] * (x.ndim - 1 - axis)]
    parts = [
        x.index_select(axis, _clamp_to_axis(first + offset, last)) * weight.to(x.dtype).view(shape)
        for offset, weight in weights.items()
    ]
    return sum(parts[1:], start=parts[0])


def _unless_whole(ratio: Any, x: torch.Tensor, axis: int, size: Any, factor: Any, mode: str) -> Any:
    """The ratio, or 1 where the size of the axis stays the same: torch copies it then, whatever the factor. The nearest
    elements of an image are those of half the index where its size doubles."""
    if mode == "nearest":
        ratios = [1, 2] if x.ndim == 4 else []
    else:
        ratios = [] if mode in ("nearest-exact", "bicubic") else [1]
    whole = [times for times in ratios if isinstance(factor, Varying) or times < factor < times + 0.5]
    if not whole:
        return ratio
    before, after = (torch.scalar_tensor(each, dtype=torch.int64, device=x.device) for each in (x.shape[axis], size))
    if not isinstance(ratio, torch.Tensor):
        ratio = torch.scalar_tensor(ratio, dtype=torch.float64, device=x.device)
    for times in whole:
        ratio = torch.where(before * times == after, torch.full_like(ratio, 1 / times), ratio)
    return ratio


def _clamp_to_axis(places: torch.Tensor, last: Any) -> torch.Tensor:
    return places.to(torch.int64).clamp(min=0).clamp(max=last)


def _cubic_weights(rest: torch.Tensor) -> dict[int, torch.Tensor]:
    """The weights of the elements at these offsets from the one before a place, which it is `rest` away from."""

    def near(distance: torch.Tensor) -> torch.Tensor:
        return ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1

    def far(distance: torch.Tensor) -> torch.Tensor:
        return ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC

    return {-1: far(rest + 1), 0: near(rest), 1: near(1 - rest), 2: far(2 - rest)}

"""Poolings with windows or paddings of dynamic size, such as `F.max_pool1d(x, x.shape[2])`.

torch takes these as plain numbers. Over a whole axis the pooling is a mean or a maximum, and so it is within windows
that lie side by side. A padding is added before. The same holds for the numbers of bins of `adaptive_max_pool1d`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.sizes.symbolic_numbers import with_symbolic_numbers

__all__: list[str] = []

_OF_MEANS = ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
_OF_MAXIMA = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
#: The names of the functions, with their numbers of pooled axes and their parameters.
_POOLINGS = {
    f"{kind}_pool{count}d": (count, names)
    for kind, names in (("avg", _OF_MEANS), ("max", _OF_MAXIMA))
    for count in (1, 2, 3)
}


@with_symbolic_numbers(
    F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, F.max_pool1d, F.max_pool2d, F.max_pool3d, torch.max_pool1d,
    torch.max_pool2d, torch.max_pool3d, *(f"aten::{name}" for name in _POOLINGS),
)  # fmt: skip
def pool_over_axes(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    count, names = _POOLINGS[torchs.__name__]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    x = given.pop("input")
    windows = _for_axes(given["kernel_size"], count)
    paddings, dilations = _for_axes(given.get("padding", 0), count), _for_axes(given.get("dilation", 1), count)
    if not any(isinstance(each, torch.SymInt) for each in (*windows, *paddings)):
        return NotImplemented
    if given.get("return_indices") or given.get("divisor_override") is not None:
        return NotImplemented
    if any(isinstance(padding, torch.SymInt) for padding in paddings):
        if given.get("ceil_mode") or not given.get("count_include_pad", True):
            return NotImplemented
        if not all(2 * padding <= window for padding, window in zip(paddings, windows, strict=True)):
            raise RuntimeError("pad should be at most half of effective kernel size")
        outside = 0.0 if names is _OF_MEANS else -torch.inf
        x = F.pad(x, [padding for each in reversed(paddings) for padding in (each, each)], value=outside)
        return getattr(F, torchs.__name__)(x, **{**given, "padding": 0})
    whole = []
    for axis, window in enumerate(windows, x.ndim - count):
        if isinstance(window, torch.SymInt):
            place = axis - x.ndim + count
            if not same_size(window, x.shape[axis]) or paddings[place] != 0 or dilations[place] != 1:
                break
            whole.append(axis)
    else:
        return _of_whole_axes(torchs, x, given, windows, whole)
    if _are_side_by_side(given, windows, paddings, dilations):
        return _of_tiles(torchs, x, given, windows)
    return NotImplemented


@with_symbolic_numbers(
    *(function for name in ("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
      for function in (getattr(F, name), f"aten::{name}")),
    torch.adaptive_max_pool1d,
)  # fmt: skip
def adaptive_max_pool(torchs: Callable[..., Any], input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of bins whose number is dynamic. A bin has all of its elements, and its last one again up to the width
    of the widest bin."""
    count = int(torchs.__name__[-2])
    sizes = _for_axes(output_size, count)
    if return_indices or not any(isinstance(each, torch.SymInt) for each in sizes):
        return NotImplemented
    x = input
    for axis, number in enumerate(sizes, x.ndim - count):
        size = x.shape[axis]
        if number is None or same_size(number, size):
            continue
        bins, divisor = torch.arange(number, device=x.device), torch.sym_max(number, 1)  # There may be no bins.
        begins, ends = bins * size // divisor, ((bins + 1) * size + number - 1) // divisor
        widest = (size + number - 1) // divisor + 1
        places = torch.minimum(begins.unsqueeze(1) + torch.arange(widest, device=x.device), ends.unsqueeze(1) - 1)
        x = x.index_select(axis, places.flatten()).unflatten(axis, (number, widest)).amax(axis + 1)
    return x


def _of_whole_axes(
    torchs: Callable[..., Any], x: Any, given: dict[str, Any], windows: Sequence[Any], whole: Sequence[int]
) -> Any:
    """The pooling in windows that are whole axes."""
    count = len(windows)
    if len(whole) == count:
        return getattr(F, f"adaptive_{torchs.__name__}")(x, 1)
    reduced = x.mean(whole, keepdim=True) if torchs.__name__.startswith("avg") else x.amax(whole, keepdim=True)
    strides = _for_axes(given.get("stride") or windows, count)
    given["kernel_size"] = [1 if axis in whole else each for axis, each in enumerate(windows, x.ndim - count)]
    given["stride"] = [1 if axis in whole else each for axis, each in enumerate(strides, x.ndim - count)]
    return torchs(reduced, **given)


def _are_side_by_side(
    given: dict[str, Any], windows: Sequence[Any], paddings: Sequence[Any], dilations: Sequence[Any]
) -> bool:
    """Whether the windows of dynamic size lie side by side."""
    strides = _for_axes(given.get("stride") or windows, len(windows))
    of_axes = zip(windows, strides, paddings, dilations, strict=True)
    return not given.get("ceil_mode") and all(
        not isinstance(window, torch.SymInt) or (same_size(stride, window) and (padding, dilation) == (0, 1))
        for window, stride, padding, dilation in of_axes
    )


def _of_tiles(torchs: Callable[..., Any], x: Any, given: dict[str, Any], windows: Sequence[Any]) -> Any:
    """The pooling in windows that lie side by side, in a tensor that has an axis for each of them."""
    count = len(windows)
    strides = _for_axes(given.get("stride") or windows, count)
    tiled, within, axis = x, [], x.ndim - count
    for place, window in enumerate(windows):
        if isinstance(window, torch.SymInt):
            number = x.shape[place - count] // window
            tiled = tiled.narrow(axis, 0, number * window).unflatten(axis, (number, window))
            within.append(axis + 1)
            axis += 1
        axis += 1
    reduced = tiled.mean(within) if torchs.__name__.startswith("avg") else tiled.amax(within)
    if len(within) == count:
        return reduced
    given["kernel_size"] = [1 if isinstance(window, torch.SymInt) else window for window in windows]
    given["stride"] = [
        1 if isinstance(window, torch.SymInt) else stride for window, stride in zip(windows, strides, strict=True)
    ]
    return torchs(reduced, **given)


def _for_axes(given: Any, count: int) -> list[Any]:
    """A setting for each pooled axis, of which one may be given for all."""
    if not isinstance(given, (list, tuple)):
        given = [given]
    return [*given] * count if len(given) == 1 else [*given]

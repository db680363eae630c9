"""Poolings over whole axes of dynamic size, such as `F.max_pool1d(x, x.shape[2])`.

torch takes the sizes of windows as plain numbers. Over a whole axis the pooling is a mean or a maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.graph import same_size

__all__ = ["POOLINGS", "pooled_over_axes"]

_OF_MEANS = ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
_OF_MAXIMA = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")

#: Each function with its number of pooled axes and its parameters.
POOLINGS: dict[Callable[..., Any], tuple[int, tuple[str, ...]]] = {
    F.avg_pool1d: (1, _OF_MEANS),
    F.avg_pool2d: (2, _OF_MEANS),
    F.avg_pool3d: (3, _OF_MEANS),
    F.max_pool1d: (1, _OF_MAXIMA),
    F.max_pool2d: (2, _OF_MAXIMA),
    F.max_pool3d: (3, _OF_MAXIMA),
    torch.max_pool1d: (1, _OF_MAXIMA),
    torch.max_pool2d: (2, _OF_MAXIMA),
    torch.max_pool3d: (3, _OF_MAXIMA),
}


def pooled_over_axes(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> torch.Tensor | None:
    """The result of a pooling whose windows of dynamic sizes are whole axes; None if they are anything else."""
    count, names = POOLINGS[function]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    x, windows = given["input"], _for_axes(given["kernel_size"], count)
    if not any(isinstance(window, torch.SymInt) for window in windows):
        return None
    paddings, dilations = _for_axes(given.get("padding", 0), count), _for_axes(given.get("dilation", 1), count)
    if given.get("return_indices") or given.get("divisor_override") is not None:
        return None
    whole = []
    for axis, window in enumerate(windows, x.ndim - count):
        if isinstance(window, torch.SymInt):
            place = axis - x.ndim + count
            if not same_size(window, x.shape[axis]) or paddings[place] != 0 or dilations[place] != 1:
                return None
            whole.append(axis)
    of_means = names is _OF_MEANS
    if len(whole) == count:
        over_all = getattr(F, f"adaptive_{'avg' if of_means else 'max'}_pool{count}d")
        return cast("torch.Tensor", over_all(x, 1))
    reduced: torch.Tensor = x.mean(whole, keepdim=True) if of_means else x.amax(whole, keepdim=True)
    strides = _for_axes(given.get("stride") or windows, count)
    given["input"] = reduced
    given["kernel_size"] = [1 if axis in whole else each for axis, each in enumerate(windows, x.ndim - count)]
    given["stride"] = [1 if axis in whole else each for axis, each in enumerate(strides, x.ndim - count)]
    pooled: torch.Tensor = function(**given)
    return pooled


def _for_axes(given: Any, count: int) -> list[Any]:
    """A setting for each pooled axis, of which one may be given for all."""
    if not isinstance(given, (list, tuple)):
        given = [given]
    return [*given] * count if len(given) == 1 else [*given]

"""Poolings over whole axes of dynamic size, such as `F.max_pool1d(x, x.shape[2])`.

torch takes the sizes of windows as plain numbers. Over a whole axis the pooling is a mean or a maximum.
"""

from __future__ import annotations

from collections.abc import Callable
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
    if not any(isinstance(window, torch.SymInt) for window in windows):
        return NotImplemented
    paddings, dilations = _for_axes(given.get("padding", 0), count), _for_axes(given.get("dilation", 1), count)
    if given.get("return_indices") or given.get("divisor_override") is not None:
        return NotImplemented
    whole = []
    for axis, window in enumerate(windows, x.ndim - count):
        if isinstance(window, torch.SymInt):
            place = axis - x.ndim + count
            if not same_size(window, x.shape[axis]) or paddings[place] != 0 or dilations[place] != 1:
                return NotImplemented
            whole.append(axis)
    if len(whole) == count:
        return getattr(F, f"adaptive_{torchs.__name__}")(x, 1)
    reduced = x.mean(whole, keepdim=True) if names is _OF_MEANS else x.amax(whole, keepdim=True)
    strides = _for_axes(given.get("stride") or windows, count)
    given["kernel_size"] = [1 if axis in whole else each for axis, each in enumerate(windows, x.ndim - count)]
    given["stride"] = [1 if axis in whole else each for axis, each in enumerate(strides, x.ndim - count)]
    return torchs(reduced, **given)


def _for_axes(given: Any, count: int) -> list[Any]:
    """A setting for each pooled axis, of which one may be given for all."""
    if not isinstance(given, (list, tuple)):
        given = [given]
    return [*given] * count if len(given) == 1 else [*given]

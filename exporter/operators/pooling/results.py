"""The results of poolings over fixed windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.operators.convolution.results import count_windows, windows_of
from onnx_parity.exporter.recording.fakes.metadata import are_contiguous
from onnx_parity.exporter.registry.results import Contiguous, result_of

_aten = torch.ops.aten
_WHY = (
    "torch's fake kernels import sympy, and decide once whether a last window is dropped that starts beyond the input; "
    "those of one axis read its length as a plain int"
)


@result_of("aten::avg_pool2d", "aten::avg_pool3d", why=_WHY)
def avg_pool(
    input: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Any:
    if divisor == 0:
        return NotImplemented
    return _pooled(input, kernel, stride, padding, (1,), ceil)


@result_of("aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices", why=_WHY)
def max_pool_with_indices(
    input: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil: bool = False,
) -> Any:
    maxima = _pooled(input, kernel, stride, padding, dilation, ceil)
    return maxima if maxima is NotImplemented else (maxima, maxima._replace(dtype=torch.int64))


@result_of("aten::avg_pool1d", why=_WHY)
def avg_pool1d(
    input: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil: bool = False,
    count_include_pad: bool = True,
) -> Any:
    found = _pooled(input, kernel, stride, padding, (1,), ceil)
    if found is not NotImplemented:
        return found
    args = [1, *kernel], [1, *(stride or kernel)], [0, *padding], ceil, count_include_pad
    return _aten.avg_pool2d.default(input.unsqueeze(-2), *args).squeeze(-2)


@result_of("aten::max_pool1d", why=_WHY)
def max_pool1d(
    input: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil: bool = False,
) -> Any:
    found = _pooled(input, kernel, stride, padding, dilation, ceil)
    if found is not NotImplemented:
        return found
    args = [1, *kernel], [1, *(stride or kernel)], [0, *padding], [1, *dilation], ceil
    maxima: torch.Tensor = _aten.max_pool2d_with_indices.default(input.unsqueeze(-2), *args)[0]
    return Contiguous(input.dtype, tuple(maxima.squeeze(-2).shape))


def _pooled(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
) -> Any:
    """The result of a pooling over the last axes, of any batch and channels."""
    axes = len(kernel)
    windows = windows_of(axes, kernel, stride or kernel, padding, dilation)
    if windows is None:
        return NotImplemented
    may_drop = ceil and any(
        not isinstance(size, int) and each.stride + each.padding > each.dilation * (each.size - 1) + 1
        for size, each in zip(x.shape[-axes:], windows, strict=True)
    )
    is_plain = x.ndim == axes + 2 and x.dtype.is_floating_point and x.shape[1] != 0
    is_like_torchs = is_plain and are_contiguous(x) and all(2 * each.padding <= each.size for each in windows)
    if not may_drop and not is_like_torchs:
        return NotImplemented  # torch itself decides once whether a window is dropped.
    sizes = count_windows(x.shape[-axes:], windows, ceil=ceil)
    return NotImplemented if sizes is None else Contiguous(x.dtype, (*x.shape[:-axes], *sizes))

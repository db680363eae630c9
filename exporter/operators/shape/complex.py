"""Complex tensors whose elements are copied, converted, or arranged in another shape."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, by_parts, complex_of, is_complex_dtype, parts_of
from onnx_parity.exporter.operators.shape.recorded import places_by_strides

by_parts(
    "aten::alias", "aten::clone", "aten::detach", "aten::lift_fresh", "aten::lift_fresh_copy", "aten::alias_copy",
    "aten::detach_copy",
)  # fmt: skip
by_parts(
    "aten::expand", "aten::permute", "aten::transpose.int", "aten::t", "aten::squeeze", "aten::squeeze.dim",
    "aten::squeeze.dims", "aten::unsqueeze", "aten::flip", "aten::roll", "aten::rot90", "aten::unfold",
    "aten::pixel_shuffle", "aten::pixel_unshuffle", "aten::im2col", "aten::col2im", "aten::expand_copy",
    "aten::permute_copy", "aten::transpose_copy.int", "aten::t_copy", "aten::squeeze_copy", "aten::squeeze_copy.dim",
    "aten::squeeze_copy.dims", "aten::unsqueeze_copy", "aten::unfold_copy",
)  # fmt: skip
by_parts("aten::diagonal", "aten::diagonal_copy", "aten::diag_embed", "aten::tril", "aten::triu")
by_parts("aten::diagonal_scatter", data=("self", "src"))


@complex_of("aten::_to_copy")
def to(x: Operand, *, dtype: torch.dtype | None = None, **options: Any) -> Operand:
    if not isinstance(x, Parts):
        assert isinstance(x, torch.Tensor) and dtype is not None
        return parts_of(x.to(dtype.to_real()))
    if dtype is None or is_complex_dtype(dtype):
        return x if dtype is None else Parts(x.real.to(dtype.to_real()), x.imag.to(dtype.to_real()))
    real: torch.Tensor = (x.real != 0) | (x.imag != 0) if dtype is torch.bool else x.real.to(dtype)
    return real


@complex_of("aten::copy")
def copied(x: Operand, source: Operand, non_blocking: bool = False) -> Operand:
    shape = x.real.shape if isinstance(x, Parts) else x.shape  # type: ignore[union-attr]
    if not isinstance(x, Parts):
        assert isinstance(x, torch.Tensor) and isinstance(source, Parts)
        part: torch.Tensor = source.real.to(x.dtype).expand(shape)
        return part
    real, imag = parts_of(source)
    return Parts(real.to(x.real.dtype).expand(shape), imag.to(x.real.dtype).expand(shape))


@complex_of(
    "aten::view",
    "aten::_unsafe_view",
    "aten::_reshape_alias",
    "aten::reshape",
    "aten::view_copy",
)
def reshape(x: Parts, size: list[int], *strides: Any) -> Parts:
    """Not as views, because the parts may lie in memory in another way than the tensor."""
    return Parts(x.real.reshape(size), x.imag.reshape(size))


@complex_of("aten::as_strided", "aten::as_strided_copy")
def as_strided(x: Parts, size: list[int], stride: list[int], storage_offset: int | None = None) -> Any:
    places = _strided(x, size, stride, storage_offset)
    return NotImplemented if places is None else Parts(torch.take(x.real, places), torch.take(x.imag, places))


@complex_of("aten::as_strided_scatter")
def as_strided_scatter(
    x: Operand, src: Operand, size: list[int], stride: list[int], storage_offset: int | None = None
) -> Any:
    parts = parts_of(x)
    places = _strided(parts, size, stride, storage_offset)
    if places is None:
        return NotImplemented
    return Parts(*(torch.put(part, places, each) for part, each in zip(parts, parts_of(src), strict=True)))


def _strided(x: Parts, size: list[int], stride: list[int], storage_offset: int | None) -> torch.Tensor | None:
    """The indices of elements, if the tensor is known to be row-major in memory, as its parts are then."""
    real = x.real
    expected, steps = 1, []
    for extent in reversed(real.shape):
        steps.append(expected)
        expected = expected * extent
    # The parts of an input have every other element of a tensor that has both.
    is_row_major = any(real.stride() == tuple(each * apart for each in reversed(steps)) for apart in (1, 2))
    if not is_row_major:
        return None
    whole = real.new_empty(real.shape)
    return places_by_strides(whole, size, stride, storage_offset)

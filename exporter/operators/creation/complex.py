"""New complex tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of, parts_of


def _filled(shape: Sequence[int], value: Operand, dtype: torch.dtype, device: Any) -> Parts:
    real, imag = parts_of(value)
    return Parts(
        torch.full(shape, real, dtype=dtype.to_real(), device=device),
        torch.full(shape, imag, dtype=dtype.to_real(), device=device),
    )


def _dtype(dtype: torch.dtype | None) -> torch.dtype:
    return torch.get_default_dtype().to_complex() if dtype is None else dtype


@complex_of("aten::full")
def full(size: Sequence[int], fill_value: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Parts:
    return _filled(size, fill_value, _dtype(dtype), device)


@complex_of("aten::scalar_tensor")
def scalar_tensor(s: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Parts:
    return _filled((), s, _dtype(dtype), device)


@complex_of("aten::zeros", "aten::empty.memory_format", "aten::empty_strided")
def zeros(size: Sequence[int], *args: Any, dtype: Any = None, device: Any = None, **options: Any) -> Parts:
    return _filled(size, 0, _dtype(dtype), device)


@complex_of("aten::ones")
def ones(size: Sequence[int], *, dtype: Any = None, device: Any = None, **options: Any) -> Parts:
    return _filled(size, 1, _dtype(dtype), device)


def _like(x: Operand, value: Operand, dtype: torch.dtype | None, device: Any, shape: Sequence[int] | None) -> Operand:
    own = x.real if isinstance(x, Parts) else x
    assert isinstance(own, torch.Tensor)
    size = own.shape if shape is None else shape
    if dtype is None:
        dtype = own.dtype.to_complex() if isinstance(x, Parts) else own.dtype
    if dtype.is_complex:
        return _filled(size, value, dtype, own.device if device is None else device)
    number: Any = value.real if isinstance(value, Parts) else value
    return torch.full(size, number, dtype=dtype, device=own.device)


@complex_of("aten::full_like")
def full_like(x: Operand, fill_value: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Operand:
    return _like(x, fill_value, dtype, device, None)


@complex_of("aten::zeros_like", "aten::empty_like")
def zeros_like(x: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Operand:
    return _like(x, 0, dtype, device, None)


@complex_of("aten::ones_like")
def ones_like(x: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Operand:
    return _like(x, 1, dtype, device, None)


@complex_of("aten::new_full")
def new_full(
    x: Operand, size: Sequence[int], fill_value: Operand, *, dtype: Any = None, device: Any = None, **options: Any
) -> Operand:
    return _like(x, fill_value, dtype, device, size)


@complex_of("aten::new_zeros", "aten::new_empty", "aten::new_empty_strided")
def new_zeros(
    x: Operand, size: Sequence[int], *args: Any, dtype: Any = None, device: Any = None, **options: Any
) -> Operand:
    return _like(x, 0, dtype, device, size)


@complex_of("aten::new_ones")
def new_ones(x: Operand, size: Sequence[int], *, dtype: Any = None, device: Any = None, **options: Any) -> Operand:
    return _like(x, 1, dtype, device, size)


@complex_of("aten::eye", "aten::eye.m")
def eye(*sizes: int, dtype: Any = None, device: Any = None, **options: Any) -> Parts:
    return parts_of(torch.eye(*sizes, dtype=_dtype(dtype).to_real(), device=device))


@complex_of("aten::linspace")
def linspace(
    start: Operand, end: Operand, steps: int, *, dtype: Any = None, device: Any = None, **options: Any
) -> Parts:
    (a, b), (c, d) = parts_of(start), parts_of(end)
    real = _dtype(dtype).to_real()
    return Parts(
        torch.linspace(a, c, steps, dtype=real, device=device), torch.linspace(b, d, steps, dtype=real, device=device)
    )


@complex_of("aten::fill.Scalar", "aten::fill.Tensor")
def fill(x: Any, value: Operand) -> Parts:
    real, imag = parts_of(value)
    like = x.real if isinstance(x, Parts) else x
    return (
        Parts(torch.full_like(like, real), torch.full_like(like, imag))
        if not isinstance(real, torch.Tensor)
        else Parts(real.expand(like.shape), imag.expand(like.shape))
    )

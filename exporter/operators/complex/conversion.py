"""Between real and complex tensors: parts, conversions of the dtype, and new complex tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of, is_complex_dtype, parts_of

_aten = torch.ops.aten


@complex_of(_aten.view_as_real_copy.default)
def view_as_real(x: Parts) -> torch.Tensor:
    return torch.stack([x.real, x.imag], -1)


@complex_of(_aten.view_as_complex.default, _aten.view_as_complex_copy.default)
def view_as_complex(x: torch.Tensor) -> Parts:
    return Parts(x.select(-1, 0), x.select(-1, 1))


@complex_of(_aten.complex.default)
def complex_(real: torch.Tensor, imag: torch.Tensor) -> Parts:
    return Parts(*torch.broadcast_tensors(real, imag))


@complex_of(_aten.polar.default)
def polar(abs: torch.Tensor, angle: torch.Tensor) -> Parts:
    return Parts(abs * angle.cos(), abs * angle.sin())


@complex_of(_aten._conj.default, _aten.conj_physical.default, _aten._conj_copy.default, _aten._conj_physical.default)
def conj(x: Operand) -> Operand:
    return Parts(x.real, -x.imag) if isinstance(x, Parts) else x


@complex_of(_aten.resolve_conj.default, _aten.resolve_neg.default)
def resolved(x: Operand) -> Operand:
    return x


@complex_of(_aten._to_copy.default)
def to(x: Operand, *, dtype: torch.dtype | None = None, **options: Any) -> Operand:
    if not isinstance(x, Parts):
        assert isinstance(x, torch.Tensor) and dtype is not None
        return parts_of(x.to(dtype.to_real()))
    if dtype is None or is_complex_dtype(dtype):
        return x if dtype is None else Parts(x.real.to(dtype.to_real()), x.imag.to(dtype.to_real()))
    real: torch.Tensor = (x.real != 0) | (x.imag != 0) if dtype is torch.bool else x.real.to(dtype)
    return real


@complex_of(_aten.copy.default)
def copied(x: Operand, source: Operand, non_blocking: bool = False) -> Operand:
    shape = x.real.shape if isinstance(x, Parts) else x.shape  # type: ignore[union-attr]
    if not isinstance(x, Parts):
        assert isinstance(x, torch.Tensor) and isinstance(source, Parts)
        part: torch.Tensor = source.real.to(x.dtype).expand(shape)
        return part
    real, imag = parts_of(source)
    return Parts(real.to(x.real.dtype).expand(shape), imag.to(x.real.dtype).expand(shape))


# --- new tensors ------------------------------------------------------------------------------------------------------


def _filled(shape: Sequence[int], value: Operand, dtype: torch.dtype, device: Any) -> Parts:
    real, imag = parts_of(value)
    return Parts(
        torch.full(shape, real, dtype=dtype.to_real(), device=device),
        torch.full(shape, imag, dtype=dtype.to_real(), device=device),
    )


def _dtype(dtype: torch.dtype | None) -> torch.dtype:
    return torch.get_default_dtype().to_complex() if dtype is None else dtype


@complex_of(_aten.full.default)
def full(size: Sequence[int], fill_value: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Parts:
    return _filled(size, fill_value, _dtype(dtype), device)


@complex_of(_aten.scalar_tensor.default)
def scalar_tensor(s: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Parts:
    return _filled((), s, _dtype(dtype), device)


@complex_of(_aten.zeros.default, _aten.empty.memory_format, _aten.empty_strided.default)
def zeros(size: Sequence[int], *args: Any, dtype: Any = None, device: Any = None, **options: Any) -> Parts:
    return _filled(size, 0, _dtype(dtype), device)


@complex_of(_aten.ones.default)
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


@complex_of(_aten.full_like.default)
def full_like(x: Operand, fill_value: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Operand:
    return _like(x, fill_value, dtype, device, None)


@complex_of(_aten.zeros_like.default, _aten.empty_like.default)
def zeros_like(x: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Operand:
    return _like(x, 0, dtype, device, None)


@complex_of(_aten.ones_like.default)
def ones_like(x: Operand, *, dtype: Any = None, device: Any = None, **options: Any) -> Operand:
    return _like(x, 1, dtype, device, None)


@complex_of(_aten.new_full.default)
def new_full(
    x: Operand, size: Sequence[int], fill_value: Operand, *, dtype: Any = None, device: Any = None, **options: Any
) -> Operand:
    return _like(x, fill_value, dtype, device, size)


@complex_of(_aten.new_zeros.default, _aten.new_empty.default, _aten.new_empty_strided.default)
def new_zeros(
    x: Operand, size: Sequence[int], *args: Any, dtype: Any = None, device: Any = None, **options: Any
) -> Operand:
    return _like(x, 0, dtype, device, size)


@complex_of(_aten.new_ones.default)
def new_ones(x: Operand, size: Sequence[int], *, dtype: Any = None, device: Any = None, **options: Any) -> Operand:
    return _like(x, 1, dtype, device, size)


@complex_of(_aten.eye.default, _aten.eye.m)
def eye(*sizes: int, dtype: Any = None, device: Any = None, **options: Any) -> Parts:
    return parts_of(torch.eye(*sizes, dtype=_dtype(dtype).to_real(), device=device))


@complex_of(_aten.linspace.default)
def linspace(
    start: Operand, end: Operand, steps: int, *, dtype: Any = None, device: Any = None, **options: Any
) -> Parts:
    (a, b), (c, d) = parts_of(start), parts_of(end)
    real = _dtype(dtype).to_real()
    return Parts(
        torch.linspace(a, c, steps, dtype=real, device=device), torch.linspace(b, d, steps, dtype=real, device=device)
    )

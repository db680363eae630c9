"""Fourier transforms: one real operator, `onnx_parity::dft`, transforms along one axis, and ONNX has it from opset 17.

Its operand has the parts of complex numbers on a last axis of 2, or real numbers on a last axis of 1. The inverse
transform includes the factor 1 / n, as ONNX's does.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch

from onnx_parity.exporter.capture.complex_numbers.parts import Operand, Parts, complex_of, parts_of
from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.own_operators import define, run_by

__all__ = ["DFT"]

_aten = torch.ops.aten


def _transformed(x: torch.Tensor, dim: int, inverse: bool, onesided: bool) -> torch.Tensor:
    sizes = [*x.shape[:-1], 2]
    if onesided:
        sizes[dim] = sizes[dim] // 2 + 1
    return x.new_empty(sizes)


DFT = define("dft(Tensor x, int dim, bool inverse, bool onesided) -> Tensor", _transformed)


def _computed(x: torch.Tensor, dim: int, inverse: bool, onesided: bool) -> torch.Tensor:
    z = torch.complex(x[..., 0], x[..., -1] if x.shape[-1] == 2 else torch.zeros_like(x[..., 0]))
    result = torch.fft.ifft(z, dim=dim) if inverse else torch.fft.fft(z, dim=dim)
    return torch.view_as_real(result.narrow(dim, 0, x.shape[dim] // 2 + 1) if onesided else result)


run_by(DFT, _computed)


def _along(x: Operand, dim: int, inverse: bool, onesided: bool = False) -> Parts:
    operand = torch.stack([x.real, x.imag], -1) if isinstance(x, Parts) else cast("torch.Tensor", x).unsqueeze(-1)
    result = DFT(operand, dim, inverse, onesided)
    return Parts(result.select(-1, 0), result.select(-1, 1))


def _scaled(x: Any, sizes: list[Size], normalization: int, inverse: bool) -> Any:
    """Multiplied by what torch's normalization (none, 1 / sqrt(n), 1 / n) differs by from ONNX's."""
    power = {0: 0.0, 1: -0.5, 2: -1.0}[normalization] + inverse
    if power == 0:
        return x
    factor: Any = math.prod(sizes)
    factor = float(factor) ** power if isinstance(factor, int) else factor**power
    return Parts(x.real * factor, x.imag * factor) if isinstance(x, Parts) else x * factor


@complex_of(_aten._fft_c2c.default)
def complex_to_complex(x: Operand, dim: list[int], normalization: int, forward: bool) -> Operand:
    first = parts_of(x)
    result: Operand = x
    for axis in dim:
        result = _along(result, axis % first.real.dim(), not forward)
    return _scaled(result, [first.real.shape[axis] for axis in dim], normalization, not forward)  # type: ignore[no-any-return]


@complex_of(_aten._fft_r2c.default)
def real_to_complex(x: torch.Tensor, dim: list[int], normalization: int, onesided: bool) -> Operand:
    *others, last = (axis % x.dim() for axis in dim)
    result = _along(x, last, False, onesided)
    for axis in others:
        result = _along(result, axis, False)
    return _scaled(result, [x.shape[axis] for axis in dim], normalization, False)  # type: ignore[no-any-return]


@complex_of(_aten._fft_c2r.default)
def complex_to_real(x: Operand, dim: list[int], normalization: int, last_dim_size: Size) -> torch.Tensor:
    """The inverse of what is complex only in its upper half, whose lower half is the conjugate in reverse"""
    half = parts_of(x)
    *others, last = (axis % half.real.dim() for axis in dim)
    for axis in others:
        half = _along(half, axis, True)
    first = [_aten.slice.Tensor(part, last, 0, last_dim_size // 2 + 1) for part in half]
    inner = [_aten.slice.Tensor(part, last, 1, (last_dim_size + 1) // 2).flip(last) for part in half]
    whole = Parts(torch.cat([first[0], inner[0]], last), torch.cat([first[1], -inner[1]], last))
    sizes = [*(half.real.shape[axis] for axis in others), last_dim_size]
    result: torch.Tensor = _scaled(_along(whole, last, True).real, sizes, normalization, True)
    return result

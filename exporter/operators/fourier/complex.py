"""Fourier transforms: one real operator, `onnx_parity::dft`, transforms along axes, as ONNX does from opset 17 on.

Its result has the parts of complex numbers on a last axis of 2. The inverse transform includes the factor 1 / n, as
ONNX's does.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, complex_of, parts_of
from onnx_parity.exporter.own_operators import define, run_by

__all__ = ["DFT"]

_aten = torch.ops.aten


def _transformed(
    real: torch.Tensor, imag: torch.Tensor | None, dims: list[int], inverse: bool, onesided: bool
) -> torch.Tensor:
    sizes = [*real.shape, 2]
    if onesided:
        sizes[dims[0]] = sizes[dims[0]] // 2 + 1
    return real.new_empty(sizes)


#: `onesided` leaves out the upper half of the first axis that is transformed, which of real numbers says the same.
DFT = define("dft(Tensor real, Tensor? imag, int[] dims, bool inverse, bool onesided) -> Tensor", _transformed)


def _computed(
    real: torch.Tensor, imag: torch.Tensor | None, dims: list[int], inverse: bool, onesided: bool
) -> torch.Tensor:
    z = torch.complex(real, torch.zeros_like(real) if imag is None else imag)
    result = torch.fft.ifftn(z, dim=dims) if inverse else torch.fft.fftn(z, dim=dims)
    return torch.view_as_real(result.narrow(dims[0], 0, real.shape[dims[0]] // 2 + 1) if onesided else result)


run_by(DFT, _computed)


def _along(x: Operand, dims: list[int], inverse: bool, onesided: bool = False) -> Operand:
    if not dims:
        return x
    real, imag = x if isinstance(x, Parts) else (x, None)
    result = DFT(real, imag, dims, inverse, onesided)
    return Parts(result.select(-1, 0), result.select(-1, 1))


def _scaled(x: Any, sizes: list[Size], normalization: int, inverse: bool) -> Any:
    """Multiplied by what torch's normalization (none, 1 / sqrt(n), 1 / n) differs by from ONNX's."""
    power = {0: 0.0, 1: -0.5, 2: -1.0}[normalization] + inverse
    if power == 0:
        return x
    factor: Any = math.prod(sizes)
    factor = float(factor) ** power if isinstance(factor, int) else factor**power
    return Parts(x.real * factor, x.imag * factor) if isinstance(x, Parts) else x * factor


@complex_of("aten::_fft_c2c")
def complex_to_complex(x: Operand, dim: list[int], normalization: int, forward: bool) -> Operand:
    first = parts_of(x)
    result = _along(x, [axis % first.real.dim() for axis in dim], not forward)
    return _scaled(result, [first.real.shape[axis] for axis in dim], normalization, not forward)  # type: ignore[no-any-return]


@complex_of("aten::_fft_r2c")
def real_to_complex(x: torch.Tensor, dim: list[int], normalization: int, onesided: bool) -> Operand:
    *others, last = (axis % x.dim() for axis in dim)
    result = _along(x, [last, *others], False, onesided)
    return _scaled(result, [x.shape[axis] for axis in dim], normalization, False)  # type: ignore[no-any-return]


@complex_of("aten::_fft_c2r")
def complex_to_real(x: Operand, dim: list[int], normalization: int, last_dim_size: Size) -> torch.Tensor:
    """The inverse of what is complex only in its upper half, whose lower half is the conjugate in reverse"""
    half = parts_of(x)
    *others, last = (axis % half.real.dim() for axis in dim)
    half = parts_of(_along(half, others, True))
    first = [_aten.slice.Tensor(part, last, 0, last_dim_size // 2 + 1) for part in half]
    inner = [_aten.slice.Tensor(part, last, 1, (last_dim_size + 1) // 2).flip(last) for part in half]
    whole = Parts(torch.cat([first[0], inner[0]], last), torch.cat([first[1], -inner[1]], last))
    sizes = [*(half.real.shape[axis] for axis in others), last_dim_size]
    result: torch.Tensor = _scaled(parts_of(_along(whole, [last], True)).real, sizes, normalization, True)
    return result

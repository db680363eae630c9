"""Complex tensors made of real ones and taken apart, and their conjugates."""

from __future__ import annotations

import torch

from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, by_parts, complex_of

by_parts("aten::_neg_view", "aten::_neg_view_copy")


@complex_of("aten::view_as_real_copy")
def view_as_real(x: Parts) -> torch.Tensor:
    return torch.stack([x.real, x.imag], -1)


@complex_of("aten::view_as_complex", "aten::view_as_complex_copy")
def view_as_complex(x: torch.Tensor) -> Parts:
    return Parts(x.select(-1, 0), x.select(-1, 1))


@complex_of("aten::complex")
def complex_(real: torch.Tensor, imag: torch.Tensor) -> Parts:
    return Parts(*torch.broadcast_tensors(real, imag))


@complex_of("aten::polar")
def polar(abs: torch.Tensor, angle: torch.Tensor) -> Parts:
    return Parts(abs * angle.cos(), abs * angle.sin())


@complex_of("aten::_conj", "aten::conj_physical", "aten::_conj_copy", "aten::_conj_physical")
def conj(x: Operand) -> Operand:
    return Parts(x.real, -x.imag) if isinstance(x, Parts) else x


@complex_of("aten::resolve_conj", "aten::resolve_neg")
def resolved(x: Operand) -> Operand:
    return x

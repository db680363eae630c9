"""Running sums, products and logarithms of sums of complex tensors."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_parts import Parts, by_parts, complex_of, elements_along
from onnx_parity.exporter.operators.elementwise.complex import exp, log1p
from onnx_parity.exporter.own_operators import define, run_by

__all__ = ["cumprod"]

by_parts("aten::cumsum")


def _shapes(real: torch.Tensor, imag: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return real.new_empty(real.shape), real.new_empty(real.shape)


def _computed(real: torch.Tensor, imag: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    total = torch.complex(real, imag).cumprod(dim)
    return total.real.contiguous(), total.imag.contiguous()


CUMPROD = define("complex_cumprod(Tensor real, Tensor imag, int dim) -> (Tensor, Tensor)", _shapes)
run_by(CUMPROD, _computed)


@complex_of("aten::cumprod")
def cumprod(x: Parts, dim: int, *, dtype: Any = None) -> Parts:
    return Parts(*CUMPROD(x.real, x.imag, dim)) if x.real.dim() else x


@complex_of("aten::logcumsumexp")
def logcumsumexp(x: Parts, dim: int) -> Parts:
    """One element after the other, so that the axis must not be dynamic"""
    if not x.real.dim():
        return x
    totals: list[Parts] = []
    for each in elements_along(x, dim, "logcumsumexp"):
        totals.append(_added_logs(each, totals[-1]) if totals else each)
    if not totals:
        return x
    return Parts(torch.stack([each.real for each in totals], dim), torch.stack([each.imag for each in totals], dim))


def _added_logs(x: Parts, y: Parts) -> Parts:
    """log(exp(x) + exp(y)) as m + log1p(exp(n - m)), where m has the larger real part; its angle is not reduced"""
    is_less = x.real < y.real
    least, most = (
        Parts(*(torch.where(is_less, a, b) for a, b in zip(*pair, strict=True))) for pair in ((x, y), (y, x))
    )
    # Of two infinite ones there is no difference.
    is_flat = (least.real == most.real) & (most.real.abs() == math.inf)
    ratio = exp(Parts(torch.where(is_flat, 0, least.real - most.real), least.imag - most.imag))
    added = log1p(ratio)
    return Parts(
        torch.where(is_flat, least.real, most.real + added.real),
        torch.where(is_flat, least.imag, most.imag + added.imag),
    )

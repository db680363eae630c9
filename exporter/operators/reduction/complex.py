"""Reductions of complex tensors: sums and products, norms, variances, and whether elements are zero."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_arithmetic import is_not_zero
from onnx_parity.exporter.kinds.complex_parts import Operand, Parts, by_parts, complex_of
from onnx_parity.exporter.operators.cumulative.complex import cumprod
from onnx_parity.exporter.operators.elementwise.complex import abs_
from onnx_parity.exporter.registry.recorded import named

_aten = torch.ops.aten

by_parts("aten::sum", "aten::sum.dim_IntList", "aten::mean", "aten::mean.dim", "aten::nansum")


def _of_truth(name: str) -> None:
    """A reduction of whether elements are zero."""
    complex_of(name)(lambda x, *args, **kwargs: named(name)(is_not_zero(x), *args, **kwargs))


for _name in (
    "aten::any", "aten::any.dim", "aten::any.dims", "aten::all", "aten::all.dim", "aten::all.dims",
    "aten::count_nonzero", "aten::count_nonzero.dim_IntList",
):  # fmt: skip
    _of_truth(_name)


@complex_of("aten::prod")
def prod(x: Parts, *, dtype: Any = None) -> Operand:
    return prod_along(Parts(x.real.reshape(-1), x.imag.reshape(-1)), 0)


@complex_of("aten::prod.dim_int")
def prod_along(x: Parts, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Operand:
    """The last of the running products, of which the first is 1"""
    if not x.real.dim():
        return x
    sizes = list(x.real.shape)
    sizes[dim] = 1
    from_one = Parts(*(torch.cat([x.real.new_full(sizes, n), part], dim) for n, part in zip((1, 0), x, strict=True)))
    last = Parts(*(part.narrow(dim, x.real.shape[dim], 1) for part in cumprod(from_one, dim)))
    return last if keepdim else Parts(last.real.squeeze(dim), last.imag.squeeze(dim))


@complex_of("aten::linalg_vector_norm")
def vector_norm(x: Parts, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    length = abs_(x)
    if dtype is not None:
        length = length.to(dtype.to_real())
    return _aten.linalg_vector_norm.default(length, ord, dim, keepdim)


@complex_of("aten::var.correction")
def var(x: Parts, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    options = {"correction": correction, "keepdim": keepdim}
    return _aten.var.correction(x.real, dim, **options) + _aten.var.correction(x.imag, dim, **options)


@complex_of("aten::std.correction")
def std(x: Parts, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return var(x, dim, correction=correction, keepdim=keepdim).sqrt()


@complex_of("aten::var_mean.correction")
def var_mean(x: Parts, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    axes = list(range(x.real.dim())) if dim is None else dim
    mean = Parts(x.real.mean(axes, keepdim), x.imag.mean(axes, keepdim))
    return var(x, dim, correction=correction, keepdim=keepdim), mean


@complex_of("aten::std_mean.correction")
def std_mean(x: Parts, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    variance, mean = var_mean(x, dim, correction=correction, keepdim=keepdim)
    return variance.sqrt(), mean

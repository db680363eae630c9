"""Arithmetic of several tensors, with bounds, and of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from onnx_parity.harness.onnx_node import LIMITS, LIMITS_OF_TWO, Array, Types, call, definition, drawn, dtype_of, node

# --- several tensors --------------------------------------------------------------------------------------------------

_SEVERAL = (
    call((2, 3)),
    call((2, 3), (2, 3)),
    call((0, 3), (0, 3)),
    # Version 6 has no broadcasting.
    call((2, 3), (3,), (2, 1), since=8),
    call((), (2, 3), since=8),
    call((0, 3), (1, 3), since=8),
)
_LIMITS = call(*LIMITS_OF_TWO, since=8)


@definition
def maximum(*tensors: Array) -> Array:
    found: Array = np.maximum.reduce(np.broadcast_arrays(*tensors))
    return found


@definition
def minimum(*tensors: Array) -> Array:
    found: Array = np.minimum.reduce(np.broadcast_arrays(*tensors))
    return found


@definition
def total(*tensors: Array) -> Array:
    found: Array = np.add.reduce(np.broadcast_arrays(*tensors))
    return found


@definition
def average(*tensors: Array) -> Array:
    found: Array = np.add.reduce(np.broadcast_arrays(*tensors)) / len(tensors)
    return found


max_ = node("Max", maximum, *_SEVERAL, _LIMITS, exact=True, stays_whole=True)
min_ = node("Min", minimum, *_SEVERAL, _LIMITS, exact=True, stays_whole=True)
sum_ = node("Sum", total, *_SEVERAL, _LIMITS)
# The mean of the largest numbers has no limits: their sum may be infinite, or may not.
mean = node("Mean", average, *_SEVERAL)

# --- quotients and powers ---------------------------------------------------------------------------------------------


@definition
def remainder(a: Array, b: Array, fmod: int) -> Array:
    """With `fmod` the sign is that of the dividend, otherwise that of the divisor."""
    return np.asarray(np.fmod(a, b) if fmod else np.mod(a, b))


_DIVISORS = drawn((2, 3), values=(3.0, -2.0, 5.0, -7.0, 2.0, 4.0))
#: Floats must have `fmod`.
mod = node("Mod", remainder, call(drawn((2, 3), -40.0, 40.0), _DIVISORS), where=lambda types: "int" in types["T"])
fmod = node(
    "Mod",
    remainder,
    call(drawn((2, 3), -40.0, 40.0), _DIVISORS, fmod=1),
    call(drawn((2, 3), -40.0, 40.0), drawn((), values=(3.0,)), fmod=1),
    call(drawn((1,), values=(7.0,)), drawn((1,), values=(3.0,)), fmod=1),
    call((0, 3), drawn((3,), values=(3.0,)), fmod=1),
)


@definition
def power(base: Array, exponent: Array) -> Array:
    raised: Array = np.power(base.astype(np.float64), exponent.astype(np.float64))
    return raised


pow_ = node(
    "Pow",
    power,
    call(drawn((2, 3), 0.5, 4.0), drawn((2, 3), 0.0, 3.0)),
    call(drawn((2, 3), values=(-2.0, 3.0, -1.0)), drawn((3,), values=(2.0, 3.0, 1.0))),
    call(drawn((2, 3), 0.5, 4.0), drawn((), values=(2.0,))),
    call((0, 3), drawn((1,), values=(2.0,))),
    call([0.0, 1.0, 2.0], [0.0, 0.0, 0.0]),
)
divide_integers = node(
    "Div",
    definition(lambda a, b: np.trunc(np.true_divide(a, b))),
    call(drawn((2, 3), values=(7.0, -7.0, 6.0)), drawn((2, 3), values=(2.0, 2.0, -3.0, 4.0))),
    call(drawn((2, 3), -40.0, 40.0), drawn((), values=(3.0,))),
    call((0, 3), drawn((3,), values=(3.0,))),
    where=lambda types: "int" in types["T"],
)

# --- bounds -----------------------------------------------------------------------------------------------------------


@definition
def clip(x: Array, min: Any = None, max: Any = None) -> Array:
    """Where the lower bound is above the upper one, all elements are the upper one."""
    above = x if min is None else np.maximum(x, min)
    bounded: Array = above if max is None else np.minimum(above, max)
    return bounded


clip_6 = node("Clip", clip, call((2, 3), min=-1.0, max=2.0), call((2, 3), min=0.0), call((0, 3), max=0.0), before=11)
clip_11 = node(
    "Clip",
    clip,
    call((2, 3)),
    call((2, 3), min=1.0, max=2.0),
    call((2, 3), min=0.0),
    call((2, 3), max=1.0),
    call((2, 3), min=2.0, max=1.0),
    call((), min=0.0, max=1.0),
    call((1,), min=0.0, max=1.0),
    call((0, 3), min=0.0),
    call(LIMITS, min=0.0, max=1.0),
    since=11,
    stays_whole=True,
    exact=True,
)


@definition
def shrunk(x: Array, bias: float, lambd: float, types: Types) -> Array:
    """Within `lambd` of 0 an element becomes 0, and others come nearer to 0 by `bias`."""
    moved = np.where(x < -lambd, x.astype(np.float64) + bias, np.where(x > lambd, x.astype(np.float64) - bias, 0.0))
    dtype = dtype_of(types["T"])
    return moved.astype(dtype) if dtype.kind in "iu" else moved


shrink = node("Shrink", shrunk, shapes=(((2, 3),), ((1,),), ((0, 3),)), bias=[None, 1.0], lambd=[None, 1.5])
swish = node("Swish", lambda x, alpha: x * torch.sigmoid(alpha * x), alpha=[None, 0.5])
swiglu = node(
    "SwiGLU",
    lambda a, b, alpha: a * torch.sigmoid(alpha * a) * b,
    shapes=(((2, 3), (2, 3)), ((), ()), ((1,), (1,)), ((0, 3), (0, 3))),
    alpha=[None, 0.5],
)

# --- matrices ---------------------------------------------------------------------------------------------------------

matmul = node(
    "MatMul",
    definition(np.matmul),
    shapes=(
        ((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 1, 2, 3), (4, 3, 2)), ((0, 3), (3, 2)),
        ((2, 0), (0, 3)), ((1, 1), (1, 1)),
    ),
)  # fmt: skip


@definition
def product(
    a: Array, b: Array, c: Array | None = None, *, alpha: float, beta: float, transA: int, transB: int
) -> Array:
    made = alpha * ((a.T if transA else a) @ (b.T if transB else b)).astype(np.float64)
    with_c: Array = made if c is None else made + beta * c
    return with_c


gemm = node(
    "Gemm",
    product,
    call((2, 3), (3, 4), (4,)),
    call((2, 3), (3, 4), (2, 4), alpha=2.0, beta=0.5),
    call((3, 2), (4, 3), (2, 1), transA=1, transB=1),
    call((2, 3), (3, 4), ()),
    call((2, 3), (3, 4)),
    call((2, 0), (0, 3), (3,)),
    call((0, 3), (3, 4), (4,)),
)


def _einsum(*tensors: Array, equation: str) -> Array:
    return np.asarray(np.einsum(equation, *tensors))


einsum = node(
    "Einsum",
    definition(_einsum),
    call((2, 3), (3, 4), equation="ij,jk->ik"),
    call((3, 3), equation="ii->i"),
    call((2, 3), equation="ij->ji"),
    call((2, 3), equation="ij->"),
    call((2, 3, 4), (2, 4, 2), equation="...ij,...jk->...ik"),
    call((3,), (3,), equation="i,i"),
    call((1, 1), (1, 2), equation="ij,jk->ik"),
    call((2, 3), (3, 2), (2, 2), equation="ij,jk,kl->il"),
    call((0, 3), (3, 2), equation="ij,jk->ik"),
)
det = node("Det", torch.linalg.det, shapes=(((2, 2),), ((2, 3, 3),), ((1, 1),), ((0, 2, 2),)))

# --- along an axis ----------------------------------------------------------------------------------------------------


def _shifted(x: Array, axis: int, first: float) -> Array:
    """What is before each element of a scan that leaves the element itself out."""
    start = np.full_like(np.take(x, [0], axis), first) if x.shape[axis] else x
    return np.concatenate([start, np.delete(x, -1, axis)], axis) if x.shape[axis] else x


def _accumulated(ufunc: np.ufunc, x: Array, axis: Array, exclusive: int, reverse: int) -> Array:
    place = int(axis)
    turned = np.flip(x, place) if reverse else x
    neutral = ufunc.identity
    assert isinstance(neutral, int)
    found = ufunc.accumulate(_shifted(turned, place, neutral) if exclusive else turned, place)
    return np.flip(found, place) if reverse else found


@definition
def cumulative_sum(x: Array, axis: Array, exclusive: int, reverse: int) -> Array:
    return _accumulated(np.add, x, axis, exclusive, reverse)


@definition
def cumulative_product(x: Array, axis: Array, exclusive: int, reverse: int) -> Array:
    return _accumulated(np.multiply, x, axis, exclusive, reverse)


_ALONG = (
    call((2, 3), 1),
    call((2, 3), -2, exclusive=1),
    call((2, 3), 1, reverse=1),
    call((2, 3), 0, exclusive=1, reverse=1),
    call((3,), 0),
    call((0, 3), 1),
    call((2, 0), 1, exclusive=1),
    call((2, 1), 1, exclusive=1),
)
cum_sum = node("CumSum", cumulative_sum, *_ALONG)
cum_prod = node("CumProd", cumulative_product, *_ALONG)

# --- one of several classes -------------------------------------------------------------------------------------------

_AXES = (call((2, 3)), call((2, 3, 2), axis=1), call((2, 3), axis=0), call((3,), axis=-1), call((0, 3)), call((2, 1)),
         call((2, 0, 3), axis=1))  # fmt: skip


def _from_axis(function: Any) -> Any:
    """Before version 13, all axes from `axis` on are one, whose default is 1."""

    def compute(x: torch.Tensor, axis: int) -> torch.Tensor:
        place = axis % max(x.dim(), 1)
        rows = int(np.prod(x.shape[:place], dtype=int))
        flat = x.reshape(rows, int(np.prod(x.shape[place:], dtype=int)))
        computed: torch.Tensor = function(flat, 1).reshape(x.shape)
        return computed

    compute.__name__ = function.__name__
    return compute


def hardmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    """1 at the first of the largest elements, 0 elsewhere."""
    made = torch.zeros_like(x)
    return made.scatter_(axis, x.argmax(axis, keepdim=True), 1.0) if x.numel() else made


_FEW = (call((2, 3)), call((2, 3, 2), axis=1), call((2, 3), axis=0), call((2, 1)), call((0, 3)))
softmax_11 = node("Softmax", _from_axis(F.softmax), *_FEW, before=13)
softmax = node("Softmax", lambda x, axis: F.softmax(x, dim=axis), *_AXES, since=13)
log_softmax_11 = node("LogSoftmax", _from_axis(F.log_softmax), *_FEW, before=13)
log_softmax = node("LogSoftmax", lambda x, axis: F.log_softmax(x, dim=axis), *_AXES, since=13)
hardmax_11 = node("Hardmax", _from_axis(hardmax), *_FEW, before=13)
hardmax_13 = node("Hardmax", hardmax, *_AXES, call([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]), since=13)

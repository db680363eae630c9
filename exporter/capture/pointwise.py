"""What pointwise functions return, said without torch's kernels where one tensor has the shape of the result.

The kernels import dynamo and sympy to say it of most functions, a second of a process's first export, and are slow to
say it where sizes vary. What would need a promotion of dtypes, or care about gaps in memory, is left to them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

__all__ = ["Metadata", "like_which"]

#: dtype, shape, stride, device; a size that may vary is its expression.
Metadata = tuple[torch.dtype, tuple[Any, ...], tuple[Any, ...], torch.device]


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: They return floats of the dtype that they are given.
_OF_FLOATS = _names(
    "acos acosh asin asinh atan atan2 atanh batch_norm ceil celu cos cosh div.Scalar div.Tensor elu erf erfc exp "
    "exp2 expm1 floor gelu hardsigmoid hardswish hardtanh leaky_relu log log10 log1p log2 mish pow.Tensor_Scalar "
    "pow.Tensor_Tensor rand_like randn_like reciprocal round rsqrt sigmoid silu sin sinh softplus sqrt tan tanh "
    "threshold trunc"
)
#: They do too, and return integers of the dtype of integers.
_OF_NUMBERS = _names(
    "abs add.Scalar add.Tensor clamp clamp_max clamp_min fmod.Scalar fmod.Tensor maximum minimum mul.Scalar mul.Tensor "
    "neg relu remainder.Scalar remainder.Tensor rsub.Scalar rsub.Tensor sign sub.Scalar sub.Tensor"
)
#: They say yes or no.
_QUESTIONS = frozenset(
    f"{name}.{other}" for name in ("eq", "ge", "gt", "le", "lt", "ne") for other in ("Scalar", "Tensor")
)
#: It is told what to return.
_CAST = "_to_copy"
#: Keyword arguments that change nothing.
_NOTHING: tuple[Mapping[str, Any], ...] = ({}, {"pin_memory": False})
_KNOWN = _OF_FLOATS | _OF_NUMBERS | _QUESTIONS | {_CAST}

#: What the dtype of a number, or of a tensor without axes, may be at most to leave a tensor's dtype as it is.
_BOOLS, _INTEGERS, _FLOATS, _OTHERS = range(4)
_INTEGER_DTYPES = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_NUMBERS = {bool: _BOOLS, int: _INTEGERS, torch.SymInt: _INTEGERS, float: _FLOATS, torch.SymFloat: _FLOATS}


def like_which(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, torch.dtype] | None:
    """Which argument of an ATen operator its result is like in shape and device, without gaps; and the result's dtype.

    A tensor is given as its `Metadata`. None: whoever asks has to ask torch.
    """
    if name not in _KNOWN or (kwargs.keys() != {"dtype"} if name == _CAST else kwargs not in _NOTHING):
        return None
    if name == "clamp" and len(args) == 1:
        return None  # By nothing: torch refuses that.
    if name == "batch_norm":
        args = args[:1]  # The others have a number a channel.
    tensors = [(place, arg) for place, arg in enumerate(args) if isinstance(arg, tuple)]
    for place, tensor in tensors:
        if all(_takes_in(tensor, arg) for arg in args):
            dtype = kwargs["dtype"] if name == _CAST else _dtype(name, tensor[0], args)
            return None if dtype is None else (place, dtype)
    return None


def _dtype(name: str, given: torch.dtype, args: Sequence[Any]) -> torch.dtype | None:
    kind = _kind(given)
    if kind == _INTEGERS and any(_NUMBERS.get(type(arg)) == _FLOATS for arg in args):
        given, kind = torch.get_default_dtype(), _FLOATS
        if name in _OF_FLOATS:
            return None
    if kind == _FLOATS or (kind == _INTEGERS and name not in _OF_FLOATS):
        return torch.bool if name in _QUESTIONS else given
    return None


def _takes_in(tensor: Metadata, arg: Any) -> bool:
    """Whether the argument leaves the tensor's shape as it is, and its dtype if it is a tensor, and makes no gaps."""
    dtype, shape, _, device = tensor
    if not isinstance(arg, tuple):
        return arg is None or type(arg) in _NUMBERS
    other, sizes, strides, other_device = arg
    if other_device != device or strides != _without_gaps(sizes) or len(sizes) > len(shape):
        return False
    if any(size not in (1, whole) for size, whole in zip(reversed(sizes), reversed(shape), strict=False)):
        return False
    return bool(other == dtype or (shape and not sizes and _kind(other) <= _kind(dtype)))


def _kind(dtype: torch.dtype) -> int:
    if dtype.is_floating_point:
        return _FLOATS
    return _INTEGERS if dtype in _INTEGER_DTYPES else _BOOLS if dtype is torch.bool else _OTHERS


def _without_gaps(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The strides of a tensor that lies in memory row by row."""
    strides = tuple(itertools.accumulate([1, *reversed(shape[1:])], lambda stride, size: stride * (size or 1)))
    return strides[::-1] if shape else ()

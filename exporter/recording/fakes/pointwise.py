"""The results of pointwise functions, computed without torch's kernels if one argument has the shape of the result.

For most functions torch's kernels import dynamo and sympy, which takes a second of a process's first export. With
dynamic sizes they take 0.6 ms for each call. Together with the deferred imports this brought the first export of an
LSTM from 1.2 s to 0.15 s of processor time, and that of a script with a loop from 1.4 s to 0.2 s. Calls that need type
promotion, or whose arguments are not contiguous, are left to the kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import torch

__all__ = ["Metadata", "is_contiguous", "like_which"]


class Metadata(NamedTuple):
    """The metadata of a fake tensor. A dynamic size is given as its expression."""

    dtype: torch.dtype
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    device: torch.device


class _Kind(IntEnum):
    """Categories of dtypes, in the order of type promotion."""

    BOOLS = 0
    INTEGERS = 1
    FLOATS = 2
    OTHERS = 3


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Functions that return floats of the dtype of their argument.
_OF_FLOATS = _names(
    "acos acosh asin asinh atan atan2 atanh batch_norm ceil celu cos cosh div.Scalar div.Tensor elu erf erfc exp "
    "exp2 expm1 floor gelu hardsigmoid hardswish hardtanh leaky_relu log log10 log1p log2 mish pow.Tensor_Scalar "
    "pow.Tensor_Tensor rand_like randn_like reciprocal round rsqrt sigmoid silu sin sinh softplus sqrt tan tanh "
    "threshold trunc"
)
#: Functions that return floats and integers of the dtype of their argument.
_OF_NUMBERS = _names(
    "abs add.Scalar add.Tensor clamp clamp_max clamp_min fmod.Scalar fmod.Tensor maximum minimum mul.Scalar mul.Tensor "
    "neg relu remainder.Scalar remainder.Tensor rsub.Scalar rsub.Tensor sign sub.Scalar sub.Tensor"
)
#: Comparisons, which return booleans.
_QUESTIONS = frozenset(
    f"{name}.{other}" for name in ("eq", "ge", "gt", "le", "lt", "ne") for other in ("Scalar", "Tensor")
)
#: The function whose result's dtype is an argument.
_CAST = "_to_copy"
#: Functions with a third argument `alpha`, which torch refuses for some dtypes. Calls that give it are left to torch.
_WITH_ALPHA = frozenset({"add.Scalar", "rsub.Scalar", "sub.Scalar"})
#: Keyword arguments that do not affect the result.
_NOTHING: tuple[Mapping[str, Any], ...] = ({}, {"pin_memory": False})
_KNOWN = _OF_FLOATS | _OF_NUMBERS | _QUESTIONS | {_CAST}

_INTEGER_DTYPES = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_NUMBERS = {bool: _Kind.BOOLS, int: _Kind.INTEGERS, torch.SymInt: _Kind.INTEGERS, float: _Kind.FLOATS}


def like_which(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, torch.dtype] | None:
    """The position of the ATen argument that has the shape and device of the result, and the dtype of the result.

    The result is contiguous. Tensors are given as `Metadata`. None if torch's kernel has to be called.
    """
    if name not in _KNOWN or (not _is_plain_cast(args, kwargs) if name == _CAST else kwargs not in _NOTHING):
        return None
    operands = _operands(name, args)
    for place, tensor in enumerate(operands):
        if isinstance(tensor, Metadata) and all(_broadcasts_to(tensor, operand) for operand in operands):
            dtype = kwargs["dtype"] if name == _CAST else _dtype(name, tensor.dtype, operands)
            return None if dtype is None or _is_exotic(dtype) else (place, dtype)
    return None


def _operands(name: str, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments that determine the result. Empty if the other arguments need checks that torch's kernel makes."""
    if name == "batch_norm":
        return args[:1] if _is_by_channel(args) else ()
    if name == "clamp":
        x, *bounds = args
        given = [bound for bound in bounds if bound is not None]
        return (x, *given) if given else ()
    return () if name in _WITH_ALPHA and len(args) > 2 else args


def _is_plain_cast(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a tensor is cast to a dtype, and stays on its device."""
    is_plain = "dtype" in kwargs and kwargs.keys() <= {"dtype", "layout", "device"}
    stays = isinstance(args[0], Metadata) and kwargs.get("device") in (None, args[0].device)
    return is_plain and stays and kwargs.get("layout") in (None, torch.strided)


def _is_by_channel(args: Sequence[Any]) -> bool:
    """Whether a batch norm has running statistics, and each of its tensors has one number for each channel."""
    channels, (mean, variance) = args[0].shape[1:2], args[3:5]
    numbers = [arg.shape for arg in args[1:5] if arg is not None]
    return mean is not None and variance is not None and all(shape == channels for shape in numbers)


def _is_exotic(dtype: torch.dtype) -> bool:
    return _kind(dtype) is _Kind.OTHERS and not dtype.is_complex


def _dtype(name: str, given: torch.dtype, args: Sequence[Any]) -> torch.dtype | None:
    kind = _kind(given)
    if name in _OF_FLOATS:
        return given if kind is _Kind.FLOATS else None
    if kind not in (_Kind.INTEGERS, _Kind.FLOATS):
        return None
    if name in _QUESTIONS:
        return torch.bool
    makes_floats = kind is _Kind.INTEGERS and any(_NUMBERS.get(type(arg)) is _Kind.FLOATS for arg in args)
    return torch.get_default_dtype() if makes_floats else given


def _broadcasts_to(tensor: Metadata, arg: Any) -> bool:
    """Whether the argument broadcasts to the tensor's shape, is contiguous, and does not change the result's dtype."""
    if not isinstance(arg, Metadata):
        return type(arg) in _NUMBERS
    if arg.device != tensor.device or not is_contiguous(arg) or len(arg.shape) > len(tensor.shape):
        return False
    sizes = zip(reversed(arg.shape), reversed(tensor.shape), strict=False)
    if any(size not in (1, whole) for size, whole in sizes):
        return False
    is_number = bool(tensor.shape) and not arg.shape
    return arg.dtype == tensor.dtype or (is_number and _kind(arg.dtype) <= _kind(tensor.dtype))


def _kind(dtype: torch.dtype) -> _Kind:
    if dtype.is_floating_point:
        return _Kind.FLOATS
    if dtype in _INTEGER_DTYPES:
        return _Kind.INTEGERS
    return _Kind.BOOLS if dtype is torch.bool else _Kind.OTHERS


def is_contiguous(tensor: Metadata) -> bool:
    """Whether the strides are those that torch gives a contiguous tensor of this shape.

    torch counts a dynamic size that may be 0 as `Max(1, size)`, because a stride is never 0. The strides of a view of a
    contiguous tensor may have the size itself.
    """
    stride = bound = 1
    for size, actual in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if actual not in (stride, bound):
            return False
        if isinstance(size, int):
            stride, bound = stride * (size or 1), bound * (size or 1)
        else:
            stride, bound = stride * size, bound * _at_least_one(size)
    return True


@functools.cache
def _at_least_one(size: Any) -> Any:
    from onnx_parity.exporter.expressions.expression import Number
    from onnx_parity.exporter.expressions.integers_and_reals import Max

    return Max.of(Number(1), size)

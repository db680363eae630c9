"""The results of pointwise operators, for tensors whose sizes are known to fit because they are the same expressions.

For most operators torch's kernels import dynamo and sympy, which takes a second of a process's first export. With
dynamic sizes they take 0.6 ms for each call. Together with the deferred imports this brought the first export of an
LSTM from 1.2 s to 0.15 s of processor time, and that of a script with a loop from 1.4 s to 0.2 s. Calls that need type
promotion, beyond that of a number, or whose arguments lie in different orders in memory, are left to the kernels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size, broadcast_size
from onnx_parity.exporter.recording.fakes.fake_mode import expressions
from onnx_parity.exporter.recording.fakes.metadata import Metadata, describe, lies_in_order
from onnx_parity.exporter.registry.results import Contiguous, Strided, result_of

__all__ = [
    "bits",
    "broadcast",
    "comparison",
    "floats",
    "is_exotic",
    "numbers",
    "pointwise",
    "reversed_numbers",
    "scaled_numbers",
]

_WHY = "torch's fake kernels import sympy, and take 0.6 ms for each call with dynamic sizes"
#: Keyword arguments that do not affect the result.
_NOTHING: tuple[Mapping[str, Any], ...] = ({}, {"pin_memory": False})


class _Kind(IntEnum):
    """Categories of dtypes, in the order of type promotion."""

    BOOLS = 0
    INTEGERS = 1
    FLOATS = 2
    OTHERS = 3


_INTEGER_DTYPES = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_NUMBERS = {bool: _Kind.BOOLS, int: _Kind.INTEGERS, torch.SymInt: _Kind.INTEGERS, float: _Kind.FLOATS}


def pointwise(rule: Callable[..., Any], names: str) -> None:
    """Let one of the functions below describe the results of ATen operators: `pointwise(floats, "exp log add.Tensor")`.

    Their arguments are tensors, which are broadcast together, and numbers.
    """
    result_of(*(f"aten::{name}" for name in names.split()), why=_WHY)(rule)


def floats(*operands: Any, **options: Any) -> Any:
    """Of floats, the result has their dtype."""
    kind, dtype = _promoted(operands)
    return _described(operands, options, dtype if kind is _Kind.FLOATS else None)


def numbers(*operands: Any, **options: Any) -> Any:
    """Of floats or integers, the result has their dtype. A float beside integers makes floats of them."""
    kind, dtype = _promoted(operands)
    if kind is _Kind.INTEGERS and any(_NUMBERS.get(type(each)) is _Kind.FLOATS for each in operands):
        dtype = torch.get_default_dtype()
    return _described(operands, options, dtype if kind in (_Kind.INTEGERS, _Kind.FLOATS) else None)


def scaled_numbers(self: Any, other: Any, *alpha: Any) -> Any:
    """As `numbers`, without the factor of `other`, which torch refuses for some dtypes."""
    return NotImplemented if alpha else numbers(self, other)


def reversed_numbers(self: Any, other: Any, **options: Any) -> Any:
    """As `numbers`, of an operator that calls another with the second operand first."""
    return numbers(other, self, **options)


def bits(*operands: Any) -> Any:
    """Of integers or booleans, the result has their dtype."""
    kind, dtype = _promoted(operands)
    return _described(operands, {}, dtype if kind in (_Kind.BOOLS, _Kind.INTEGERS) else None)


def comparison(*operands: Any) -> Any:
    """The result is booleans."""
    kind, _ = _promoted(operands)
    return _described(operands, {}, None if kind is None or kind is _Kind.OTHERS else torch.bool)


def is_exotic(dtype: torch.dtype) -> bool:
    """Whether it is a dtype of other than complex and real numbers, or booleans."""
    return _kind(dtype) is _Kind.OTHERS and not dtype.is_complex


def broadcast(*tensors: torch.Tensor, axes: slice = slice(None)) -> tuple[Size, ...] | None:
    """The shape that (some axes of) tensors are broadcast to; None if that depends on the values of dynamic sizes."""
    shapes = [(describe(each).shape[axes], each.shape[axes]) for each in tensors]
    sizes: list[Size] = []
    for axis in range(-max(len(known) for known, _ in shapes), 0):
        present = {known[axis]: shape[axis] for known, shape in shapes if len(known) >= -axis and known[axis] != 1}
        size: Size = 1
        for other in present.values():
            both = broadcast_size(size, other)
            if both is None:
                return None
            size = both
        sizes.append(size)
    return tuple(sizes)


def _promoted(operands: Sequence[Any]) -> tuple[_Kind | None, torch.dtype | None]:
    """The dtype of the tensors, of which one without axes may be of a dtype that the others' includes; else None."""
    tensors = [describe(each) for each in operands if isinstance(each, torch.Tensor)]
    dtypes = {each.dtype for each in tensors if each.shape} or {each.dtype for each in tensors}
    if len(dtypes) != 1:
        return None, None
    (dtype,) = dtypes
    kind = _kind(dtype)
    if any(each.dtype != dtype and _kind(each.dtype) > kind for each in tensors):
        return None, None
    return kind, dtype


def _kind(dtype: torch.dtype) -> _Kind:
    if dtype.is_floating_point:
        return _Kind.FLOATS
    if dtype in _INTEGER_DTYPES:
        return _Kind.INTEGERS
    return _Kind.BOOLS if dtype is torch.bool else _Kind.OTHERS


def _described(operands: Sequence[Any], options: Mapping[str, Any], dtype: torch.dtype | None) -> Any:
    if dtype is None or options not in _NOTHING:
        return NotImplemented
    tensors = [each for each in operands if isinstance(each, torch.Tensor)]
    known = [describe(each) for each in tensors]
    if any(each.device != known[0].device for each in known):
        return NotImplemented
    if len(tensors) < len(operands) and not all(isinstance(x, torch.Tensor) or type(x) in _NUMBERS for x in operands):
        return NotImplemented
    shape = broadcast(*tensors)
    if shape is None:
        return NotImplemented
    sizes = expressions(shape)
    if all(each.is_contiguous for each in known) or lies_in_order(sizes, *(_strides(each, sizes) for each in known)):
        return Contiguous(dtype, shape)
    first, *others = known
    # Strides that all differ decide the order of the axes.
    decides = len(tensors) == len(operands) and others and first.shape == sizes and len({*first.strides}) == len(sizes)
    if decides and not {0, 1} & {*sizes} and dtype == first.dtype and _is_transposed(first):
        return Strided(dtype, shape, tensors[0].stride())
    return NotImplemented


def _strides(tensor: Metadata, sizes: Sequence[Any]) -> list[Any]:
    """The strides of a tensor that is expanded to these sizes."""
    own = zip(tensor.shape, tensor.strides, sizes[len(sizes) - len(tensor.shape) :], strict=True)
    expanded = [stride if size == whole else 0 for size, stride, whole in own]
    return [0] * (len(sizes) - len(expanded)) + expanded


def _is_transposed(tensor: Metadata) -> bool:
    """Whether a tensor is contiguous but for two axes, which are transposed in memory."""
    for one, other in itertools.combinations(range(len(tensor.shape)), 2):
        shape, strides = [*tensor.shape], [*tensor.strides]
        for each in (shape, strides):
            each[one], each[other] = each[other], each[one]
        if tensor._replace(shape=tuple(shape), strides=tuple(strides)).is_contiguous:
            return True
    return False

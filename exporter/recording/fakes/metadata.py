"""The metadata of fake tensors, read once for each tensor; and whether a tensor is contiguous."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from onnx_parity.exporter.expressions.expression import expression_of
from onnx_parity.exporter.graph.graph import Size, same_size
from onnx_parity.exporter.recording.fakes.fake_mode import expressions
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor

if TYPE_CHECKING:
    from onnx_parity.exporter.recording.fakes.fake_mode import Fakes
    from onnx_parity.exporter.sizes.symbols import Symbols

__all__ = [
    "Metadata",
    "are_contiguous",
    "are_on_one_device",
    "at_least_one",
    "data_dependent_size",
    "describe",
    "fake_tensors_in",
    "is_surely_contiguous",
    "lies_in_order",
    "symbols_of",
]

#: The attribute of a fake tensor that holds its metadata. To read it from the tensor takes 13 us.
_KEPT = "_onnx_parity_metadata"


class Metadata(NamedTuple):
    """The metadata of a fake tensor. A dynamic size is given as its expression."""

    dtype: torch.dtype
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    device: torch.device

    @property
    def is_contiguous(self) -> bool:
        """Whether the strides are those that torch gives a contiguous tensor of this shape.

        torch counts a dynamic size that may be 0 as `Max(1, size)`, because a stride is never 0. The strides of a view
        of a contiguous tensor may have the size itself.
        """
        stride = bound = 1
        for size, actual in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if actual not in (stride, bound):
                return False
            if isinstance(size, int):
                stride, bound = stride * (size or 1), bound * (size or 1)
            else:
                stride, bound = stride * size, bound * _expression_at_least_one(size)
        return True


def lies_in_order(shape: Sequence[Any], *strides: Sequence[Any]) -> bool:
    """Whether torch gives the result of a pointwise operator the order of its axes in memory, for operands of these
    strides, in which an axis along which an operand is repeated has 0.

    Of two axes, the first operand that is repeated along neither of them decides, by which of its strides is larger. An
    axis of one element has a place in that order too, and others may be moved past it.
    """
    for outer in range(len(shape)):
        for inner in range(outer + 1, len(shape)):
            for each in strides:
                if each[outer] == 0 or each[inner] == 0:
                    continue
                if _is_multiple(each[outer], each[inner]):
                    break
                # Of equal strides, the axis of fewer elements is the inner one.
                if each[outer] != each[inner] or shape[inner] not in (1, shape[outer]):
                    return False
    return True


def _is_multiple(stride: Any, other: Any) -> bool:
    """Whether a stride is a multiple of another one that differs from it, for all sizes."""
    if isinstance(stride, int) and isinstance(other, int):
        return stride > other
    number, factors = expression_of(stride).factors()
    others_number, others = expression_of(other).factors()
    rest = Counter(factors)
    rest.subtract(others)
    return number >= others_number and min(rest.values(), default=0) >= 0 and stride != other


def describe(tensor: torch.Tensor) -> Metadata:
    """The metadata of a fake tensor."""
    known = tensor.__dict__.get(_KEPT)
    if known is None:
        fake = cast("FakeTensor", tensor)
        known = Metadata(fake.dtype, expressions(fake.shape), expressions(fake.stride()), fake.fake_device)
        tensor.__dict__[_KEPT] = known
    return cast("Metadata", known)


def symbols_of(tensor: torch.Tensor) -> Symbols | None:
    """The symbols of the recording that a fake tensor belongs to; None if all sizes are static."""
    return cast("Fakes", cast("FakeTensor", tensor).fake_mode).symbols


def data_dependent_size(like: torch.Tensor) -> torch.SymInt:
    """A new size that depends on data, in the recording that a fake tensor belongs to."""
    symbols = symbols_of(like)
    assert symbols is not None, "only a recording with symbols has such sizes"
    return symbols.create_unbacked_symint()


def are_on_one_device(*tensors: torch.Tensor | None) -> bool:
    """Whether the tensors that are given are on the same device."""
    return len({describe(each).device for each in tensors if each is not None}) == 1


def are_contiguous(*tensors: torch.Tensor | None) -> bool:
    """Whether the tensors that are given are contiguous, and on the same device."""
    known = [describe(each) for each in tensors if each is not None]
    return len({each.device for each in known}) == 1 and all(each.is_contiguous for each in known)


def is_surely_contiguous(x: torch.Tensor, axes: Sequence[int] | None = None) -> bool:
    """Whether a tensor, with its axes in another order if `axes` gives one, is contiguous by torch's definition, in
    which an axis of one element may have any stride.

    The results of torch's kernels may lie otherwise if there is such an axis: this is to be asked about arguments whose
    elements are taken in the order of memory.
    """
    expected: Size = 1
    sizes: list[Size] = [*x.shape]
    strides: list[Size] = [*x.stride()]
    for axis in reversed(range(x.ndim) if axes is None else axes):
        size, stride = sizes[axis], strides[axis]
        if not same_size(stride, expected) and not same_size(size, 1):
            return False
        expected = expected * at_least_one(size)
    return True


def at_least_one(size: Size) -> Size:
    """A size as it counts in strides, which are never 0."""
    return max(size, 1) if isinstance(size, int) else torch.sym_max(size, 1)


@functools.cache
def _expression_at_least_one(size: Any) -> Any:
    from onnx_parity.exporter.expressions.expression import Number
    from onnx_parity.exporter.expressions.integers_and_reals import Max

    return Max.of(Number(1), size)


def fake_tensors_in(arguments: Any) -> Iterator[FakeTensor]:
    """The fake tensors among arguments, lists of them included."""
    for argument in arguments:
        if isinstance(argument, FakeTensor):
            yield argument
        elif isinstance(argument, (tuple, list)):
            yield from fake_tensors_in(argument)

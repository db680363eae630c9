"""Questions about how a tensor lies in memory, as conditions on its sizes and strides.

They are those of torch, which asks them of each tensor with dynamic sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from onnx_parity.exporter.expressions.conditions import FALSE, TRUE, And, Equal, GreaterOrEqual, Or, Unequal
from onnx_parity.exporter.expressions.expression import Expression, Mul, Number
from onnx_parity.exporter.expressions.integers_and_reals import Max

__all__ = ["QUESTIONS", "are_in_order", "may_be_viewed", "order_of", "suggested_format"]

_Sizes = Sequence[Expression]
_ZERO, _ONE = Number(0), Number(1)


class IsDense(Expression):
    """1 if no two elements lie in the same place and there is no place between them, else 0."""

    @staticmethod
    def value(*numbers: Any) -> int:
        rank = len(numbers) // 2
        # Axes of one element may have any stride.
        steps = sorted((stride, size) for size, stride in zip(numbers[:rank], numbers[rank:], strict=True) if size != 1)
        expected = 1
        for stride, size in steps:
            if stride != expected:
                return 0
            expected *= size
        return 1


def are_in_order(sizes: _Sizes, strides: _Sizes, order: Sequence[int] | None = None) -> Expression:
    """Whether the axes lie behind each other, the last of the order outermost, if none of them is empty."""
    conditions: list[Expression] = []
    expected: Expression = _ONE
    for axis in range(len(sizes) - 1, -1, -1) if order is None else order:
        conditions.append(Or.of(Equal.of(sizes[axis], _ONE), Equal.of(strides[axis], expected)))
        expected = Mul.of(expected, sizes[axis])
    return And.of(TRUE, *conditions)


def may_be_viewed(sizes: _Sizes, strides: _Sizes, new: _Sizes) -> Expression:
    """Whether a tensor may have these new sizes without a copy, if none of them is 0: they are its own, or of
    two axes that are joined, between which others have one element, and that do not lie behind each other, one has one
    element."""
    conditions: list[Expression] = []
    begun = {*itertools.accumulate(new, Mul.of)}
    joined = [before not in begun for before in itertools.accumulate(sizes[:-1], Mul.of)]
    for axis, other in itertools.combinations(range(len(sizes)), 2):
        between = [Unequal.of(size, _ONE) for size in sizes[axis + 1 : other]]
        if all(joined[axis:other]) and TRUE not in between:
            own, step = strides[axis], strides[other]
            # What follows an axis of stride 1 has one element.
            follows = FALSE if own == _ONE else Equal.of(own, Mul.of(sizes[other], step))
            are_one = Equal.of(sizes[axis], _ONE), Equal.of(sizes[other], _ONE)
            conditions.append(Or.of(follows, *are_one, *between))
    same = [Equal.of(one, other) for one, other in zip(sizes, new, strict=False)] if len(sizes) == len(new) else [FALSE]
    return Or.of(And.of(TRUE, *conditions), And.of(TRUE, *same))


def _is_contiguous(sizes: _Sizes, strides: _Sizes, order: Sequence[int] | None = None) -> Expression:
    if order is not None and len(order) != len(sizes):
        return FALSE
    return Or.of(are_in_order(sizes, strides, order), *[Equal.of(size, _ZERO) for size in sizes])


def _has_strides_of_channels_last(sizes: _Sizes, strides: _Sizes, order: Sequence[int]) -> Expression:
    """Whether the strides are in this order. Where several orders fit, those of a contiguous tensor count."""
    if len(order) != len(sizes):
        return FALSE
    conditions = [Unequal.of(strides[1], _ZERO)]
    least: Expression = _ZERO
    for axis in order:
        conditions += [Unequal.of(sizes[axis], _ZERO), GreaterOrEqual.of(strides[axis], least)]
        if axis == 0:
            conditions.append(Unequal.of(least, strides[1]))
        least = Mul.of(strides[axis], Max.of(_ONE, sizes[axis]))
    return And.of(*conditions)


_CHANNELS_LAST = {"2d": (1, 3, 2, 0), "3d": (1, 4, 3, 2, 0)}
_LAYOUTS = {torch.channels_last: _CHANNELS_LAST["2d"], torch.channels_last_3d: _CHANNELS_LAST["3d"]}


def order_of(memory_format: torch.memory_format, rank: int) -> Sequence[int] | None:
    """The axes of a tensor in a memory format, the innermost first. None if tensors of this rank have no such order."""
    order = _LAYOUTS.get(memory_format, range(rank - 1, -1, -1))
    return order if len(order) == rank else None


def suggested_format(tensor: torch.Tensor) -> torch.memory_format:
    """The memory format that torch's kernels give to what they make of a tensor, with the sizes of the recording."""
    for memory_format, order in _LAYOUTS.items():
        if tensor.layout is torch.strided and tensor.ndim == len(order):
            sizes, strides = _in_recording(tensor.shape), _in_recording(tensor.stride())
            if None not in (*sizes, *strides):
                question = _has_strides_of_channels_last([*map(Number, sizes)], [*map(Number, strides)], order)
                return memory_format if question == TRUE else torch.contiguous_format
    return torch.contiguous_format


def _in_recording(sizes: Sequence[Any]) -> list[Any]:
    return [size if type(size) is int else size.node.hint for size in sizes]


#: By the names of torch's methods: the expression, and the type of its value.
QUESTIONS: dict[str, tuple[Callable[[_Sizes, _Sizes], Expression], type]] = {
    "is_contiguous": (_is_contiguous, bool),
    "is_non_overlapping_and_dense_indicator": (lambda sizes, strides: IsDense.of(*sizes, *strides), int),
}
for _name, _order in _CHANNELS_LAST.items():
    QUESTIONS[f"is_channels_last_contiguous_{_name}"] = (partial(_is_contiguous, order=_order), bool)
    QUESTIONS[f"is_channels_last_strides_{_name}"] = (partial(_has_strides_of_channels_last, order=_order), bool)

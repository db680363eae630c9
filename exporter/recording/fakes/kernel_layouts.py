"""How the results of operators lie in memory, as torch's own kernels lay them.

The kernels for tensors without data lay some results otherwise, and with dynamic sizes torch does not compute all
orders of axes. Where what a program does depends on how a tensor lies (`Decision.LAYOUTS_OF_KERNELS`), each operator on
tensors that are not contiguous is called with zeros, of the sizes of the recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.dispatch.composites import original
from onnx_parity.exporter.graph.graph import Node, Size, Value, Varying
from onnx_parity.exporter.recording.fakes.fake_mode import plain_tensors
from onnx_parity.exporter.recording.fakes.metadata import at_least_one, describe, fake_tensors_in
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, is_view
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.modes import outside_of_modes, without_function_overrides

if TYPE_CHECKING:
    from onnx_parity.exporter.expressions.expression import Expression

__all__ = ["Ancestry", "strides_by_kernel"]

_CPU = torch.device("cpu")
#: Operators on tensors of more elements are not called.
_MOST_ELEMENTS = 1 << 26
#: Views that the recording has as copies.
_UNSAFE_VIEW = torch.ops.aten._unsafe_view.default


def strides_by_kernel(
    func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], results: Sequence[Any]
) -> list[list[Size] | None] | None:
    """For each result of an operator the strides that its kernel gives it; None for one that has them, and for all if
    the kernel need not or cannot be called."""
    func = original(func)
    tensors = [*fake_tensors_in((*args, *kwargs.values()))]
    if is_view(func) or func is _UNSAFE_VIEW or torch.Tag.nondeterministic_seeded in func.tags:
        return None
    involved = [*tensors, *fake_tensors_in(results)]
    if any(describe(each).device != _CPU for each in involved) or all(
        describe(each).is_contiguous for each in involved
    ):
        return None
    try:
        with outside_of_modes(), plain_tensors(), without_function_overrides(), torch.no_grad():
            made = func(*_with_zeros(tuple(args)), **_with_zeros(kwargs))
        made = made if isinstance(made, (tuple, list)) else (made,)
        return [_strides(known, each) for known, each in zip(results, made, strict=False)]
    except (_Unknown, RuntimeError, IndexError, ValueError):
        return None  # Some values are refused, such as a matrix of zeros that is to be inverted.


class Ancestry:
    """What values of a recording are computed from, as far as it decides how they lie in memory."""

    def __init__(self, fakes: Mapping[Value, FakeTensor]) -> None:
        self._fakes = fakes

    def is_open(self, value: Value) -> bool:
        """Whether torch's kernels decided how a value lies, of more than contiguous tensors."""
        involved = (
            each
            for node in self._nodes(value)
            if not (isinstance(node.op, OpOverload) and (is_view(node.op) or node.op is _UNSAFE_VIEW))
            for each in (*node.inputs(), *node.outputs)
            if each is not None and each in self._fakes
        )
        return not all(describe(self._fakes[each]).is_contiguous for each in involved)

    def sizes(self, value: Value) -> list[Expression]:
        """The sizes of the value and of what it is computed from that are not numbers."""
        values = [value, *(each for node in self._nodes(value) for each in node.inputs())]
        sizes = (size for each in values if each in self._fakes for size in describe(self._fakes[each]).shape)
        return [*dict.fromkeys(size for size in sizes if not isinstance(size, int))]

    def _nodes(self, value: Value) -> Iterator[Node]:
        waiting, seen = [value], {value}
        while waiting:
            node = waiting.pop().node
            if node is not None:
                yield node
                further = [each for each in node.inputs() if each not in seen]
                seen.update(further)
                waiting += further


class _Unknown(Exception):
    """A size that depends on values, or a tensor that is too large."""


def _with_zeros(argument: Any) -> Any:
    """Arguments with plain numbers for symbols, and zeros that lie as the fake tensors do."""
    if isinstance(argument, FakeTensor):
        sizes, strides = [*map(_plain, argument.shape)], [*map(_plain, argument.stride())]
        reach = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if reach > _MOST_ELEMENTS:
            raise _Unknown
        return torch.empty_strided(sizes, strides, dtype=argument.dtype).zero_()
    if isinstance(argument, dict):
        return {name: _with_zeros(each) for name, each in argument.items()}
    if isinstance(argument, (tuple, list)):
        return type(argument)(map(_with_zeros, argument))
    return _plain(argument)


def _plain(number: Any) -> Any:
    if not isinstance(number, Varying):
        return number
    known = number.node.hint
    if known is None:
        raise _Unknown
    return known


def _strides(known: Any, made: Any) -> list[Size] | None:
    if not isinstance(known, FakeTensor) or not isinstance(made, torch.Tensor) or made.layout is not torch.strided:
        return None
    sizes, strides = [*map(_plain, known.shape)], made.stride()
    if [*made.shape] != sizes or [*map(_plain, known.stride())] == [*strides]:
        return None
    return _at_any_size(known.shape, sizes, strides)


def _at_any_size(shape: Sequence[Size], sizes: Sequence[int], strides: Sequence[int]) -> list[Size] | None:
    """The strides of a tensor that lies without gaps, its axes in the order in which they lie with these sizes."""
    found: list[Size] = [*strides]
    step: Size = 1
    here = 1
    for axis in sorted(range(len(sizes)), key=lambda axis: (strides[axis], sizes[axis] != 1, -axis)):
        if strides[axis] == here:
            found[axis] = step
        elif sizes[axis] != 1:
            return None
        here, step = here * max(sizes[axis], 1), step * at_least_one(shape[axis])
    return found

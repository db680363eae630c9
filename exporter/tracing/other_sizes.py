"""Whether a program runs with any other size of a dynamic axis that it fixes.

If it does not, a model that is static there can do all that the program can: `nn.Linear(3, 2)` has one number of
features, whatever `dynamic_axes` says. Otherwise such a model would be less than what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from msgspec.structs import replace

from onnx_parity.exporter.expressions.conditions import Equal, Unequal
from onnx_parity.exporter.expressions.expression import Number
from onnx_parity.exporter.recording.fakes.input_layouts import laid_out_like
from onnx_parity.exporter.request.dynamic_axes import Axes
from onnx_parity.exporter.request.marked_inputs import is_input
from onnx_parity.exporter.request.size_expressions import is_expression, size_named
from onnx_parity.exporter.sizes.answers import Answer
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.tracing.to_record import Attempt, ToRecord

__all__ = ["resized_to", "runs_with_another_size"]

#: The sizes below this are looked through for those that are broadcast.
_MOST = 64


def runs_with_another_size(
    wanted: ToRecord, attempt: Attempt, fixed: Mapping[str, Answer], runs: Callable[[ToRecord, Attempt], bool]
) -> bool:
    """Whether the program runs, or may run, with another size of one of these axes than the example has.

    `fixed` has the comparison that fixes each axis. `runs` records the program in an attempt, in which all axes are
    static.
    """
    every = attempt.axes.names
    if any(is_expression(each, every) for each in every):
        return True
    static = replace(attempt, axes=Axes())
    for name, answer in fixed.items():
        places = {
            position: [axis for axis, each in named.items() if each == name]
            for position, named in attempt.axes.inputs.items()
        }
        if not any(places.values()):  # It is no axis of an input.
            return True
        for size in _others(wanted, places, answer):
            resized = _resized(wanted, places, size)
            if resized is None:
                return True
            if runs(resized, static):
                return True
    return False


def _inputs(leaves: Sequence[Any]) -> list[int]:
    """The places of the inputs among the flattened arguments."""
    return [place for place, leaf in enumerate(leaves) if is_input(leaf)]


def _others(wanted: ToRecord, places: Mapping[int, Sequence[int]], answer: Answer) -> list[int]:
    """Other sizes of an axis, the likeliest to be possible first."""
    leaves = pytree.tree_leaves((wanted.args, wanted.kwargs))
    inputs = _inputs(leaves)
    sizes = {
        leaves[inputs[position]].shape[axis]
        for position, axes in places.items()
        for axis in axes
        if isinstance(leaves[inputs[position]], torch.Tensor)
    }
    size = max(sizes, default=0)
    usual = (size + 1, 2 * size, 1, 2, size - 1, 0)
    return [each for each in dict.fromkeys((*usual, *_broadcast(answer, size))) if each not in (size, -1)]


def _broadcast(answer: Answer, size: int) -> list[int]:
    """The sizes of an axis below that of the example at which a side of the comparison is 1, and is broadcast."""
    expression = answer.expression
    if not isinstance(expression, Equal | Unequal) or len(expression.free_symbols) != 1:
        return []
    (symbol,) = expression.free_symbols
    sides = [side for side in expression.args if side.free_symbols]
    are_one = [Equal.of(side, Number(1)) for side in sides]
    return [each for each in range(min(size, _MOST)) if any(one.holds_at({symbol: each}) for one in are_one)]


def _resized(wanted: ToRecord, places: Mapping[int, Sequence[int]], size: int) -> ToRecord | None:
    """The call with zeros of another size in these axes; None if one of them belongs to a list or an optional."""
    leaves, structure = pytree.tree_flatten((wanted.args, wanted.kwargs))
    inputs = _inputs(leaves)
    for position, axes in places.items():
        leaf = leaves[inputs[position]]
        if axes:
            if not isinstance(leaf, torch.Tensor):
                return None
            shape = [size if axis in axes else known for axis, known in enumerate(leaf.shape)]
            leaves[inputs[position]] = leaf.new_zeros(shape)
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    return replace(wanted, args=args, kwargs=kwargs)


def resized_to(wanted: ToRecord, axes: Axes, sizes: Mapping[str, int]) -> ToRecord | None:
    """The call with inputs of other sizes, by the names of axes, whose elements repeat those of the example and that
    lie in memory as it does. None if an axis belongs to a list or an optional."""
    leaves, structure = pytree.tree_flatten((wanted.args, wanted.kwargs))
    inputs = _inputs(leaves)
    for position, named in axes.inputs.items():
        if not named:
            continue
        example = leaves[inputs[position]]
        if not isinstance(example, torch.Tensor):
            return None
        other = example
        for axis, name in named.items():
            size, before = size_named(name, sizes), example.shape[axis]
            if size < 0:
                return None
            if not before and size:
                other = torch.zeros([*other.shape[:axis], size, *other.shape[axis + 1 :]], dtype=example.dtype)
            elif size != before:
                other = other.index_select(axis, torch.arange(size, device=other.device) % max(before, 1))
        leaves[inputs[position]] = laid_out_like(example, other)
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    return replace(wanted, args=args, kwargs=kwargs)

"""Branches that a program takes by a dynamic size, and whether the recorded program is right for the other sizes too.

The program is recorded once more for each question, with the other answer. If both recordings are the same, the answer
does not matter:

1. They are the same as they are: `is_causal = length > 1 and mask is None`, where there is a mask.
2. The question was whether a tensor is empty, and they are the same where the size is 0: a cache that answers 0 for its
   length if it is empty, and its size otherwise.
3. It was, and where the size is 0 all outputs are empty, and have the same shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.capture.graph.graph import Block, Graph, Node, Size, Value, Varying

if TYPE_CHECKING:
    import sympy

__all__ = ["does_not_matter"]

#: Constants of more bytes are the same only if they are in the same place.
_MOST_COMPARED = 1 << 20


def does_not_matter(question: sympy.Basic, one: Graph, other: Graph) -> bool:
    """Whether two recordings, which differ in the answer to this question, are right for all sizes alike."""
    if _Comparison({}).same(one, other):
        return True
    where_empty = _where_empty(question)
    return bool(where_empty) and all(
        comparison.same(one, other) or comparison.both_empty(one, other) for comparison in map(_Comparison, where_empty)
    )


def _where_empty(question: sympy.Basic) -> list[dict[sympy.Basic, int]]:
    """For the question whether a tensor is empty: each of its sizes as 0."""
    import sympy

    if not isinstance(question, sympy.Eq | sympy.Ne) or question.args[1] != 0:
        return []
    each = [{symbol: 0} for symbol in question.free_symbols]
    return each if all(question.args[0].xreplace(empty) == 0 for empty in each) else []


class _Comparison:
    """The comparison of two recordings where some sizes have these values."""

    def __init__(self, sizes: Mapping[sympy.Basic, int]) -> None:
        self._sizes = sizes
        #: Values of one recording, and those of the other that they correspond to.
        self._pairs: dict[Value, Value] = {}

    def same(self, one: Graph, other: Graph) -> bool:
        """Whether they compute the same."""
        self._pairs = {a.value: b.value for a, b in zip(one.inputs, other.inputs, strict=True)}
        steps, others = one.live_nodes(), other.live_nodes()
        return (
            len(steps) == len(others)
            and all(map(self._same_node, steps, others))
            and self._same_value(one.outputs, other.outputs)
            and self._same_shapes(one.outputs, other.outputs)
        )

    def both_empty(self, one: Graph, other: Graph) -> bool:
        """Whether the outputs of both are empty, and of the same shapes."""
        empty = all(any(self._plain(size) == 0 for size in output.shape) for output in one.outputs)
        return empty and self._same_shapes(one.outputs, other.outputs)

    def _same_node(self, one: Node, other: Node) -> bool:
        if one.op is not other.op or one.arguments.keys() != other.arguments.keys():
            return False
        if not all(self._same_value(each, other.arguments[name]) for name, each in one.arguments.items()):
            return False
        for mine, theirs in zip(one.outputs, other.outputs, strict=True):
            if mine is not None and theirs is not None:
                self._pairs[mine] = theirs
        return [output is None for output in one.outputs] == [output is None for output in other.outputs]

    def _same_value(self, one: Any, other: Any) -> bool:
        if isinstance(one, Value):
            if not isinstance(other, Value):
                return False
            if one.constant is not None and other.constant is not None:
                return _same_tensor(one.constant, other.constant)
            return self._pairs.get(one) is other
        if isinstance(one, list | tuple):
            return isinstance(other, list | tuple) and len(one) == len(other) and all(map(self._same_value, one, other))
        if isinstance(one, Block) or isinstance(other, Block):
            return False
        return bool(self._plain(one) == self._plain(other))

    def _same_shapes(self, one: Sequence[Value], other: Sequence[Value]) -> bool:
        shapes = ([[self._plain(size) for size in value.shape] for value in values] for values in (one, other))
        return next(shapes) == next(shapes)

    def _plain(self, number: Size | Varying | Any) -> Any:
        if not isinstance(number, Varying):
            return number
        expression = number.node.expr.xreplace(dict(self._sizes))
        return int(expression) if expression.is_Integer else expression


def _same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype is not other.dtype or one.shape != other.shape:
        return False
    if one.data_ptr() == other.data_ptr() and one.stride() == other.stride():
        return True
    return one.nbytes <= _MOST_COMPARED and torch.equal(one, other)

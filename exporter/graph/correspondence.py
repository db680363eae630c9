"""Whether two recordings, or parts of one, compute the same: node by node, with the sizes and numbers in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnx_parity.exporter.expressions.conditions import Equal, LessOrEqual
from onnx_parity.exporter.expressions.expression import Expression, Number, expression_of
from onnx_parity.exporter.expressions.solving import follows_from
from onnx_parity.exporter.graph.graph import Block, Node, Size, Value, Varying

__all__ = ["Correspondence"]

#: Operators that give the same, and differ in whether they may share memory with what they are given.
_SAME: dict[object, object] = {torch.ops.aten._unsafe_view.default: torch.ops.aten.view.default}
_VIEWS = frozenset({torch.ops.aten.view.default, *_SAME})
#: Their result is what they are given, if it has the same shape.
_KEEPING = frozenset({torch.ops.aten.clone.default, torch.ops.aten.expand.default, torch.ops.aten.slice.Tensor})
_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
#: Those of its arguments that stand before `is_causal`.
_DEFAULTS = {"attn_mask": None, "dropout_p": 0.0}
#: Constants of more bytes are the same only if they are in the same place.
_MOST_COMPARED = 1 << 20


class Correspondence:
    """What corresponds in two lists of nodes, where some symbols have these values, or are these other symbols, and
    where these conditions on sizes hold."""

    def __init__(self, symbols: Mapping[Any, Any], where: Sequence[Expression] = ()) -> None:
        self._symbols = dict(symbols)
        self._where = where
        self._known_equal: dict[tuple[Any, Any], bool] = {}
        #: Values of one list, and those of the other that they correspond to.
        self.pairs: dict[Value, Value] = {}
        #: What these nodes give where they change nothing, and what they are given.
        self._unchanged: dict[Value, Value] = {}

    def same_nodes(self, one: Sequence[Node], other: Sequence[Node]) -> bool:
        steps, others = self._changing(one), self._changing(other)
        return len(steps) == len(others) and all(map(self._same_node, steps, others))

    def same_block(self, one: Block, other: Block) -> bool:
        """Whether two bodies of branches or loops compute the same. They are compared with all that they contain."""
        if len(one.inputs) != len(other.inputs):
            return False
        self.pairs.update(zip(one.inputs, other.inputs, strict=True))
        return self.same_nodes(one.nodes, other.nodes) and self.same_value(one.outputs, other.outputs)

    def _changing(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes without those that copy a tensor, expand it to the shape that it has, or take the whole of it."""
        changing = []
        for node in nodes:
            given, result = node.arguments.get("self"), node.outputs[0]
            if (
                node.op in _KEEPING
                and isinstance(given, Value)
                and result is not None
                and self.same_shapes([given], [result])
            ):
                self._unchanged[result] = self._unchanged.get(given, given)
            else:
                changing.append(node)
        return changing

    def _same_node(self, one: Node, other: Node) -> bool:
        given, others = self._arguments(one), self._arguments(other)
        if _SAME.get(one.op, one.op) is not _SAME.get(other.op, other.op) or given.keys() != others.keys():
            return False
        if not all(self.same_value(each, others[name]) for name, each in given.items()):
            return False
        for mine, theirs in zip(one.outputs, other.outputs, strict=True):
            if mine is not None and theirs is not None:
                if mine.dtype is not theirs.dtype:
                    return False
                self.pairs[mine] = theirs
        return [output is None for output in one.outputs] == [output is None for output in other.outputs]

    def _arguments(self, node: Node) -> dict[str, Any]:
        """The arguments of a node. Attention with at most one query and one key is as if it were not causal: this query
        sees this key either way. Of a view, the size that is -1 is what it is."""
        given = node.arguments
        if node.op in _VIEWS and node.outputs[0] is not None:
            return {**given, "size": node.outputs[0].shape}
        if node.op is not _ATTENTION or not given.get("is_causal"):
            return given
        if not all(self._is_at_most_one(given[name].shape[-2]) for name in ("query", "key")):
            return given
        return {name: each for name, each in given.items() if name != "is_causal" and each != _DEFAULTS.get(name, ())}

    def _is_at_most_one(self, size: Size) -> bool:
        number = self.plain(size)
        if not isinstance(number, Expression):
            return bool(number <= 1)
        return bool(self._where) and follows_from(LessOrEqual.of(number, Number(1)), self._where)

    def same_value(self, one: Any, other: Any) -> bool:
        if isinstance(one, Value):
            if not isinstance(other, Value):
                return False
            one, other = self._unchanged.get(one, one), self._unchanged.get(other, other)
            if one.constant is not None and other.constant is not None:
                if one.constant.is_meta or other.constant.is_meta:
                    # Weights without data, which are new tensors in each recording.
                    return bool(one.constant.is_meta and other.constant.is_meta and one.name == other.name != "")
                return _same_tensor(one.constant, other.constant)
            return self.pairs.get(one, one) is other
        if isinstance(one, list | tuple):
            return isinstance(other, list | tuple) and len(one) == len(other) and all(map(self.same_value, one, other))
        if isinstance(one, Block) or isinstance(other, Block):
            return isinstance(one, Block) and isinstance(other, Block) and self.same_block(one, other)
        return self._same_number(one, other)

    def same_shapes(self, one: Sequence[Value], other: Sequence[Value]) -> bool:
        return len(one) == len(other) and all(
            len(mine.shape) == len(theirs.shape) and all(map(self._same_number, mine.shape, theirs.shape))
            for mine, theirs in zip(one, other, strict=True)
        )

    def _same_number(self, one: Any, other: Any) -> bool:
        one, other = self.plain(one), self.plain(other)
        return _same_number(one, other) or (bool(self._where) and self._are_equal_there(one, other))

    def _are_equal_there(self, one: Any, other: Any) -> bool:
        """Whether two sizes are equal wherever the conditions hold."""
        if not any(isinstance(each, Expression) for each in (one, other)):
            return False
        if not all(type(each) is int or (isinstance(each, Expression) and not each.is_float) for each in (one, other)):
            return False
        if (one, other) not in self._known_equal:
            question = Equal.of(expression_of(one), expression_of(other))
            self._known_equal[one, other] = follows_from(question, self._where)
        return self._known_equal[one, other]

    def plain(self, number: Size | Varying | Any) -> Any:
        if not isinstance(number, Varying):
            return number
        expression = number.node.expr.xreplace(self._symbols)
        return expression.plain if expression.is_number else expression


def _same_number(one: Any, other: Any) -> bool:
    """Whether numbers, or other attributes, are the same: 2 and 2.0 are not, nor are 0.0 and -0.0."""
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    return type(one) is type(other) and bool(one == other)


def _same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype is not other.dtype or one.shape != other.shape:
        return False
    if one.data_ptr() == other.data_ptr() and one.stride() == other.stride():
        return True
    return one.nbytes <= _MOST_COMPARED and torch.equal(one, other)

"""Numbers for what the values of recordings are: two values of one number are computed in the same way.

It does not matter in which order nodes stand, which of them are copies, or by which views a tensor becomes what it was
before, as functionalization has them where a program writes to a view.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from operator import itemgetter
from typing import Any

import torch

from onnx_parity.exporter.arrays import to_array
from onnx_parity.exporter.graph.graph import Block, Graph, Node, Value, Varying
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["Numbering"]

_aten = torch.ops.aten
#: Their result is what they are given, if it has the same shape.
_KEEPING = frozenset(
    {
        _aten.alias.default, _aten.clone.default, _aten.detach.default, _aten.expand.default, _aten.lift_fresh.default,
        _aten.slice.Tensor,
    }
)  # fmt: skip
#: Their result has the elements of what they are given, in the same order.
_RESHAPING = frozenset(
    {
        _aten._reshape_alias.default, _aten._unsafe_view.default, _aten.reshape.default, _aten.squeeze.default,
        _aten.squeeze.dim, _aten.squeeze.dims, _aten.unsqueeze.default, _aten.view.default,
    }
)  # fmt: skip
#: What takes a part of a tensor, and what gives the tensor with another part there.
_PARTS: dict[Any, Any] = {
    _aten.select.int: _aten.select_scatter.default,
    _aten.slice.Tensor: _aten.slice_scatter.default,
    _aten.diagonal.default: _aten.diagonal_scatter.default,
}
#: Constants of more bytes are the same only if they are in the same place.
_MOST_COMPARED = 1 << 20


class Numbering:
    """The numbers of several recordings with the same inputs, whose symbols have the same names."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        #: What each number was given for.
        self._keys: list[Any] = []
        self._of: dict[Value, int] = {}
        #: Within how many blocks the nodes are.
        self._depth = 0

    def of_outputs(self, graph: Graph) -> list[int]:
        """The numbers of what a recording returns."""
        self._random, self._sources = 0, graph.symbol_sources
        for place, each in enumerate(graph.inputs):
            self._of[each.value] = self._number(("input", place))
        self._go_through(graph.live_nodes())
        return [self._value(each) for each in graph.outputs]

    def _go_through(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            number = self._unchanged(node)
            key = self._key(node) if number is None else None
            for place, output in enumerate(node.outputs):
                if output is not None:
                    self._of[output] = self._number((key, place)) if number is None else number

    def _number(self, key: Hashable) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def _value(self, value: Value) -> int:
        if value not in self._of:
            self._of[value] = self._number(_constant(value))
        return self._of[value]

    def _unchanged(self, node: Node) -> int | None:
        """The number of a result that is a view of what its argument was made of, or a copy."""
        given, result = node.arguments.get("self"), node.outputs[0] if node.outputs else None
        if not isinstance(given, Value) or result is None:
            return None
        shape, number = _plain(result.shape), self._value(given)
        if node.op in _KEEPING and shape == _plain(given.shape):
            return number
        if node.op in _RESHAPING:
            base, first = self._made_of("reshaped", number, _plain(given.shape))
            return base if shape == first else self._number(("reshaped", base, first, shape))
        order = _order(node, len(shape))
        if order is not None:
            base, before = self._made_of("permuted", number, tuple(range(len(shape))))
            after = tuple(before[axis] for axis in order)
            return base if after == tuple(range(len(shape))) else self._number(("permuted", base, after))
        scattered = _PARTS.get(node.op)
        if scattered is None:
            return None
        (known, arguments), _ = key if len(key := self._keys[number]) == 2 and key[0] != "input" else ((None, ()), 0)
        if known is not scattered:
            return None
        part = dict(arguments)
        source = part.pop("src")
        wanted = {name: self._argument(each) for name, each in node.arguments.items()} | {"self": part["self"]}
        return source[1] if _with_defaults(wanted) == _with_defaults(part) else None

    def _made_of(self, how: str, number: int, start: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        """What a value was reshaped or permuted from, and the shape or the order of axes by which."""
        key = self._keys[number]
        return (key[1], key[2]) if key[0] == how else (number, start)

    def _key(self, node: Node) -> Hashable:
        arguments = tuple(
            (name, self._argument(each)) for name, each in sorted(node.arguments.items()) if name != "memory_format"
        )
        if isinstance(node.op, OpOverload) and torch.Tag.nondeterministic_seeded in node.op.tags:
            self._random += 1
            return node.op, (*arguments, ("random", self._random))
        return node.op, arguments

    def _argument(self, argument: Any) -> Hashable:
        if isinstance(argument, Value):
            return "value", self._value(argument)
        if isinstance(argument, list | tuple):
            return tuple(map(self._argument, argument))
        if isinstance(argument, Block):
            return self._block(argument)
        if isinstance(argument, Varying):
            expression = argument.node.expr
            read = [(str(each), self._sources.get(str(each))) for each in expression.free_symbols]
            # Numbers that are read from values have the names of their order.
            return expression, *[
                (name, self._value(source[0]), source[1])
                for name, source in sorted(read, key=itemgetter(0))
                if source is not None
            ]
        # 2 and 2.0 are not the same, nor are 0.0 and -0.0.
        is_zero = isinstance(argument, float) and argument == 0
        return type(argument), math.copysign(1, argument) if is_zero else None, argument

    def _block(self, block: Block) -> Hashable:
        self._depth += 1
        for place, each in enumerate(block.inputs):
            self._of[each] = self._number(("input of a block", self._depth, place, each.dtype, _plain(each.shape)))
        self._go_through(block.nodes)
        self._depth -= 1
        return "block", len(block.inputs), tuple(map(self._value, block.outputs))


def _plain(shape: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(size.node.expr if isinstance(size, Varying) else size for size in shape)


def _order(node: Node, rank: int) -> tuple[int, ...] | None:
    """The order in which an operator puts the axes of its argument; None if it does something else."""
    arguments = node.arguments
    if node.op is _aten.permute.default:
        return tuple(axis % rank for axis in arguments["dims"])
    if node.op is _aten.t.default:
        return tuple(reversed(range(rank)))
    if node.op is _aten.transpose.int:
        order = [*range(rank)]
        one, other = arguments["dim0"] % rank, arguments["dim1"] % rank
        order[one], order[other] = order[other], order[one]
        return tuple(order)
    return None


def _with_defaults(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a part, without those that are as if they were not given."""
    none, one = (type(None), None, None), (int, None, 1)
    return {name: each for name, each in arguments.items() if each != none and (name, each) != ("step", one)}


def _constant(value: Value) -> Hashable:
    constant = value.constant
    if constant is None or constant.is_meta:
        return "named", value.name or id(value)
    kind = constant.dtype, tuple(constant.shape)
    if constant.nbytes > _MOST_COMPARED:
        return "large", *kind, constant.data_ptr(), constant.stride()
    return "small", *kind, to_array(constant).tobytes()

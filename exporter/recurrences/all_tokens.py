"""What a loop computes from one token, computed from all tokens at once: the same operators with one more axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence, Set
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Node, Origin, Size, Value, Varying, same_shape, same_size
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["AllTokens", "NotForAllTokens", "bare"]

_aten = torch.ops.aten
#: Operators whose result is their argument.
_SAME = frozenset({_aten.alias.default, _aten.clone.default, _aten.contiguous.default, _aten.detach.default})

#: Operators whose result is one of their arguments if it is as large, by its name.
_PARTS = {_aten.slice.Tensor: "self", _aten.slice_scatter.default: "src"}


class NotForAllTokens(Exception):
    """An operator of the loop has no form for all tokens, or depends on the tokens before."""


def bare(value: Value) -> Value:
    """The value that this one is a copy of, or the whole of."""
    while (node := value.node) is not None:
        if node.op in _SAME:
            value = node.arguments["self"]
        elif node.op in _PARTS and same_shape(value.shape, node.arguments[_PARTS[node.op]].shape):
            value = node.arguments[_PARTS[node.op]]
        else:
            break
    return value


class AllTokens:
    """The values of a loop's body for all tokens, which are their first axis. Nodes are made for those asked for."""

    def __init__(
        self,
        inside: MutableMapping[int, Node | None],
        slices: Mapping[int, Value],
        index: str,
        symbols: Set[str],
        tokens: Size,
        origin: Origin,
    ) -> None:
        #: The node of each value of the body, by its id; None for its inputs.
        self._inside = inside
        #: The symbol that is the number of an iteration, and all symbols whose values an iteration finds.
        self._index, self._symbols = index, symbols
        self.tokens, self._origin = tokens, origin
        self.nodes: list[Node] = []
        self._known: dict[int, Value | None] = dict(slices)
        self._moved: set[int] = set()

    def of(self, value: Value) -> Value:
        """The value for all tokens. One that is the same for all has an axis of size 1 there."""
        found = self._of(value)
        return self.unsqueeze(value, [0]) if found is None else found

    def set(self, value: Value, whole: Value) -> None:
        self._known[id(value)] = whole

    def _of(self, value: Value) -> Value | None:
        """The value for all tokens, or None if it is the same for all of them and is computed before the loop."""
        value = bare(value)
        key = id(value)
        if key not in self._inside:
            return None
        if key not in self._known:
            node = self._inside[key]
            if node is None:
                raise NotForAllTokens
            self._known[key] = self._with_tokens(node, value)
        return self._known[key]

    def _with_tokens(self, node: Node, value: Value) -> Value | None:
        if node.op is _aten.copy.default:
            source: Value = node.arguments["src"]
            if source.dtype is not value.dtype or not same_shape(source.shape, value.shape):
                raise NotForAllTokens
            return self._of(source)  # What is written over may be the result, which is not known yet.
        if not isinstance(node.op, OpOverload) or len(node.outputs) != 1:
            raise NotForAllTokens
        rule = _RULES.get(node.op)
        if self._is_at_token(node):
            if node.op is _aten.select.int:
                return self._slice(node, value, keeps=False)
            if node.op is _aten.slice.Tensor:
                return self._slice(node, value, keeps=True)
            raise NotForAllTokens
        varying = [each for each in node.inputs() if self._of(each) is not None]
        if not varying:
            if torch.Tag.nondeterministic_seeded in node.op.tags:
                raise NotForAllTokens
            if id(node) not in self._moved:
                self._moved.add(id(node))
                self.nodes.append(node)
            return None
        if node.op in _SAME:
            return self._of(node.arguments["self"])
        if rule is None and torch.Tag.pointwise in node.op.tags:
            rule = _pointwise
        if rule is None:
            raise NotForAllTokens
        return self._made(node.op, rule(self, node, value), (self.tokens, *value.shape), value.dtype, node.origin)

    def _is_at_token(self, node: Node) -> bool:
        """Whether an operator is given the number of the iteration."""
        found = {name for argument in node.arguments.values() for name in _symbols(argument)} & self._symbols
        if found - {self._index}:
            raise NotForAllTokens
        return bool(found)

    def _slice(self, node: Node, value: Value, *, keeps: bool) -> Value:
        """The tokens of a tensor, each of which an iteration takes the one with its own number of."""
        whole: Value = node.arguments["self"]
        axis = node.arguments.get("dim", 0) % len(whole.shape)
        start = node.arguments["start" if keeps else "index"]
        if self._of(whole) is not None or not same_size(whole.shape[axis], self.tokens) or str(start) != self._index:
            raise NotForAllTokens
        if keeps and (node.arguments.get("step", 1) != 1 or not same_size(value.shape[axis], 1)):
            raise NotForAllTokens
        others = [each for each in range(len(whole.shape)) if each != axis]
        moved = self.permute(whole, [axis, *others])
        return self.unsqueeze(moved, [axis + 1]) if keeps else moved

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _made(
        self, op: OpOverload, arguments: dict[str, Any], shape: Sequence[Size], dtype: torch.dtype, origin: Origin
    ) -> Value:
        node = Node(op, arguments, origin)
        value = Value(dtype, tuple(shape), node=node)
        node.outputs.append(value)
        self.nodes.append(node)
        return value

    def unary(self, op: OpOverload, x: Value, shape: Sequence[Size] | None = None, **arguments: Any) -> Value:
        shape = x.shape if shape is None else shape
        return self._made(op, {"self": x, **arguments}, shape, x.dtype, self._origin)

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        if list(order) == list(range(len(order))):
            return x
        return self.unary(_aten.permute.default, x, [x.shape[axis] for axis in order], dims=list(order))

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        for axis in axes:
            shape = [*x.shape[:axis], 1, *x.shape[axis:]]
            x = self.unary(_aten.unsqueeze.default, x, shape, dim=axis)
        return x

    def squeeze(self, x: Value, axis: int) -> Value:
        return self.unary(_aten.squeeze.dim, x, [*x.shape[:axis], *x.shape[axis + 1 :]], dim=axis)

    def expand(self, x: Value, shape: Sequence[Size]) -> Value:
        return x if same_shape(x.shape, shape) else self.unary(_aten.expand.default, x, shape, size=list(shape))

    def aligned(self, x: Value, rank: int) -> Value | None:
        """A value for all tokens with as many axes after the first as the value of one token is to have; None if it is
        the same for all tokens, which broadcasts as it is."""
        whole = self._of(x)
        return whole and self.unsqueeze(whole, [1] * (rank + 1 - len(whole.shape)))


def _symbols(argument: Any) -> Iterator[str]:
    for item in argument if isinstance(argument, (list, tuple)) else [argument]:
        if isinstance(item, Varying):
            yield from map(str, item.node.expr.free_symbols)


def _with(self: AllTokens, node: Node, rank: int) -> dict[str, Any]:
    """The arguments, of which tensors are for all tokens and have this many axes after the first."""
    return {
        name: (self.aligned(argument, rank) or argument) if isinstance(argument, Value) else argument
        for name, argument in node.arguments.items()
    }


def _pointwise(self: AllTokens, node: Node, value: Value) -> dict[str, Any]:
    return _with(self, node, len(value.shape))


def _matmul(self: AllTokens, node: Node, value: Value) -> dict[str, Any]:
    ranks = [len(node.arguments[name].shape) for name in ("self", "other")]
    if min(ranks) < 2:
        raise NotForAllTokens
    return _with(self, node, max(ranks))


def _along(*names: str) -> Callable[[AllTokens, Node, Value], dict[str, Any]]:
    """Arguments that count axes, by their names: there is one more before them."""

    def moved(self: AllTokens, node: Node, value: Value) -> dict[str, Any]:
        rank = len(node.arguments["self"].shape) + (node.op is _aten.unsqueeze.default)
        arguments = _with(self, node, len(node.arguments["self"].shape))
        for name in names:
            axes = arguments.get(name)
            if axes is None:
                raise NotForAllTokens
            arguments[name] = [a % rank + 1 for a in axes] if isinstance(axes, list) else axes % rank + 1
        return arguments

    return moved


def _sized(self: AllTokens, node: Node, value: Value) -> dict[str, Any]:
    """A new shape, which has the tokens before it."""
    arguments = _with(
        self, node, len(value.shape) if node.op is _aten.expand.default else len(node.arguments["self"].shape)
    )
    arguments["size"] = [self.tokens, *value.shape]
    return arguments


_RULES: Mapping[OpOverload, Callable[[AllTokens, Node, Value], dict[str, Any]]] = {
    _aten.matmul.default: _matmul,
    _aten._to_copy.default: _pointwise,
    **dict.fromkeys((_aten.expand.default, _aten.view.default, _aten.reshape.default), _sized),
    **dict.fromkeys(
        (
            _aten.unsqueeze.default, _aten.squeeze.dim, _aten.select.int, _aten.sum.dim_IntList, _aten.softmax.int,
            _aten.mean.dim, _aten.slice.Tensor,
        ),
        _along("dim"),
    ),
    _aten.transpose.int: _along("dim0", "dim1"),
}  # fmt: skip

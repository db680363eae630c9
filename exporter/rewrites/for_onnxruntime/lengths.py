"""How many tokens are in a cache, how many are new, and how many there are in all, as values at the begin of a graph.

A cache may be a buffer that is longer than what is in it: onnxruntime then writes the new tokens into it, and nothing
is copied. So its size says nothing, and the numbers are those of other inputs, such as the tokens and the mask, if the
names of their axes say that they are: `past + sequence`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import sizes_of
from onnx_parity.exporter.rewrites.engine.rewriter import Op, Walk, op
from onnx_parity.exporter.rewrites.for_onnxruntime.cached_attention import CachedAttention
from onnx_parity.exporter.rewrites.for_onnxruntime.causal_masks import size_expression

__all__ = ["Lengths", "LengthsOfCaches", "marked", "shares_buffers"]

_MARK = "does not need the size of a cache"


class Lengths(msgspec.Struct, frozen=True):
    """Numbers of tokens, each a tensor with one axis of size 1."""

    past: ir.Value
    new: ir.Value
    total: ir.Value
    #: Whether no number is the size of a cache.
    are_elsewhere: bool


class LengthsOfCaches:
    """The lengths that are known in one graph, by the names of the sizes of the cache and of the new tokens."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._added: set[ir.Node] = set()
        self._known: dict[tuple[int | str, int | str], Lengths] = {}

    def of(self, found: CachedAttention) -> Lengths | None:
        """None if the new tokens are those of no input of the model, and their number is not known."""
        past, new = found.sizes.past, found.sizes.new
        if (past, new) not in self._known:
            count = self._count(new)
            if count is None:
                return None
            self._known[past, new] = self._made(found.past[0], past, new, count)
        return self._known[past, new]

    def _made(self, cache: ir.Value, past: int | str, new: int | str, count: ir.Value) -> Lengths:
        total = self._size_of_input(size_expression(past) + size_expression(new))
        if total is not None:
            return Lengths(self._computed("Sub", total, count), count, total, True)
        size = self._shape(cache, 2)
        return Lengths(size, count, self._computed("Add", size, count), False)

    def _count(self, new: int | str) -> ir.Value | None:
        if isinstance(new, int):
            return self._walk.constants.vector([new], self._first())
        return self._size_of_input(size_expression(new))

    def _size_of_input(self, wanted: object) -> ir.Value | None:
        """The size of an input that has two or three axes: a cache has more."""
        for value in self._walk.graph.inputs:
            for axis, size in enumerate(sizes_of(value) or ()):
                if isinstance(size, str) and len(value.shape or ()) in (2, 3) and size_expression(size) == wanted:
                    return self._shape(value, axis)
        return None

    def _shape(self, value: ir.Value, axis: int) -> ir.Value:
        return self._add(op("Shape", value, start=axis, end=axis + 1, sizes=[1], dtype=ir.DataType.INT64))

    def _computed(self, operator: str, one: ir.Value, other: ir.Value) -> ir.Value:
        return self._add(op(operator, one, other, sizes=[1], dtype=ir.DataType.INT64))

    def _add(self, new: Op) -> ir.Value:
        result = self._walk.add(new, self._first())
        producer = result.producer()
        assert producer is not None
        self._added.add(producer)
        return result

    def _first(self) -> ir.Node:
        """The first node of the graph that is not one of these."""
        return next(node for node in self._walk.graph if node not in self._added)

    def replace_in(self, cache: ir.Value, lengths: Lengths) -> None:
        """Let what reads the size of a cache read the number of tokens in it."""
        for use in list(cache.uses()):
            node = use.node
            if is_size_of_tokens(node) and lengths.past.producer() is not node and node.graph is self._walk.graph:
                self._walk.replace(node, lengths.past)


def is_size_of_tokens(node: ir.Node) -> bool:
    """Whether it is the Shape of a cache that gives the number of tokens alone."""
    return _read_by_shape(node) == (2, 3)


def _read_by_shape(node: ir.Node) -> tuple[int, int] | None:
    if node.domain or node.op_type != "Shape":
        return None
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", 4)
    return start % 4, 4 if end >= 4 else end % 4


def marked(node: ir.Node) -> ir.Node:
    """A node that computes the same with a cache in a longer buffer, marked as such."""
    node.meta[_MARK] = True
    return node


def shares_buffers(caches: Iterable[ir.Value]) -> bool:
    """Whether caches may be in buffers that are longer than what is in them, into which the new tokens are written."""
    uses = [use.node for cache in caches for use in cache.uses()]
    return bool(uses) and all(_MARK in node.meta or _reads_no_tokens(node) for node in uses)


def _reads_no_tokens(node: ir.Node) -> bool:
    read = _read_by_shape(node)
    return read is not None and not read[0] <= 2 < read[1]

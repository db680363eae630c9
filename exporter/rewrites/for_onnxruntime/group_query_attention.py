"""Attention over a cache as onnxruntime's GroupQueryAttention, which writes new tokens into the buffer of the cache.

It attends to no token after each, and adds a bias, which says what the mask leaves out beside them. So it computes what
the program does, for any mask, wherever the padding is.

What it refuses, or what ends the process, is computed as before, in the other branch of an If:

1. Several samples with several new tokens each beside a cache that is not empty.
2. No sample, or no new token.
3. A row that attends to no token, where the program computes a mean over all tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import permutation_of, producer_of, sizes_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, give_origin, op
from onnx_parity.exporter.rewrites.for_onnxruntime.cached_attention import CachedAttention, Sizes, find_cached_attention
from onnx_parity.exporter.rewrites.for_onnxruntime.causal_masks import is_causal
from onnx_parity.exporter.rewrites.for_onnxruntime.lengths import Lengths, LengthsOfCaches, marked
from onnx_parity.exporter.rewrites.products_that_round import DOMAIN

__all__ = ["GROUP_QUERY_ATTENTION"]

_INT64, _INT32, _BOOL = ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL
_BY_HEAD = [0, 2, 1, 3]
_END = 2**63 - 1


def _find(node: ir.Node, walk: Walk) -> CachedAttention | NoMatch:
    found = find_cached_attention(node, walk)
    if isinstance(found, NoMatch):
        return found
    sizes = found.sizes
    if sizes.new != 1 and not is_causal(found.attends, sizes):  # A single new token is the last one.
        return NoMatch("a token may attend to later ones")
    if walk.once(LengthsOfCaches).of(found) is None:
        return NoMatch("no input has the number of new tokens")
    return found


def _write(node: ir.Node, found: CachedAttention, walk: Walk) -> ir.Value:
    lengths_of = walk.once(LengthsOfCaches)
    lengths = lengths_of.of(found)
    assert lengths is not None
    if lengths.are_elsewhere:
        for cache in found.past:
            lengths_of.replace_in(cache, lengths)
    flat = [_without_heads(each, node, walk) for each in (found.query, *found.new)]
    condition = walk.once(_Shared).condition(found, flat[0], lengths, node)
    making = _Attention(node, found, flat, lengths, walk)
    branches = {"then_branch": making.grouped(), "else_branch": making.as_before()}
    attributes = [ir.AttrGraph(name, each.as_graph(name)) for name, each in branches.items()]
    choice = ir.Node("", "If", [condition], attributes, num_outputs=3)
    give_origin(choice, node)
    walk.insert([choice], node)
    for result, old in zip(choice.outputs, (node, *found.joined), strict=True):
        result.type, result.shape = old.outputs[0].type, old.outputs[0].shape
    for joined, result in zip(found.joined, choice.outputs[1:], strict=True):
        walk.replace(joined, result)
    return choice.outputs[0]


def _without_heads(value: ir.Value | None, before: ir.Node, walk: Walk) -> ir.Value:
    """A tensor (batch, heads, length, size) as (batch, length, heads * size)."""
    sizes = sizes_of(value)
    assert value is not None and sizes is not None
    batch, heads, length, size = sizes
    assert isinstance(heads, int) and isinstance(size, int)
    flat = [batch, length, heads * size]
    turned = producer_of(value, "Transpose")
    if turned is not None and permutation_of(turned) == _BY_HEAD:
        apart = producer_of(turned.inputs[0], "Reshape")
        if apart is not None and sizes_of(apart.inputs[0]) == tuple(flat):
            assert apart.inputs[0] is not None
            return apart.inputs[0]
        by_token: ir.Value | Op | None = turned.inputs[0]
    else:
        rotated = producer_of(value, "RotaryEmbedding")
        if rotated is not None and len(rotated.inputs) == 3 and len(value.uses()) == 1:
            given = _without_heads(rotated.inputs[0], before, walk)
            angles = rotated.inputs[1:]
            return walk.add(
                op("RotaryEmbedding", given, *angles, attributes_of=rotated, num_heads=heads, sizes=flat), before
            )
        by_token = op("Transpose", value, perm=_BY_HEAD, sizes=[batch, length, heads, size])
    shape = walk.constants.vector([0, 0, heads * size], before)
    return walk.add(op("Reshape", by_token, shape, sizes=flat), before)


class _Shared:
    """What several layers read, each computed once."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._known: dict[tuple[object, ...], ir.Value] = {}

    def condition(self, found: CachedAttention, query: ir.Value, lengths: Lengths, node: ir.Node) -> ir.Value:
        """Whether onnxruntime has a kernel."""
        rows = self._no_row_is_empty(found, node)
        sizes = self._sizes(found.sizes, query, lengths, node)
        if sizes is None:
            return rows
        return self._once((sizes, rows), op("And", sizes, rows, sizes=[1], dtype=_BOOL), node)

    def _sizes(self, sizes: Sizes, query: ir.Value, lengths: Lengths, node: ir.Node) -> ir.Value | None:
        """None if the sizes are always those that the kernel takes."""
        batch, new = sizes.batch, sizes.new
        if isinstance(batch, int) and isinstance(new, int) and batch and new and 1 in (batch, new):
            return None
        one, zero = (self._walk.constants.vector([number], node) for number in (1, 0))
        count = op("Shape", query, start=0, end=1, sizes=[1], dtype=_INT64)
        samples = self._once((batch, "samples"), count, node)
        result = _int("Greater", _int("Mul", samples, lengths.new), zero, dtype=_BOOL)
        if 1 not in (batch, new):
            product = _int("Mul", _int("Mul", _int("Sub", samples, one), _int("Sub", lengths.new, one)), lengths.past)
            result = _int("And", result, _int("Equal", product, zero, dtype=_BOOL), dtype=_BOOL)
        return self._once((batch, lengths.new, lengths.past), result, node)

    def _no_row_is_empty(self, found: CachedAttention, node: ir.Node) -> ir.Value:
        """Sums are right where there is nothing to sum, and the largest of nothing is an error."""
        axis = self._walk.constants.vector([-1], node)
        zero = self._walk.constants.number(0, _INT32, node)
        attends, rows = found.attends, [found.samples, 1, found.sizes.new]
        numbers = _as_numbers(attends, attends.shape)
        counts = op("ReduceSum", numbers, axis, keepdims=0, sizes=rows, dtype=_INT32)
        empty = op("Equal", counts, zero, sizes=rows, dtype=_BOOL)
        number = op("ReduceSum", _as_numbers(empty, rows), keepdims=0, sizes=[], dtype=_INT32)
        return self._once((attends,), op("Equal", number, zero, sizes=[], dtype=_BOOL), node)

    def counts(self, lengths: Lengths, batch: int | str, query: ir.Value, node: ir.Node) -> tuple[ir.Value, ir.Value]:
        """For each sample, the number of tokens before the last one; and the number of all."""
        one = self._walk.constants.number(1, _INT32, node)
        axis = self._walk.constants.vector([0], node)
        casted = op("Cast", lengths.total, to=_INT32.value, sizes=[1], dtype=_INT32)
        # Without an axis: onnxruntime warns when it tries to leave out a Cast whose result branches read.
        total = self._once((lengths.total,), op("Squeeze", casted, axis, sizes=[], dtype=_INT32), node)
        samples = op("Shape", query, start=0, end=1, sizes=[1], dtype=_INT64)
        last = op("Sub", total, one, sizes=[], dtype=_INT32)
        return self._once((batch, total), op("Expand", last, samples, sizes=[batch], dtype=_INT32), node), total

    def bias(self, found: CachedAttention, node: ir.Node) -> ir.Value:
        if found.added is not None:
            return found.added
        dtype = found.query.dtype
        assert dtype is not None
        zero, lowest = (self._walk.constants.number(number, dtype, node) for number in (0.0, -math.inf))
        return self._once(
            (found.attends, dtype),
            op("Where", found.attends, zero, lowest, sizes=found.attends.shape, dtype=dtype),
            node,
        )

    def _once(self, key: tuple[object, ...], new: Op, node: ir.Node) -> ir.Value:
        if key not in self._known:
            self._known[key] = self._walk.add(new, node)
        return self._known[key]


def _as_numbers(booleans: ir.Value | Op, sizes: Iterable[object] | None) -> Op:
    return op("Cast", booleans, to=_INT32.value, sizes=sizes, dtype=_INT32)


def _int(operator: str, *inputs: ir.Value | Op, dtype: ir.DataType = _INT64) -> Op:
    return op(operator, *inputs, sizes=[1], dtype=dtype)


class _Nodes:
    """Nodes of a branch, or of the graph itself, and their results that are read elsewhere."""

    def __init__(self, origin: ir.Node) -> None:
        self._origin = origin
        self.nodes: list[ir.Node] = []
        self.results: list[ir.Value] = []

    def add(self, node: ir.Node) -> ir.Value:
        give_origin(node, self._origin)
        self.nodes.append(node)
        return node.outputs[0]

    def as_graph(self, name: str) -> ir.Graph:
        return ir.Graph([], self.results, nodes=self.nodes, name=name)


class _Attention:
    """Makes the nodes of both forms."""

    def __init__(
        self, node: ir.Node, found: CachedAttention, flat: Sequence[ir.Value], lengths: Lengths, walk: Walk
    ) -> None:
        self._node, self._found, self._flat, self._lengths, self._walk = node, found, flat, lengths, walk

    def grouped(self) -> _Nodes:
        found, made = self._found, _Nodes(self._node)
        shared = self._walk.once(_Shared)
        counts = shared.counts(self._lengths, found.sizes.batch, self._flat[0], self._node)
        inputs = [*self._flat, *found.past, *counts, None, None, None, shared.bias(found, self._node)]
        attributes = [
            ir.AttrInt64("num_heads", found.sizes.heads),
            ir.AttrInt64("kv_num_heads", found.sizes.shared),
            ir.AttrFloat32("scale", found.scale),
            ir.AttrFloat32("softcap", found.softcap),
        ]
        attention = marked(ir.Node(DOMAIN, "GroupQueryAttention", inputs, attributes, num_outputs=3))
        made.add(attention)
        for value, old in zip(attention.outputs, (self._node, *found.joined), strict=True):
            value.type, value.shape = old.outputs[0].type, old.outputs[0].shape
        made.results = [*attention.outputs]
        return made

    def as_before(self) -> _Nodes:
        """The cache may be in a longer buffer, which then becomes the result: what is in it comes first."""
        found, made = self._found, _Nodes(self._node)
        query = self._with_heads(found.query, self._flat[0], found.sizes.heads, made)
        joined, results = [], []
        parts = zip(found.joined, found.past, found.new, self._flat[1:], strict=True)
        for node, cache, new, flat in parts:
            past, rest = self._parts_of_buffer(cache, made)
            whole = self._concat([past, self._with_heads(new, flat, found.sizes.shared, made)], node, made)
            joined.append(whole)
            results.append(self._concat([whole, rest], node, made) if rest is not None else whole)
        renamed: dict[ir.Value | None, ir.Value] = {found.query: query}
        renamed.update((node.outputs[0], whole) for node, whole in zip(found.joined, joined, strict=True))
        for node in reversed(found.nodes):
            copy = ir.Node(
                node.domain,
                node.op_type,
                [renamed.get(each, each) for each in node.inputs],
                node.attributes.values(),
                num_outputs=len(node.outputs),
            )
            made.add(copy)
            for old, new in zip(node.outputs, copy.outputs, strict=True):
                renamed[old] = new
                new.type, new.shape = old.type, old.shape
        made.results = [renamed[self._node.outputs[0]], *results]
        return made

    def _with_heads(self, value: ir.Value, flat: ir.Value, heads: int, made: _Nodes) -> ir.Value:
        sizes = self._found.sizes
        shape = self._walk.constants.vector([0, 0, heads, sizes.size], self._node)
        apart = made.add(ir.Node("", "Reshape", [flat, shape]))
        apart.type, apart.shape = value.type, ir.Shape([sizes.batch, sizes.new, heads, sizes.size])
        turned = made.add(ir.Node("", "Transpose", [apart], [ir.AttrInt64s("perm", _BY_HEAD)]))
        turned.type, turned.shape = value.type, value.shape
        return turned

    def _parts_of_buffer(self, cache: ir.Value, made: _Nodes) -> tuple[ir.Value, ir.Value | None]:
        """The tokens in the buffer of a cache, and what follows the place of the new ones."""
        if not self._lengths.are_elsewhere:
            return cache, None
        zero, axis, end = (self._walk.constants.vector([number], self._node) for number in (0, 2, _END))
        pairs = (zero, self._lengths.past), (self._lengths.total, end)
        past, rest = (made.add(marked(ir.Node("", "Slice", [cache, *pair, axis]))) for pair in pairs)
        past.type, past.shape, rest.type = cache.type, cache.shape, cache.type
        return past, rest

    def _concat(self, parts: Sequence[ir.Value], node: ir.Node, made: _Nodes) -> ir.Value:
        whole = made.add(ir.Node("", "Concat", parts, [ir.AttrInt64("axis", 2)]))
        whole.type, whole.shape = node.outputs[0].type, node.outputs[0].shape
        return whole


GROUP_QUERY_ATTENTION = (Rewrite(name="attention over a cache", at=("Reshape",), find=_find, write=_write),)

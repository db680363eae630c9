"""Concatenating, splitting and repeating: cat, stack, split, unbind, repeat."""

from __future__ import annotations

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::cat")
def cat(g: Graph, tensors: list[Value], dim: int = 0) -> Value:
    # torch ignores empty vectors among tensors of any other rank.
    rank = len(g.out.shape)
    parts = [g.cast(x, g.out.dtype) for x in tensors if not (x.rank == 1 and rank != 1 and x.sizes[0] == 0)]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=dim % rank)


@lowering("aten::stack")
def stack(g: Graph, tensors: list[Value], dim: int = 0) -> Value:
    axis = dim % len(g.out.shape)
    parts = [g.unsqueeze(g.cast(x, g.out.dtype), [axis]) for x in tensors]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=axis)


@lowering(
    "aten::split.Tensor", "aten::unsafe_split.Tensor",
    "aten::split_with_sizes", "aten::unsafe_split_with_sizes",
)  # fmt: skip
def split(
    g: Graph,
    self: Value,
    dim: int = 0,
    split_size: object = None,
    split_sizes: object = None,
) -> list[Value]:
    # torch has computed the sizes of the parts.
    axis = dim % self.rank
    return g.split(self, axis, [part.shape[axis] for part in g.node.outputs if part is not None])


@lowering("aten::unbind.int")
def unbind(g: Graph, self: Value, dim: int = 0) -> list[Value]:
    axis = dim % self.rank
    count = len(g.node.outputs)
    return [g.squeeze(part, [axis]) for part in g.split(self, axis, [1] * count)] if count else []


@lowering("aten::repeat")
def repeat(g: Graph, self: Value, repeats: list[Size] | None = None, dims: list[Size] | None = None) -> Value:
    given = repeats if repeats is not None else dims or []
    counts: list[Size] = [*([1] * (self.rank - len(given))), *given]
    missing = len(counts) - self.rank
    x = g.unsqueeze(self, list(range(missing)))
    if any(isinstance(size, int) and size == 0 for size in g.out.shape):
        return g.full(g.out.shape, 0, self.dtype)
    if all(isinstance(count, int) and count == 1 for count in counts):
        return x
    return g.op("Tile", x, g.ints(counts))

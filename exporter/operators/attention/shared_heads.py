"""Keys and values that several heads of a query share: they are read where they are, rather than repeated for each.

A step of decoding would copy the whole cache otherwise, as often as a head is shared. At 1,500 tokens, and four heads
of a query to one of the cache, that is a fifth of the time of Llama with 200 million weights.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["multiply_shared", "unrepeated"]


def unrepeated(x: Value) -> Value:
    """What the heads of x repeat, each as often in a row, as transformers' `repeat_kv` does; x itself if they do not.

    A program adds an axis after that of the heads, expands it, and makes both one.
    """
    expanded = _input_of(x.ir, "Reshape")
    apart = _input_of(expanded, "Expand")
    source = _input_of(apart, "Unsqueeze")
    own, before, after, wanted = (
        [] if each is None or each.shape is None else list(each.shape) for each in (source, apart, expanded, x.ir)
    )
    if source is None or len(own) != 4 or before != [*own[:2], 1, *own[2:]] or after[3:] != own[2:]:
        return x
    heads, times = own[1], after[2]
    if after[:2] != own[:2] or not isinstance(heads, int) or not isinstance(times, int):
        return x
    if wanted != [own[0], heads * times, *own[2:]]:
        return x
    return Value(source, x.dtype, (x.sizes[0], heads, *x.sizes[2:]))


def multiply_shared(g: Graph, rows: Value, shared: Value) -> Value:
    """rows @ shared, where each head of `shared` is that of as many heads of `rows` that follow each other: their rows
    become those of one product."""
    heads, length, of_each = rows.sizes[-3], rows.sizes[-2], shared.sizes[-3]
    if same_size(heads, of_each):
        return g.matmul(rows, shared)
    assert isinstance(heads, int) and isinstance(of_each, int)
    product = g.matmul(_with_heads(g, rows, of_each, length * (heads // of_each)), shared)
    return _with_heads(g, shaped(product, (*rows.sizes[:-1], shared.sizes[-1])), heads, length)


def _with_heads(g: Graph, x: Value, heads: int, length: Size) -> Value:
    """x with as many heads, of this length. A size that is 0 is that of x, and so is that of an empty axis."""
    batch = x.sizes[:-3]
    result = g.op("Reshape", x, g.ints([*[0] * len(batch), heads, length, 0]))
    return shaped(result, (*batch, heads, length, x.sizes[-1]))


def _input_of(value: ir.Value | None, operator: str) -> ir.Value | None:
    """The first input of the node that computes a value, if it is of this operator."""
    node = None if value is None else value.producer()
    return node.inputs[0] if node is not None and not node.domain and node.op_type == operator else None

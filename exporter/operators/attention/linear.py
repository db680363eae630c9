"""Linear attention: ONNX's operator, which came with opset 27, or products over chunks of tokens.

For each token the state S decays, is corrected if there is a rate beta, and is read: S = exp(g) S, then
S = S + k (v - k S) beta or S = S + k v, and the result is q S. Within a chunk, what the tokens do to each other are
products of matrices, of all chunks together, and only the states at the ends of chunks follow from each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import matrix_product, transposed
from onnx_parity.exporter.registry.lowerings import lowering

#: The most tokens of a chunk; fewer where each element of a key has a decay, of which there is then one for each pair
#: of tokens of a chunk.
_CHUNK, _CHUNK_BY_ELEMENT = 64, 16


@lowering("onnx_parity::linear_attention")
def linear_attention(
    g: Graph, query: Value, key: Value, value: Value, past_state: Value, decay: Value | None = None,
    beta: Value | None = None, scale: float = 1.0,
) -> Sequence[Value]:  # fmt: skip
    if g.has_kernel("LinearAttention", query.dtype):
        return _as_operator(g, query, key, value, past_state, decay, beta, scale)
    dtype = query.dtype
    if dtype.itemsize < 4:
        query, key, value, past_state = (g.cast(x, torch.float32) for x in (query, key, value, past_state))
        decay, beta = (None if x is None else g.cast(x, torch.float32) for x in (decay, beta))
    results = _in_chunks(g, query, key, value, past_state, decay, beta, scale)
    return [g.cast(result, dtype) for result in results] if dtype.itemsize < 4 else results


def _as_operator(
    g: Graph, query: Value, key: Value, value: Value, past_state: Value, decay: Value | None, beta: Value | None,
    scale: float,
) -> Sequence[Value]:  # fmt: skip
    heads = key.sizes[1]
    rule = ("gated_" if decay is not None else "") + "delta" if beta is not None else "gated" if decay else "linear"
    packed = [None if x is None else _packed(g, x) for x in (decay, beta)]
    made, state = g.op(
        "LinearAttention", *(_packed(g, x) for x in (query, key, value)), past_state, *packed, outputs=2,
        q_num_heads_i=heads, kv_num_heads_i=heads, scale_f=scale, update_rule_s=rule,
    )  # fmt: skip
    batch, _, tokens, size = value.sizes
    return g.transpose(g.reshape(made, [batch, tokens, heads, size]), [0, 2, 1, 3]), state


def _packed(g: Graph, x: Value) -> Value:
    """(batch, heads, tokens, size) as (batch, tokens, heads * size), and (batch, heads, tokens) as tokens by heads."""
    if x.rank == 3:
        return g.transpose(x, [0, 2, 1])
    batch, heads, tokens, size = x.sizes
    return g.reshape(g.transpose(x, [0, 2, 1, 3]), [batch, tokens, heads * size])


def _in_chunks(
    g: Graph, query: Value, key: Value, value: Value, past_state: Value, decay: Value | None, beta: Value | None,
    scale: float,
) -> Sequence[Value]:  # fmt: skip
    most = _CHUNK if decay is None or decay.rank == 3 else _CHUNK_BY_ELEMENT
    tokens = key.sizes[2]
    known = isinstance(tokens, int)
    size: Size = min(max(tokens, 1), most) if known else torch.sym_max(1, torch.sym_min(tokens, most))
    # Of no tokens there is one chunk too, of nothing but zeros.
    filled = (tokens + size - 1) // size
    count: Size = max(filled, 1) if known else torch.sym_max(1, filled)
    q, k, v = (_chunks(g, x, count, size) for x in (query, key, value))
    q = g.op("Mul", q, scale)
    # For each pair of tokens the position of the highest bit in which their numbers differ, if the first is later.
    order = g.slice(g.const(_highest_bits(most)), [0, 1], [0, 0], [size, size])
    order = shaped(order, (size, size))
    decays = None if decay is None else _Decays.over(g, _chunks(g, decay, count, size), order)
    keys_by_keys, queries_by_keys = _by_keys(g, [k, q], k, decays, order)
    written, read = v, None
    if beta is not None:
        rate = g.unsqueeze(_chunks(g, beta, count, size), [4])
        inverse = _inverse(g, g.op("Mul", keys_by_keys, rate), order, most)
        seen = g.op("Mul", k, rate)
        written = matrix_product(g, inverse, g.op("Mul", v, rate))
        read = matrix_product(g, inverse, seen if decays is None else _decayed(g, seen, decays.before))
    kept = None
    if decays is not None:
        q, k = _decayed(g, q, decays.before), _decayed(g, k, decays.after)
        kept = g.op("Exp", g.transpose(decays.whole, [0, 1, 2, 4, 3]))
    states, written, state = _through_chunks(g, past_state, count, transposed(g, k), written, read, kept)
    results = g.op("Add", matrix_product(g, q, states), matrix_product(g, queries_by_keys, written))
    flat = g.reshape(results, [*value.sizes[:2], count * size, value.sizes[3]])
    return (flat if known and tokens == count * size else shaped(g.slice(flat, [2], [0], [tokens]), value.sizes)), state


def _chunks(g: Graph, x: Value, count: Size, size: Size) -> Value:
    """(batch, heads, tokens, ...) as (batch, heads, chunks, tokens of a chunk, ...), with zeros at the end."""
    rest = x.sizes
    missing = count * size - rest[2]
    if not (isinstance(missing, int) and missing == 0):
        # Before opset 11, Pad takes no amount that is computed.
        x = g.op("Concat", x, g.full([*rest[:2], missing, *rest[3:]], 0, x.dtype), axis_i=2)
    return g.reshape(x, [*rest[:2], count, size, *rest[3:]])


class _Decays(NamedTuple):
    """The logarithms of the decays within chunks, each (batch, heads, chunks, tokens, size of keys or 1)."""

    #: Between the tokens of each pair, (batch, heads, chunks, later token, earlier token, size of keys or 1).
    between: Value
    #: From the start of the chunk to each token, and from each token to the end.
    before: Value
    after: Value
    #: Of all tokens of a chunk, as one token.
    whole: Value

    @staticmethod
    def over(g: Graph, each: Value, order: Value) -> _Decays:
        """They are sums of the tokens between, and no differences of sums: these would lose digits."""
        logarithms = each if each.rank == 5 else g.unsqueeze(each, [4])
        batch, heads, count, size, width = logarithms.sizes
        is_later = g.unsqueeze(g.less(g.const(-1, torch.int64), order), [2])
        counted = g.where(is_later, g.unsqueeze(logarithms, [4]), g.const(0.0, each.dtype))
        flat = g.reshape(
            shaped(counted, (*logarithms.sizes[:4], size, width)), [batch, heads, count, size, size * width]
        )
        up_to = g.cast(g.less(g.const(-2, torch.int64), order), each.dtype)
        sums = shaped(g.matmul(up_to, flat), flat.sizes)
        between = g.reshape(sums, [*logarithms.sizes[:4], size, width])
        first = shaped(g.slice(logarithms, [3], [0], [1]), (batch, heads, count, 1, width))
        from_first = shaped(g.slice(between, [4], [0], [1]), (*logarithms.sizes[:4], 1, width))
        before = shaped(g.op("Add", g.squeeze(from_first, [4]), first), logarithms.sizes)
        end = torch.iinfo(torch.int64).max
        to_last = shaped(g.slice(between, [3], [-1], [end]), (batch, heads, count, 1, size, width))
        whole = shaped(g.slice(before, [3], [-1], [end]), first.sizes)
        return _Decays(between, before, g.squeeze(to_last, [3]), whole)


def _decayed(g: Graph, x: Value, logarithm: Value) -> Value:
    return shaped(g.op("Mul", x, g.op("Exp", logarithm)), x.sizes)


def _by_keys(g: Graph, rows: Sequence[Value], keys: Value, decays: _Decays | None, order: Value) -> list[Value]:
    """The products of each token with the tokens up to it, decayed by as much as the state has between them."""
    if decays is not None and not same_size(decays.between.sizes[5], 1):
        each = g.op("Mul", g.unsqueeze(keys, [3]), g.op("Exp", decays.between))
        products = [g.squeeze(g.matmul(each, g.unsqueeze(x, [5])), [5]) for x in rows]
    else:
        products = [matrix_product(g, x, transposed(g, keys)) for x in rows]
        if decays is not None:
            factor = g.op("Exp", g.squeeze(decays.between, [5]))
            products = [g.op("Mul", product, factor) for product in products]
    is_later = g.less(order, g.const(-1, torch.int64))
    sizes = (*keys.sizes[:4], keys.sizes[3])
    return [shaped(g.where(is_later, g.const(0.0, keys.dtype), product), sizes) for product in products]


def _inverse(g: Graph, system: Value, order: Value, most: int) -> Value:
    """The inverse of matrices whose lower triangle counts, and whose diagonal is ones.

    That of two blocks X and Y on the diagonal, with B below, has -Y^-1 B X^-1 there: from blocks of one row on, each
    step doubles them.
    """
    identity = g.cast(g.equal(order, g.const(-1, torch.int64)), system.dtype)
    inverse = None
    for level in range((most - 1).bit_length()):
        is_here = g.equal(order, g.const(level, torch.int64))
        below = shaped(g.where(is_here, system, g.const(0.0, system.dtype)), system.sizes)
        if inverse is None:
            inverse = g.op("Sub", identity, below)
        else:
            step = matrix_product(g, matrix_product(g, inverse, below), inverse)
            inverse = g.op("Sub", inverse, step)
        inverse = shaped(inverse, system.sizes)
    assert inverse is not None
    return inverse


def _through_chunks(
    g: Graph, start: Value, count: Size, keys: Value, written: Value, read: Value | None, kept: Value | None
) -> tuple[Value, Value, Value]:
    """The states before each chunk, what each writes, and the last state. The keys of a chunk are columns."""

    def step(number: Value, carried: list[Value]) -> list[Value]:
        (state,) = carried
        new = _chunk(g, written, number)
        if read is not None:
            new = shaped(g.op("Sub", new, matrix_product(g, _chunk(g, read, number), state)), new.sizes)
        left = state if kept is None else g.op("Mul", state, _chunk(g, kept, number))
        after = g.op("Add", left, matrix_product(g, _chunk(g, keys, number), new))
        return [shaped(after, start.sizes), state, *([] if read is None else [new])]

    last, *stacks = g.repeat(count, [start], step)
    states, *corrected = (g.transpose(stack, [1, 2, 0, 3, 4]) for stack in stacks)
    return states, corrected[0] if corrected else written, last


def _chunk(g: Graph, x: Value, number: Value) -> Value:
    return shaped(g.op("Gather", x, number, axis_i=2), (*x.sizes[:2], *x.sizes[3:]))


def _highest_bits(size: int) -> torch.Tensor:
    """The positions of the highest bits of row ^ column below the diagonal; -1 on it and -2 above."""
    numbers = [[(row ^ column).bit_length() - 1 - (column > row) * 65 for column in range(size)] for row in range(size)]
    return torch.tensor(numbers).clamp(min=-2)

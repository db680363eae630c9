"""Finds attention whose keys and values are those of a cache and of new tokens, as programs and lowerings write it.

    keys, values = Concat(past keys, new keys), Concat(past values, new values)
    Reshape(Transpose(softmax(scale * query @ keys.T + mask) @ values))

Softmax, mask and products are one Attention, or several operators. Several heads of the query may share one of the
keys: by Attention itself, by a Gather that repeats the keys, or by a Reshape that makes their rows those of one head.
"""

from __future__ import annotations

import math

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import (
    axis_of,
    ints_of,
    number_of,
    pairs_of,
    permutation_of,
    producer_of,
    sizes_of,
)
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Walk

__all__ = ["CachedAttention", "Sizes", "find_cached_attention"]

#: Those for which onnxruntime has GroupQueryAttention on the CPU.
_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_BY_HEAD = [0, 2, 1, 3]


class Sizes(msgspec.Struct, frozen=True):
    """The sizes of attention over a cache. Those of dynamic axes are names."""

    batch: int | str
    #: The heads of the query, and those of the cache, which they share.
    heads: int
    shared: int
    new: int | str
    past: int | str
    total: int | str
    size: int


class CachedAttention(msgspec.Struct, frozen=True):
    """Attention of a query (batch, heads, length, size) over a cache, whose result is (batch, length, heads * size)."""

    query: ir.Value
    #: The nodes that join the cache and what is new, for the keys and the values.
    joined: tuple[ir.Node, ir.Node]
    past: tuple[ir.Value, ir.Value]
    new: tuple[ir.Value, ir.Value]
    sizes: Sizes
    scale: float
    softcap: float
    #: Where a query attends to a key: (batch or 1, 1, length, all tokens).
    attends: ir.Value
    #: The size of its first axis.
    samples: int | str
    #: What is added to the scores for it, if the program adds something.
    added: ir.Value | None
    #: The rows whose result is 0 because they attend to nothing (batch or 1, 1, length, 1); None if none are.
    empty_rows: ir.Value | None
    #: The nodes from the result to the scores, each after those that read it.
    nodes: tuple[ir.Node, ...]


class _Path:
    """The nodes on the way from a result to what it is computed from."""

    def __init__(self) -> None:
        self.nodes: list[ir.Node] = []

    def step(self, value: ir.Value | None, *operators: str) -> ir.Node | None:
        """The node that computes a value, if it is of one of these operators and nothing else reads the value."""
        node = producer_of(value, *operators)
        if node is None or value is None or len(value.uses()) != 1 or value.is_graph_output():
            return None
        self.nodes.append(node)
        return node

    def through(self, value: ir.Value | None, *operators: str) -> ir.Value | None:
        """The first input of such a node, or the value itself if it is computed otherwise."""
        node = self.step(value, *operators)
        return value if node is None else node.inputs[0]


class _Scores(msgspec.Struct, frozen=True):
    query: ir.Value | None
    keys: ir.Value | None
    scale: float
    softcap: float = 0.0


def find_cached_attention(node: ir.Node, walk: Walk) -> CachedAttention | NoMatch:
    """The attention whose result a Reshape gives, without an axis for the heads."""
    path = _Path()
    path.nodes.append(node)
    moved = path.step(node.inputs[0], "Transpose")
    if node.graph is not walk.graph or moved is None or permutation_of(moved) != _BY_HEAD:
        return NoMatch("it does not move the heads behind the tokens")
    result = moved.inputs[0]
    zeroed = path.step(result, "Where")
    if zeroed is not None:
        if number_of(zeroed.inputs[1]) != 0:
            return NoMatch("it replaces results by other numbers than 0")
        result = zeroed.inputs[2]
    whole = path.step(result, "Attention")
    parts = _of_one_node(whole) if whole is not None else _of_products(path, result)
    if isinstance(parts, NoMatch):
        return parts
    scores, values, mask = parts
    attends, added = mask
    keys, values_node = (_joined(value, path) for value in (scores.keys, values))
    if scores.query is None or keys is None or values_node is None:
        return NoMatch("the keys and values are not those of a cache and new ones, or are read elsewhere too")
    (past_keys, new_keys), (past_values, new_values) = _summands(keys), _summands(values_node)
    past, new = (past_keys, past_values), (new_keys, new_values)
    sizes = _sizes(scores.query, past, new, keys.outputs[0], node.outputs[0])
    if sizes is None:
        return NoMatch("onnxruntime has no kernel for the sizes or the dtype")
    samples = _samples(attends, sizes)
    if attends is None or samples is None:
        return NoMatch("the mask is not one of booleans for all heads, new tokens and tokens")
    return CachedAttention(
        scores.query, (keys, values_node), past, new, sizes, scores.scale, scores.softcap, attends, samples, added,
        zeroed.inputs[0] if zeroed is not None else None, tuple(path.nodes),
    )  # fmt: skip


_Mask = tuple[ir.Value | None, ir.Value | None]


def _of_one_node(node: ir.Node) -> tuple[_Scores, ir.Value | None, _Mask] | NoMatch:
    plain = {"is_causal": 0, "qk_matmul_output_mode": 0, "q_num_heads": 0, "kv_num_heads": 0, "softmax_precision": 1}
    if any(node.attributes.get_int(name, number) != number for name, number in plain.items()):
        return NoMatch("it computes more than attention with a mask")
    query, keys, values, added, *further = [*node.inputs, None]
    if any(each is not None for each in further) or query is None or query.shape is None:
        return NoMatch("it computes more than attention with a mask")
    size = query.shape[-1]
    usual = 1 / math.sqrt(size) if isinstance(size, int) and size else 1.0
    scale = node.attributes.get_float("scale", usual)
    softcap = node.attributes.get_float("softcap", 0.0)
    if not scale or softcap:  # Opset 23 bounds the scores after the mask has been added, and opset 24 before.
        return NoMatch("it computes more than attention with a mask")
    return _Scores(query, keys, scale), values, _mask(added)


def _of_products(path: _Path, result: ir.Value | None) -> tuple[_Scores, ir.Value | None, _Mask] | NoMatch:
    """softmax(masked scores) @ values in several operators."""
    product = path.step(_ungrouped(path, result), "MatMul")
    if product is None:
        return NoMatch("it is no product with values")
    softmax = path.step(_ungrouped(path, product.inputs[0]), "Softmax")
    if softmax is None or softmax.attributes.get_int("axis", -1) not in (-1, 3):
        return NoMatch("it is no product of a softmax over keys and values")
    masked = path.step(softmax.inputs[0], "Where", "Add")
    if masked is None:
        return NoMatch("the scores have no mask")
    if masked.op_type == "Where":
        attends, scores, lowest = masked.inputs
        if number_of(lowest) != -math.inf:
            return NoMatch("the mask is no lowest number")
        return _scores(path, scores), product.inputs[1], (attends, None)
    for scores, added in pairs_of(masked):
        mask = _mask(added)
        if mask[0] is not None:
            return _scores(path, scores), product.inputs[1], mask
    return NoMatch("the mask is not one of booleans for all heads")


def _mask(added: ir.Value | None) -> _Mask:
    """Where a query attends to a key, and what is added to the scores for it."""
    choice = producer_of(added, "Where")
    if choice is None or number_of(choice.inputs[1]) != 0:
        return None, None
    lowest = number_of(choice.inputs[2])
    dtype = added.dtype if added is not None else None
    if lowest is None or dtype not in _DTYPES or lowest > float(dtype.min):
        return None, None
    return choice.inputs[0], added


def _scores(path: _Path, value: ir.Value | None) -> _Scores:
    """[softcap of] query @ keys.T, scaled before or after."""
    value, softcap = _uncapped(path, value)
    value, after = _unscaled(path, _ungrouped(path, value))
    product = path.step(value, "MatMul")
    if product is None:
        return _Scores(None, None, 1.0)
    query, before = _unscaled(path, _ungrouped(path, product.inputs[0]))
    turned = path.step(product.inputs[1], "Transpose")
    is_turned = turned is not None and permutation_of(turned) == [0, 1, 3, 2]
    return _Scores(query, turned.inputs[0] if turned is not None and is_turned else None, before * after, softcap)


def _uncapped(path: _Path, value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """What `tanh(scores / cap) * cap` is computed from, and the cap; 0 for a value that is computed otherwise."""
    widened = producer_of(value, "Mul")
    for bounded, factor in pairs_of(widened) if widened is not None else ():
        tanh, cap = producer_of(bounded, "Tanh"), number_of(factor)
        quotient = producer_of(tanh.inputs[0], "Div") if tanh is not None else None
        if cap and cap > 0 and quotient is not None and number_of(quotient.inputs[1]) == cap:
            path.step(value, "Mul")
            path.step(bounded, "Tanh")
            assert tanh is not None
            path.step(tanh.inputs[0], "Div")
            return quotient.inputs[0], cap
    return value, 0.0


def _unscaled(path: _Path, value: ir.Value | None) -> tuple[ir.Value | None, float]:
    scaled = producer_of(value, "Mul")
    for plain, factor in pairs_of(scaled) if scaled is not None else ():
        number = number_of(factor)
        if number and path.step(value, "Mul") is not None:
            return plain, number
    return value, 1.0


def _ungrouped(path: _Path, value: ir.Value | None) -> ir.Value | None:
    """What a Reshape makes the rows of several heads those of one, or back: it keeps the first and the last axis."""
    node = producer_of(value, "Reshape")
    if node is None:
        return value
    sizes = node.inputs[1]
    parts = producer_of(sizes, "Concat")
    ends = [ints_of(each) for each in ((parts.inputs[0], parts.inputs[-1]) if parts is not None else (sizes, sizes))]
    keeps_ends = all(each is not None for each in ends) and (ends[0] or [1])[0] == 0 and (ends[1] or [1])[-1] == 0
    return path.through(value, "Reshape") if keeps_ends else value


def _joined(value: ir.Value | None, path: _Path) -> ir.Node | None:
    """The Concat of a cache and new keys or values, of which each may be repeated for several heads."""
    repeated = producer_of(value, "Gather")
    if repeated is not None and _repeats_heads(repeated):
        value = path.through(value, "Gather")
    joined = producer_of(value, "Concat")
    if joined is None or value is None or len(joined.inputs) != 2 or axis_of(joined) not in (2, -2):
        return None
    return joined if all(use.node in path.nodes for use in value.uses()) else None


def _repeats_heads(gather: ir.Node) -> bool:
    """Whether it repeats each head as often in a row."""
    places, sizes = ints_of(gather.inputs[1]), sizes_of(gather.inputs[0])
    if gather.attributes.get_int("axis", 0) != 1 or not places or sizes is None or not isinstance(sizes[1], int):
        return False
    times, rest = divmod(len(places), sizes[1] or 1)
    return not rest and places == [head for head in range(sizes[1]) for _ in range(times)]


def _summands(join: ir.Node) -> tuple[ir.Value, ir.Value]:
    past, new = join.inputs
    assert past is not None and new is not None
    return past, new


def _sizes(
    query: ir.Value,
    past: tuple[ir.Value, ir.Value],
    new: tuple[ir.Value, ir.Value],
    keys: ir.Value,
    result: ir.Value,
) -> Sizes | None:
    """None if they are not those of attention for which onnxruntime has a kernel."""
    asked, before, added, whole, given = (sizes_of(each) for each in (query, past[0], new[0], keys, result))
    if asked is None or before is None or added is None or whole is None or query.dtype not in _DTYPES:
        return None
    if sizes_of(past[1]) != before or sizes_of(new[1]) != added or len(asked) != 4 or len(before) != 4:
        return None
    (batch, heads, length, size), shared = asked, before[1]
    if not (isinstance(heads, int) and isinstance(shared, int) and isinstance(size, int) and size and shared):
        return None
    is_one_cache = before == (batch, shared, before[2], size) and added == (batch, shared, length, size)
    if not is_one_cache or given != (batch, length, heads * size) or heads % shared or size % 8:
        return None
    return Sizes(batch, heads, shared, length, before[2], whole[2], size)


def _samples(attends: ir.Value | None, sizes: Sizes) -> int | str | None:
    """For how many samples a mask is; None if it is no mask for all heads, new tokens and tokens."""
    found = sizes_of(attends)
    if found is None or len(found) != 4 or found[0] not in (1, sizes.batch):
        return None
    return found[0] if found[1:] == (1, sizes.new, sizes.total) else None

"""Fuses the rotation of a language model's queries and keys into RotaryEmbedding, which ONNX has from opset 23 on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.files.lazy_tensors import torch_of
from onnx_parity.exporter.passes.matching import ints_of, number_of, pairs_of, producer_of

__all__ = ["fuse_rotary_embedding"]

_SINCE = 23
_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
#: What is computed element by element from the angles, so that equal halves stay equal.
_BY_ELEMENT = frozenset({"Cast", "Cos", "Sin"})


def fuse_rotary_embedding(model: ir.Model, opset: int, weights: Iterable[ir.Value] = ()) -> None:
    """Fuse every x * cos + concat(-x[half:], x[:half]) * sin, over the last axis of an x of four axes.

    RotaryEmbedding takes one half of cos and of sin. Both halves have to be equal, which they are if both tensors are
    computed, element by element, from concat(angles, angles), or if their values are known and are no weight's. Each
    fusion removes six nodes: 12 from each layer of Llama.
    """
    if opset < _SINCE:
        return
    fusion = _Fusion(model.graph, weights)
    for node in list(model.graph):
        if node.op_type == "Add" and not node.domain:
            fusion.fuse(node)


class _Fusion:
    def __init__(self, graph: ir.Graph, weights: Iterable[ir.Value]) -> None:
        self._graph = graph
        self._weights = frozenset(weights)
        #: One half of each value that has two equal ones; None for other values.
        self._halves: dict[ir.Value, ir.Value | None] = {}
        #: The halves of angles, repeated for each sample, by the name of the size of the batch.
        self._repeated: dict[tuple[ir.Value, str], ir.Value] = {}
        #: The sizes to which they are repeated, by the name of the size of the batch.
        self._sizes: dict[str, ir.Value] = {}

    def fuse(self, add: ir.Node) -> None:
        for x, cos, sin in _rotations(add):
            halves = [self._half_of_angles(x, angles) for angles in (cos, sin)]
            if None in halves:
                continue
            caches = [self._repeated_for(x, half, add) for half in halves if half is not None]
            out = add.outputs[0]
            fused = self._added(ir.Node("", "RotaryEmbedding", [x, *caches]), add, out)
            out.replace_all_uses_with(fused, replace_graph_outputs=True)
            fused.name, out.name = out.name, None
            self._graph.remove(add, safe=True)
            return

    def _half_of_angles(self, x: ir.Value, angles: ir.Value) -> ir.Value | None:
        """One half of the cosines or sines (batch, length, size) that x is multiplied by; None if they do not fit."""
        if angles.is_initializer():
            return self._half_of_known_angles(x, angles)
        unsqueeze = producer_of(angles, "Unsqueeze")
        if unsqueeze is None or ints_of(unsqueeze.inputs[1]) != [1]:
            return None
        whole = unsqueeze.inputs[0]
        assert whole is not None and x.shape is not None
        if whole.shape is None or len(whole.shape) != 3 or whole.type != x.type or whole.dtype not in _DTYPES:
            return None
        return self._half(whole) if _fits(whole.shape, x.shape) else None

    def _half_of_known_angles(self, x: ir.Value, angles: ir.Value) -> ir.Value | None:
        """The same for cosines or sines (batch, 1, length, size) whose values are known, and are not a weight."""
        tensor = angles.const_value
        if tensor is None or angles in self._weights or angles.type != x.type or angles.dtype not in _DTYPES:
            return None
        if tensor.shape.rank() != 4 or tensor.shape[1] != 1:
            return None
        if angles not in self._halves:
            whole = torch_of(tensor).squeeze(1)
            first, second = whole.chunk(2, dim=-1)
            is_twice = first.shape == second.shape and torch.equal(first, second)
            self._halves[angles] = self._initializer(f"{angles.name}_half", first.contiguous()) if is_twice else None
        batch, _, *rest = tensor.shape
        assert x.shape is not None
        return self._halves[angles] if _fits((batch, *rest), x.shape) else None

    def _half(self, whole: ir.Value) -> ir.Value | None:
        if whole not in self._halves:
            self._halves[whole] = self._halved(whole)
        return self._halves[whole]

    def _halved(self, whole: ir.Value) -> ir.Value | None:
        node = whole.producer()
        if node is None or node.domain or node.graph is not self._graph or whole.shape is None:
            return None
        if node.op_type == "Concat":
            is_last = node.attributes["axis"].as_int() in (-1, len(whole.shape) - 1)
            return node.inputs[0] if is_last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1] else None
        others: list[ir.Value | None] = []
        first, *rest = node.inputs
        if node.op_type == "Mul":
            first, others = _by_a_number(node)
        elif node.op_type not in _BY_ELEMENT or rest:
            return None
        half = self._half(first) if first is not None else None
        if half is None:
            return None
        same = ir.Node("", node.op_type, [half, *others], attributes=list(node.attributes.values()))
        return self._added(same, node, whole, half.shape)

    def _repeated_for(self, x: ir.Value, half: ir.Value, before: ir.Node) -> ir.Value:
        """The half of angles with the batch of x, over which the operator does not broadcast."""
        assert half.shape is not None and x.shape is not None
        batch = x.shape[0]
        if half.shape[0] == batch:
            return half
        known = self._repeated.get((half, str(batch)))
        if known is not None:
            return known
        shape = ir.Shape([batch, *list(half.shape)[1:]])
        if isinstance(batch, int):
            sizes = self._constant(f"{half.name}_sizes", [batch, 1, 1])
        else:
            sizes = self._sizes_of(x, before)
        expanded = self._added(ir.Node("", "Expand", [half, sizes]), before, half, shape, "repeated")
        self._repeated[half, str(batch)] = expanded
        return expanded

    def _sizes_of(self, x: ir.Value, before: ir.Node) -> ir.Value:
        """The sizes (batch, 1, 1), with the batch of x."""
        assert x.shape is not None
        known = self._sizes.get(str(x.shape[0]))
        if known is None:
            of_batch = ir.Node("", "Shape", [x], attributes=[ir.AttrInt64("start", 0), ir.AttrInt64("end", 1)])
            first = self._added(of_batch, before, x, ir.Shape([1]), "batch", ir.DataType.INT64)
            ones = self._constant(f"{x.name}_ones", [1, 1])
            joined = ir.Node("", "Concat", [first, ones], attributes=[ir.AttrInt64("axis", 0)])
            known = self._added(joined, before, x, ir.Shape([3]), "sizes", ir.DataType.INT64)
            self._sizes[str(x.shape[0])] = known
        return known

    def _added(
        self,
        node: ir.Node,
        before: ir.Node,
        like: ir.Value,
        shape: ir.Shape | None = None,
        suffix: str = "half",
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        """Add a node before another, and return its result, which has the type and, by default, the shape of `like`."""
        node.meta.update(before.meta)
        node.metadata_props.update(before.metadata_props)
        node.doc_string = before.doc_string
        result = node.outputs[0]
        result.name = f"{like.name}_{suffix}"
        result.type = like.type if dtype is None else ir.TensorType(dtype)
        result.shape = like.shape if shape is None else shape
        self._graph.insert_before(before, node)
        return result

    def _constant(self, name: str, numbers: list[int]) -> ir.Value:
        return self._initializer(name, torch.tensor(numbers))

    def _initializer(self, name: str, tensor: torch.Tensor) -> ir.Value:
        known = TorchTensor(tensor, name)
        value = ir.Value(name=name, type=ir.TensorType(known.dtype), shape=known.shape, const_value=known)
        self._graph.initializers.add(value)
        return value


def _fits(angles: Iterable[object], x: ir.Shape) -> bool:
    """Whether angles (batch, length, size) are those of an x (batch, heads, length, size)."""
    batch, length, size = angles
    return batch in (1, x[0]) and length == x[2] and size == x[3]


def _rotations(add: ir.Node) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """For x * cos + concat(-x[half:], x[:half]) * sin: x, cos and sin."""
    products = [producer_of(value, "Mul") for value in add.inputs]
    for plain, turned in itertools.permutations(products):
        if plain is None or turned is None:
            continue
        for (x, cos), (y, sin) in itertools.product(pairs_of(plain), pairs_of(turned)):
            if x.shape is not None and len(x.shape) == 4 and _is_turned(y, x):
                yield x, cos, sin


def _is_turned(y: ir.Value, x: ir.Value) -> bool:
    """Whether y is concat(-x[half:], x[:half])."""
    concat = producer_of(y, "Concat")
    assert x.shape is not None
    size = x.shape[3]
    if concat is None or concat.attributes["axis"].as_int() not in (-1, 3) or not isinstance(size, int) or size % 2:
        return False
    if len(concat.inputs) != 2:
        return False
    neg = producer_of(concat.inputs[0], "Neg")
    return (
        neg is not None and _is_part(neg.inputs[0], x, size // 2, size) and _is_part(concat.inputs[1], x, 0, size // 2)
    )


def _is_part(part: ir.Value | None, x: ir.Value, start: int, end: int) -> bool:
    """Whether it is x[..., start:end]."""
    node = producer_of(part, "Slice")
    if node is None or node.inputs[0] is not x:
        return False
    assert x.shape is not None
    starts, ends, axes, *steps = (ints_of(value) for value in node.inputs[1:])
    size = x.shape[3]
    assert isinstance(size, int)
    return (
        starts == [start]
        and ends is not None
        and len(ends) == 1
        and min(ends[0], size) == end
        and axes in ([3], [-1])
        and all(step == [1] for step in steps)
    )


def _by_a_number(product: ir.Node) -> tuple[ir.Value | None, list[ir.Value | None]]:
    """For a product with a number, the other factor and the number."""
    for factor, number in pairs_of(product):
        if number_of(number) is not None:
            return factor, [number]
    return None, []

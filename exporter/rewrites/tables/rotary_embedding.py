"""The rotation of a language model's queries and keys, over the last axis of an x of four axes.

    x * cos + concat(-x[half:], x[:half]) * sin  ->  RotaryEmbedding(x, cos[:half], sin[:half])

Both halves of cos and of sin have to be equal, which they are if both tensors are computed, element by element, from
concat(angles, angles), or if their values are known and are no weight's. Each fusion removes six nodes: 12 from each
layer of Llama.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import msgspec
import onnx_ir as ir
import torch

from onnx_parity.exporter.files.lazy_tensors import WeightTensor, torch_of
from onnx_parity.exporter.rewrites.engine.matching import ints_of, number_of, pairs_of, producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, first_match, op

__all__ = ["ROTARY_EMBEDDING"]

_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
#: What is computed element by element from the angles, so that equal halves stay equal.
_BY_ELEMENT = ("Cast", "Cos", "Sin")


class _Rotation(msgspec.Struct, frozen=True):
    """A tensor (batch, heads, length, size), and what has the two equal halves by whose first it is rotated: values
    (batch, length, size), or constants (batch, 1, length, size)."""

    x: ir.Value
    cos: ir.Value
    sin: ir.Value


def _find_rotation(add: ir.Node, walk: Walk) -> _Rotation | NoMatch:
    if add.graph is not walk.graph:
        return NoMatch("it is in a branch or a loop")
    return first_match(
        _with_equal_halves(_rotations(add), walk), "it is not x * cos + concat(-x[half:], x[:half]) * sin"
    )


def _with_equal_halves(rotations: Iterable[_Rotation], walk: Walk) -> Iterator[_Rotation | NoMatch]:
    halves = walk.once(_Halves)
    for each in rotations:
        cos, sin = (_angles_of(each.x, angles) for angles in (each.cos, each.sin))
        if cos is None or sin is None:
            yield NoMatch("the angles have other sizes or another dtype than x, or are a weight's")
        elif not (halves.are_equal(cos) and halves.are_equal(sin)):
            yield NoMatch("the angles have not two halves that are known to be equal")
        else:
            yield _Rotation(each.x, cos, sin)


def _angles_of(x: ir.Value, angles: ir.Value) -> ir.Value | None:
    """The cosines or sines that x is multiplied by, without an axis for the heads if they are computed; None if they
    do not fit."""
    assert x.shape is not None
    tensor = angles.const_value if angles.is_initializer() else None
    if tensor is not None:
        if isinstance(tensor, WeightTensor) and not tensor.is_literal:
            return None
        sizes = list(tensor.shape)
        fits = len(sizes) == 4 and sizes[1] == 1 and _fits((sizes[0], *sizes[2:]), x.shape)
        return angles if fits and angles.type == x.type and angles.dtype in _DTYPES else None
    unsqueeze = producer_of(angles, "Unsqueeze")
    if unsqueeze is None or ints_of(unsqueeze.inputs[1]) != [1]:
        return None
    whole = unsqueeze.inputs[0]
    if whole is None or whole.shape is None or whole.type != x.type or whole.dtype not in _DTYPES:
        return None
    return whole if len(whole.shape) == 3 and _fits(whole.shape, x.shape) else None


def _fits(angles: Iterable[object], x: ir.Shape) -> bool:
    """Whether angles (batch, length, size) are those of an x (batch, heads, length, size)."""
    batch, length, size = angles
    return batch in (1, x[0]) and length == x[2] and size == x[3]


def _rotations(add: ir.Node) -> Iterator[_Rotation]:
    """For x * cos + concat(-x[half:], x[:half]) * sin: x, cos and sin."""
    products = [producer_of(value, "Mul") for value in add.inputs]
    for plain, turned in itertools.permutations(products):
        if plain is None or turned is None:
            continue
        for (x, cos), (y, sin) in itertools.product(pairs_of(plain), pairs_of(turned)):
            if x.shape is not None and len(x.shape) == 4 and _is_turned(y, x):
                yield _Rotation(x, cos, sin)


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


def _angle_before(node: ir.Node) -> int | None:
    """Which input of a node has the angles, if it computes with each of them alone; None if it does not."""
    if node.op_type == "Mul":
        return next((1 - place for place in (1, 0) if number_of(node.inputs[place]) is not None), None)
    return 0 if node.op_type in _BY_ELEMENT and len(node.inputs) == 1 else None


class _Halves:
    """The first of two equal halves of values, which are computed once for all rotations that need them."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._are_equal: dict[ir.Value, bool] = {}
        self._first: dict[ir.Value, ir.Value] = {}
        #: The halves of angles, repeated for each sample, by the name of the size of the batch.
        self._repeated: dict[tuple[ir.Value, str], ir.Value] = {}
        #: The sizes to which they are repeated, by the name of the size of the batch.
        self._sizes: dict[str, ir.Value] = {}

    def are_equal(self, whole: ir.Value | None) -> bool:
        if whole is None:
            return False
        if whole not in self._are_equal:
            self._are_equal[whole] = self._compare_halves(whole)
        return self._are_equal[whole]

    def _compare_halves(self, whole: ir.Value) -> bool:
        if whole.is_initializer() and whole.const_value is not None:
            first, second = torch_of(whole.const_value).chunk(2, dim=-1)
            return first.shape == second.shape and torch.equal(first, second)
        node = producer_of(whole, "Concat", "Mul", *_BY_ELEMENT)
        if node is None or node.graph is not self._walk.graph or whole.shape is None:
            return False
        if node.op_type == "Concat":
            is_last = node.attributes["axis"].as_int() in (-1, len(whole.shape) - 1)
            return is_last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
        place = _angle_before(node)
        return place is not None and self.are_equal(node.inputs[place])

    def first(self, whole: ir.Value, before: ir.Node) -> ir.Value:
        """One of the halves, with the axes (batch, length, size), for a node that reads it."""
        if whole not in self._first:
            self._first[whole] = self._make_half(whole, before)
        return self._first[whole]

    def _make_half(self, whole: ir.Value, before: ir.Node) -> ir.Value:
        node = whole.producer()
        if node is None:
            assert whole.const_value is not None
            half_of_constant = torch_of(whole.const_value).squeeze(1).chunk(2, dim=-1)[0].contiguous()
            return self._walk.constants.table((whole,), lambda: half_of_constant, before)
        if node.op_type == "Concat":
            half_of_angles = node.inputs[0]
            assert half_of_angles is not None
            return half_of_angles
        place = _angle_before(node)
        inputs = list(node.inputs)
        assert place is not None
        angles = inputs[place]
        assert angles is not None
        half = self.first(angles, node)
        others = [each for index, each in enumerate(inputs) if index != place]
        new = op(node.op_type, half, *others, attributes_of=node, sizes=half.shape)
        result = self._walk.add(new, node)
        result.type = whole.type
        return result

    def repeat_for(self, x: ir.Value, half: ir.Value, before: ir.Node) -> ir.Value:
        """The half of angles with the batch of x, over which the operator does not broadcast."""
        assert half.shape is not None and x.shape is not None
        batch = x.shape[0]
        if half.shape[0] == batch:
            return half
        key = half, str(batch)
        if key not in self._repeated:
            sizes = self._walk.constants.vector([batch, 1, 1], before) if isinstance(batch, int) else None
            expand = op("Expand", half, sizes or self._sizes_of(x, before), sizes=[batch, *list(half.shape)[1:]])
            self._repeated[key] = self._walk.add(expand, before)
        return self._repeated[key]

    def _sizes_of(self, x: ir.Value, before: ir.Node) -> ir.Value:
        """The sizes (batch, 1, 1), with the batch of x."""
        assert x.shape is not None
        batch = str(x.shape[0])
        if batch not in self._sizes:
            of_batch = op("Shape", x, start=0, end=1, sizes=[1], dtype=ir.DataType.INT64)
            ones = self._walk.constants.vector([1, 1], before)
            self._sizes[batch] = self._walk.add(op("Concat", of_batch, ones, axis=0, sizes=[3]), before)
        return self._sizes[batch]


def _rotate(add: ir.Node, found: _Rotation, walk: Walk) -> Op:
    halves = walk.once(_Halves)
    both = [halves.first(angles, add) for angles in (found.cos, found.sin)]
    return op("RotaryEmbedding", found.x, *(halves.repeat_for(found.x, half, add) for half in both))


ROTARY_EMBEDDING = (Rewrite(name="rotation by angles", at=("Add",), find=_find_rotation, write=_rotate, since=23),)

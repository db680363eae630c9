"""Joins of joins, and slices of what is joined from parts, as loops make them that write to one place after the other.

    Concat(Concat(a, b), c)       ->  Concat(a, b, c)
    Concat(a, empty)              ->  a
    Slice(Concat(a, b, c))        ->  b, Concat(b, c), or Slice(b)
    Slice(Slice(x))               ->  Slice(x)

A loop that writes to y[:, 0], y[:, 1], ... joins what is before each, the new value and what is after it.
"""

from __future__ import annotations

import itertools

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import axes_of, axis_of, ints_of, is_read_by_one, producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["JOINS"]


class _Lengths:
    """How long values are along an axis, where no shape is known: parts that a program writes to, and slices."""

    def __init__(self, _walk: Walk) -> None:
        self._known: dict[tuple[ir.Value, int], int | None] = {}

    def of(self, value: ir.Value | None, axis: int) -> int | None:
        if value is None:
            return None
        if (value, axis) not in self._known:
            # The values before it are known already, because nodes are visited in their order.
            self._known[value, axis] = self._find_size(value, axis)
        return self._known[value, axis]

    def _find_size(self, value: ir.Value, axis: int) -> int | None:
        size = value.shape[axis] if value.shape is not None else None
        if isinstance(size, int):
            return size
        node = producer_of(value, "Unsqueeze", "Concat", "Slice")
        if node is None:
            return None
        if node.op_type == "Unsqueeze":
            axes = axes_of(node)
            return 1 if axes is not None and axis in axes else None
        if node.op_type == "Concat":
            parts = [self.of(part, axis) for part in node.inputs] if axis_of(node) == axis else [None]
            return None if None in parts else sum(part for part in parts if part is not None)
        bounds = self.bounds(node)
        return bounds[2] - bounds[1] if bounds is not None and bounds[0] == axis else None

    def bounds(self, node: ir.Node) -> tuple[int, int, int] | None:
        """The axis of a Slice along one axis and without a step, and where it starts and stops."""
        if "axes" in node.attributes:
            given = [list(node.attributes[name].as_ints()) for name in ("starts", "ends", "axes")]
        elif len(node.inputs) in (4, 5):
            found = [ints_of(value) for value in node.inputs[1:]]
            if any(each is None for each in found) or (len(found) == 4 and found[3] != [1]):
                return None
            given = [each for each in found[:3] if each is not None]
        else:
            return None
        if any(len(each) != 1 for each in given):
            return None
        (start,), (stop,), (axis,) = given
        length = self.of(node.inputs[0], axis) if axis >= 0 else None
        if length is None:
            return None
        first, last, _ = slice(start, stop).indices(length)
        return axis, first, max(first, last)


def _find_parts(join: ir.Node, walk: Walk) -> list[ir.Value | None] | NoMatch:
    lengths, axis = walk.once(_Lengths), axis_of(join)
    joined: list[ir.Value | None] = []
    for value in join.inputs:
        if len(join.inputs) > 1 and lengths.of(value, axis) == 0:
            continue
        before = producer_of(value, "Concat")
        if before is not None and is_read_by_one(before) and axis_of(before) == axis:
            joined += before.inputs
        else:
            joined.append(value)
    if not joined or (len(joined) > 1 and joined == list(join.inputs)):
        return NoMatch("no part is empty, or a join along the same axis that is read here alone")
    return joined


def _join_parts(join: ir.Node, parts: list[ir.Value | None], _walk: Walk) -> Op | ir.Value:
    (first, *others) = parts
    return first if first is not None and not others else op("Concat", *parts, attributes_of=join)


class _Span(msgspec.Struct, frozen=True):
    """A part of a value along an axis: from `start` on, up to `stop`."""

    value: ir.Value
    axis: int
    start: int
    stop: int


class _Parts(msgspec.Struct, frozen=True):
    values: list[ir.Value | None]
    axis: int


def _find_part(node: ir.Node, walk: Walk) -> _Span | _Parts | NoMatch:
    """The parts that a slice consists of, or the one part in which it lies."""
    lengths = walk.once(_Lengths)
    bounds, source = lengths.bounds(node), node.inputs[0]
    if bounds is None or source is None:
        return NoMatch("it is not known what is sliced, or it is sliced along several axes, or with a step")
    span = _Span(source, *bounds)
    while span.start < span.stop:
        found = _read_from(span, lengths)
        if isinstance(found, _Parts):
            return found
        if found is None:
            break
        span = found
    return NoMatch("no part of what is sliced contains it") if span.value is source else span


def _read_from(span: _Span, lengths: _Lengths) -> _Span | _Parts | None:
    """What is before a slice or a join that a span is of: a span of it, or the parts that the span consists of."""
    axis = span.axis
    inner = producer_of(span.value, "Slice")
    bounds = lengths.bounds(inner) if inner is not None else None
    if inner is not None and bounds is not None and bounds[0] == axis and inner.inputs[0] is not None:
        return _Span(inner.inputs[0], axis, span.start + bounds[1], span.stop + bounds[1])
    join = producer_of(span.value, "Concat")
    if join is None or axis_of(join) != axis:
        return None
    sizes = [size for part in join.inputs if (size := lengths.of(part, axis)) is not None]
    if len(sizes) < len(join.inputs):
        return None
    ends = list(itertools.accumulate(sizes))
    starts = [end - size for end, size in zip(ends, sizes, strict=True)]
    inside = [place for place, end in enumerate(ends) if max(starts[place], span.start) < min(end, span.stop)]
    if len(inside) > 1:
        is_whole = starts[inside[0]] == span.start and ends[inside[-1]] == span.stop
        return _Parts([join.inputs[place] for place in inside], axis) if is_whole else None
    part = join.inputs[inside[0]]
    first = starts[inside[0]]
    return None if part is None else _Span(part, axis, span.start - first, span.stop - first)


def _slice_part(node: ir.Node, found: _Span | _Parts, walk: Walk) -> Op | ir.Value:
    if isinstance(found, _Parts):
        return op("Concat", *found.values, axis=found.axis)
    if (found.start, found.stop) == (0, walk.once(_Lengths).of(found.value, found.axis)):
        return found.value
    if "axes" in node.attributes:
        return op("Slice", found.value, attributes_of=node, starts=[found.start], ends=[found.stop])
    start, stop = (walk.constants.vector([number], node) for number in (found.start, found.stop))
    return op("Slice", found.value, start, stop, *node.inputs[3:])


_SLICES: Rewrite[_Span | _Parts] = Rewrite(
    name="slice of a join or a slice", at=("Slice",), find=_find_part, write=_slice_part
)
JOINS = (
    Rewrite(name="join of joins and of empty parts", at=("Concat",), find=_find_parts, write=_join_parts),
    _SLICES,
)

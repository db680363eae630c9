"""Joins of joins, and what is read of values that are joined from parts, as loops make them that write to one place
after the other.

    Concat(Concat(a, b), c)       ->  Concat(a, b, c)
    Concat(a, empty)              ->  a
    Slice(Concat(a, b, c))        ->  b, Concat(b, c), or Slice(b)
    Slice(Slice(x))               ->  Slice(x)
    Gather(Concat(a, b, c), i)    ->  Gather(b, j), or x if b is an Unsqueeze of it

A loop that writes to y[:, 0], y[:, 1], ... joins what is before each, the new value and what is after it. A node whose
parts are all read by others is left to these: the last join of a loop finds the parts of all. If each join did, one of
n would have n parts, and all together n * n.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator
from onnx_parity.exporter.rewrites.engine.matching import axes_of, axis_of, ints_of, is_read_by_one, producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["JOINS"]

#: More inputs than these are given to a new node: each input of one that exists takes as long as it has inputs.
_MANY = 32
_LEFT_TO_READERS = NoMatch("what reads it reads its parts instead")


class _Span(msgspec.Struct, frozen=True):
    """A part of a value along an axis: from `start` on, up to `stop`."""

    value: ir.Value
    axis: int
    start: int
    stop: int

    def is_there(self) -> bool:
        """Whether the value has not been removed from the graph."""
        producer = self.value.producer()
        return producer is None or producer.graph is not None


class _Parts(msgspec.Struct, frozen=True):
    """What is joined along an axis."""

    values: Sequence[ir.Value | None]
    axis: int


class _Lengths:
    """How long values are along an axis, where no shape is known: parts that a program writes to, and slices. And what
    the spans are that nodes read."""

    def __init__(self, _walk: Walk) -> None:
        self._known: dict[tuple[ir.Value, int], int | None] = {}
        #: With the inputs and attributes that a node had then, which rewrites change.
        self._spans: dict[ir.Node, tuple[Sequence[ir.Value | None], list[ir.Attr], _Span | None]] = {}
        self._ends: dict[ir.Node, tuple[Sequence[ir.Value | None], list[int] | None]] = {}
        self._innermost: dict[_Span, _Span] = {}

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
            ends = self.ends(node) if axis_of(node) == axis else None
            return None if ends is None else ends[-1]
        span = self.read_by(node)
        return span.stop - span.start if span is not None and span.axis == axis else None

    def ends(self, join: ir.Node) -> list[int] | None:
        """Where each part of a join ends; None if it is not known."""
        inputs, ends = self._ends.get(join, (None, None))
        if inputs is not join.inputs:
            sizes = [size for part in join.inputs if (size := self.of(part, axis_of(join))) is not None]
            ends = list(itertools.accumulate(sizes)) if len(sizes) == len(join.inputs) else None
            self._ends[join] = join.inputs, ends
        return ends

    def read_by(self, node: ir.Node) -> _Span | None:
        """What a Slice along one axis and without a step reads, or a Gather at one index."""
        attributes = list(node.attributes.values())
        inputs, before, span = self._spans.get(node, (None, [], None))
        if inputs is not node.inputs or before != attributes:
            span = self._read_by_gather(node) if node.op_type == "Gather" else self._read_by_slice(node)
            self._spans[node] = node.inputs, attributes, span
        return span

    def _read_by_slice(self, node: ir.Node) -> _Span | None:
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
        if length is None or node.inputs[0] is None:
            return None
        first, last, _ = slice(start, stop).indices(length)
        return _Span(node.inputs[0], axis, first, max(first, last))

    def _read_by_gather(self, node: ir.Node) -> _Span | None:
        source, index = node.inputs
        if source is None or index is None or index.shape is None or len(index.shape):
            return None
        axis, numbers = node.attributes.get_int("axis", 0), ints_of(index)
        length = self.of(source, axis) if axis >= 0 else None
        if numbers is None or length is None or not -length <= numbers[0] < length:
            return None
        return _Span(source, axis, numbers[0] % length, numbers[0] % length + 1)

    def innermost(self, span: _Span) -> _Span:
        """The one part in which a span lies, in that the one, and so on."""
        path, inner = [span], self._step_of(span)
        while isinstance(inner, _Span):
            path.append(inner)
            inner = self._step_of(inner)
        for each in path[:-2]:  # What is asked for again is found in two steps.
            self._innermost[each] = path[-1]
        return path[-1]

    def _step_of(self, span: _Span) -> _Span | _Parts | None:
        known = self._innermost.get(span)
        return known if known is not None and known.is_there() else self.step(span)

    def step(self, span: _Span) -> _Span | _Parts | None:
        """What is before a slice or a join that a span is of: a span of it, or the parts that the span consists of."""
        axis = span.axis
        slice_before = producer_of(span.value, "Slice")
        inner = self.read_by(slice_before) if slice_before is not None else None
        if inner is not None and inner.axis == axis:
            return _Span(inner.value, axis, span.start + inner.start, span.stop + inner.start)
        join = producer_of(span.value, "Concat")
        ends = self.ends(join) if join is not None and axis_of(join) == axis else None
        if join is None or ends is None or span.start >= span.stop:
            return None
        first, last = bisect.bisect_right(ends, span.start), bisect.bisect_left(ends, span.stop)
        start = ends[first - 1] if first else 0
        if first < last:
            is_whole = start == span.start and ends[last] == span.stop
            return _Parts(join.inputs[first : last + 1], axis) if is_whole else None
        part = join.inputs[first]
        return None if part is None else _Span(part, axis, span.start - start, span.stop - start)


def _is_left_to_readers(join: ir.Node, lengths: _Lengths) -> bool:
    result, axis = join.outputs[0], axis_of(join)
    uses = tuple(result.uses())
    if result.is_graph_output() or any(use.node.graph is not join.graph for use in uses):
        return False
    if len(uses) == 1 and _joins_along(uses[0].node, axis):
        return True
    return bool(uses) and all(use.idx == 0 and _reads_parts(use.node, axis, lengths) for use in uses)


def _joins_along(node: ir.Node, axis: int) -> bool:
    return onnx_operator(node) == "Concat" and axis_of(node) == axis


def _reads_parts(reader: ir.Node, axis: int, lengths: _Lengths) -> bool:
    span = lengths.read_by(reader) if onnx_operator(reader) in ("Slice", "Gather") else None
    if span is None or span.axis != axis:
        return False
    return _is_read_by_join(reader, axis) if span.start == span.stop else lengths.step(span) is not None


def _is_read_by_join(node: ir.Node, axis: int) -> bool:
    uses = tuple(node.outputs[0].uses())
    return is_read_by_one(node) and uses[0].node.graph is node.graph and _joins_along(uses[0].node, axis)


def _flat(values: Sequence[ir.Value | None], axis: int, lengths: _Lengths) -> list[ir.Value | _Span | None]:
    """The parts of what is joined, where a join or a slice is read here alone."""
    flat: list[ir.Value | _Span | None] = []
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        if len(values) > 1 and lengths.of(value, axis) == 0:
            continue
        node = producer_of(value, "Concat", "Slice")
        span = None
        if node is not None and is_read_by_one(node):
            if _joins_along(node, axis):
                waiting += reversed(node.inputs)
                continue
            span = lengths.read_by(node) if node.op_type == "Slice" else None
        if span is None or span.axis != axis:
            flat.append(value)
            continue
        inner = lengths.innermost(span)
        parts = lengths.step(inner)
        if isinstance(parts, _Parts):
            waiting += reversed(parts.values)
        elif inner == span:
            flat.append(value)
        elif (inner.start, inner.stop) == (0, lengths.of(inner.value, axis)):
            waiting.append(inner.value)
        else:
            flat.append(inner)
    return flat


def _find_parts(join: ir.Node, walk: Walk) -> list[ir.Value | _Span | None] | NoMatch:
    lengths, axis = walk.once(_Lengths), axis_of(join)
    lengths.of(join.outputs[0], axis)
    if _is_left_to_readers(join, lengths):
        return _LEFT_TO_READERS
    joined = _flat(join.inputs, axis, lengths)
    if not joined or (len(joined) > 1 and joined == list(join.inputs)):
        return NoMatch("no part is empty, or a join along the same axis that is read here alone")
    return joined


def _join_parts(join: ir.Node, parts: list[ir.Value | _Span | None], walk: Walk) -> Op | ir.Value:
    values = [_slice_of(each, join, walk) if isinstance(each, _Span) else each for each in parts]
    (first, *others) = values
    if not others and first is not None:
        return first
    return _join(values, axis_of(join), join, walk)


def _join(values: Sequence[ir.Value | Op | None], axis: int, node: ir.Node, walk: Walk) -> Op | ir.Value:
    joined = op("Concat", *values, axis=axis)
    return walk.add(joined, node) if len(values) > _MANY else joined


def _slice_of(span: _Span, reader: ir.Node, walk: Walk) -> Op:
    if walk.opset < 10:
        return op("Slice", span.value, starts=[span.start], ends=[span.stop], axes=[span.axis])
    numbers = [walk.constants.vector([number], reader) for number in (span.start, span.stop, span.axis)]
    return op("Slice", span.value, *numbers)


def _find_part(node: ir.Node, walk: Walk) -> _Span | list[ir.Value | _Span | None] | NoMatch:
    """The parts that a slice consists of, or the one part in which it lies."""
    lengths = walk.once(_Lengths)
    span = lengths.read_by(node)
    if span is None:
        return NoMatch("it is not known what is sliced, or it is sliced along several axes, or with a step")
    lengths.of(node.outputs[0], span.axis)
    if _is_read_by_join(node, span.axis):
        return _LEFT_TO_READERS
    inner = lengths.innermost(span)
    parts = lengths.step(inner)
    if isinstance(parts, _Parts):
        return _flat(parts.values, span.axis, lengths)
    return NoMatch("no part of what is sliced contains it") if inner.value is span.value else inner


def _slice_part(node: ir.Node, found: _Span | list[ir.Value | _Span | None], walk: Walk) -> Op | ir.Value:
    if isinstance(found, _Span):
        whole = (0, walk.once(_Lengths).of(found.value, found.axis))
        return found.value if (found.start, found.stop) == whole else _slice_of(found, node, walk)
    values = [_slice_of(each, node, walk) if isinstance(each, _Span) else each for each in found]
    span = walk.once(_Lengths).read_by(node)
    assert span is not None
    return _join(values, span.axis, node, walk)


def _find_element(node: ir.Node, walk: Walk) -> _Span | NoMatch:
    lengths = walk.once(_Lengths)
    span = lengths.read_by(node)
    if span is None:
        return NoMatch("it is not known which one element it reads along the axis")
    inner = lengths.innermost(span)
    return NoMatch("no part of what is read contains it") if inner.value is span.value else inner


def _gather_element(node: ir.Node, found: _Span, walk: Walk) -> Op | ir.Value:
    unsqueeze = producer_of(found.value, "Unsqueeze")
    if unsqueeze is not None and axes_of(unsqueeze) == [found.axis] and unsqueeze.inputs[0] is not None:
        return unsqueeze.inputs[0]
    index = walk.constants.number(found.start, ir.DataType.INT64, node)
    return op("Gather", found.value, index, attributes_of=node)


_SLICES: Rewrite[_Span | list[ir.Value | _Span | None]] = Rewrite(
    name="slice of a join or a slice", at=("Slice",), find=_find_part, write=_slice_part
)
JOINS = (
    Rewrite(name="join of joins and of empty parts", at=("Concat",), find=_find_parts, write=_join_parts),
    _SLICES,
    Rewrite(name="element of a join or a slice", at=("Gather",), find=_find_element, write=_gather_element),
)

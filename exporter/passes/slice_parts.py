"""Slices of what is joined from parts, as loops make them that write to one place after the other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.passes.matching import axes_of, axis_of, ints_of, producer_of
from onnx_parity.exporter.passes.new_constants import NewConstants

__all__ = ["Lengths", "slice_parts"]


class Lengths:
    """How long values are along an axis, where passes know of no shape: parts that a program writes to, and slices."""

    def __init__(self) -> None:
        self._known: dict[tuple[ir.Value, int], int | None] = {}

    def of(self, value: ir.Value | None, axis: int) -> int | None:
        if value is None:
            return None
        if (value, axis) not in self._known:
            # The values before it are known already, because nodes are visited in their order.
            self._known[value, axis] = self._found(value, axis)
        return self._known[value, axis]

    def _found(self, value: ir.Value, axis: int) -> int | None:
        size = value.shape[axis] if value.shape is not None else None
        if isinstance(size, int):
            return size
        node = value.producer()
        if node is None or node.domain:
            return None
        if node.op_type == "Unsqueeze":
            axes = axes_of(node)
            return 1 if axes is not None and axis in axes else None
        if node.op_type == "Concat" and axis_of(node) == axis:
            parts = [self.of(part, axis) for part in node.inputs]
            return None if None in parts else sum(part for part in parts if part is not None)
        bounds = self.bounds(node) if node.op_type == "Slice" else None
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


class _Span(msgspec.Struct, frozen=True):
    """A part of a value along an axis: from `start` on, up to `stop`."""

    value: ir.Value
    start: int
    stop: int


def slice_parts(node: ir.Node, constants: NewConstants, lengths: Lengths) -> None:
    """Read the parts that a slice of a join consists of, or the one part in which it lies.

    A loop that writes to y[:, 0], y[:, 1], ... joins what is before each, the new value and what is after it.
    """
    bounds, source = lengths.bounds(node), node.inputs[0]
    if bounds is None or source is None:
        return
    axis, start, stop = bounds
    span = _Span(source, start, stop)
    while span.start < span.stop:
        found = _read_from(span, axis, lengths)
        if isinstance(found, list):
            _become_join(node, axis, found)
            return
        if found is None:
            break
        span = found
    if span.value is not source:
        _become_slice(node, axis, span, constants, lengths)


def _read_from(span: _Span, axis: int, lengths: Lengths) -> _Span | list[ir.Value | None] | None:
    """What is before a slice or a join that a span is of: a span of it, or the parts that the span consists of."""
    inner = producer_of(span.value, "Slice")
    bounds = lengths.bounds(inner) if inner is not None else None
    if inner is not None and bounds is not None and bounds[0] == axis and inner.inputs[0] is not None:
        return _Span(inner.inputs[0], span.start + bounds[1], span.stop + bounds[1])
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
        return [join.inputs[place] for place in inside] if is_whole else None
    part = join.inputs[inside[0]]
    first = starts[inside[0]]
    return None if part is None else _Span(part, span.start - first, span.stop - first)


def _become_join(node: ir.Node, axis: int, parts: Sequence[ir.Value | None]) -> None:
    node.op_type = "Concat"
    node.attributes.clear()
    node.attributes["axis"] = ir.AttrInt64("axis", axis)
    node.resize_inputs(len(parts))
    for place, part in enumerate(parts):
        node.replace_input_with(place, part)


def _become_slice(node: ir.Node, axis: int, span: _Span, constants: NewConstants, lengths: Lengths) -> None:
    """Slice another value; or read it itself, if the slice is all of it."""
    out = node.outputs[0]
    if (span.start, span.stop) == (0, lengths.of(span.value, axis)) and not out.is_graph_output():
        out.replace_all_uses_with(span.value)
        return
    node.replace_input_with(0, span.value)
    if "axes" in node.attributes:
        node.attributes["starts"] = ir.AttrInt64s("starts", [span.start])
        node.attributes["ends"] = ir.AttrInt64s("ends", [span.stop])
    else:
        node.replace_input_with(1, constants.vector([span.start], node))
        node.replace_input_with(2, constants.vector([span.stop], node))

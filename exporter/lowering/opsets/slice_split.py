"""Slice, whose bounds and steps became inputs with opset 10, and Split, whose sizes did with opset 13."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import onnx_ir as ir
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import never_negative, shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["AXIS_END", "SliceForms"]

#: The end of a slice that reaches to the end of its axis.
AXIS_END = torch.iinfo(torch.int64).max


class SliceForms(Base):
    """Slices and splits."""

    def slice(
        self,
        x: Value,
        axes: Sequence[int],
        starts: Sequence[Size],
        ends: Sequence[Size],
        steps: Sequence[Size] | None = None,
    ) -> Value:
        if steps is not None and all(isinstance(step, int) and step == 1 for step in steps):
            steps = None
        if self.opset >= 10:
            axes_value = self.const(list(axes), torch.int64)
            steps_value = None if steps is None else self.ints(steps)
            operands = [x, self.ints(starts), self.ints(ends), axes_value]
            part: Value = self.op("Slice", *operands, *([] if steps_value is None else [steps_value]))
            if self.opset == 10 and x.shape is not None:
                # ONNX's shape inference assumes that a slice of a dynamic axis is the whole axis unless its size has a
                # name.
                dynamic = [axis for axis in axes if not isinstance(x.shape[axis], int)]
                part.ir.shape = ir.Shape([self.new_name("part") if axis in dynamic else None for axis in range(x.rank)])
            return part
        if steps is None and all(isinstance(bound, int) for bound in (*starts, *ends)):
            return self.op("Slice", x, axes_i=axes, starts_i=starts, ends_i=ends)
        for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True):
            if isinstance(step, int):
                x = self._sliced_by_gather(x, axis, start, end, step)
            else:
                self.require_opset(10, "the steps of a Slice are computed")
        return x

    def _sliced_by_gather(self, x: Value, axis: int, start: Size, end: Size, step: int) -> Value:
        """A slice with a step or dynamic bounds, which Slice accepts from opset 10 on. Its indices are gathered."""
        size = x.sizes[axis]
        if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
            known = list(range(size))[slice(start, end, step)]
            indices, count = self.const(known or torch.empty(0, dtype=torch.int64), torch.int64), len(known)
        else:
            if step < 0:
                # Only flip has one, of a whole axis.
                assert (start, end, step) == (-1, -sys.maxsize, -1)
                backwards = self.op("Sub", self.op("Sub", self.scalar(size, torch.int64), 1), self.iota(size))
                return shaped(self.op("Gather", x, backwards, axis_i=axis), x.sizes)
            first, stop = (self._from_front(bound, size) for bound in (start, end))
            if not (never_negative(first) and never_negative(stop)):
                return self._gathered_between(x, axis, self.bound(start, size), self.bound(end, size), step)
            whole = isinstance(first, int) and first == 0 and stop is size
            count = ((stop if whole else torch.sym_min(stop, size)) - first + step - 1) // step
            if not whole:
                # A dynamic axis may end before the slice begins.
                count = torch.sym_max(count, 0)
            indices = self.op("Add", self.op("Mul", self.iota(count), step), self.scalar(first, torch.int64))
        return shaped(self.op("Gather", x, indices, axis_i=axis), (*x.sizes[:axis], count, *x.sizes[axis + 1 :]))

    def bound(self, bound: Size, size: Size) -> Value:
        """A bound of a slice as a vector of one element, counted from the front and limited to the axis."""
        whole, zero = self.ints([size]), self.const([0], torch.int64)
        if isinstance(bound, int) and bound == AXIS_END:
            return whole
        index = self.ints([bound])
        index = self.where(self.less(index, zero), self.op("Add", index, whole), index)
        return self.extreme("Min", self.extreme("Max", index, zero), whole)

    def between(self, x: Value, axis: int, first: Value, stop: Value) -> Value:
        """A slice between two results of `bound`."""
        if self.opset < 10:
            return self._gathered_between(x, axis, first, stop, 1)
        return self.op("Slice", x, first, stop, self.const([axis], torch.int64))

    def _gathered_between(self, x: Value, axis: int, first: Value, stop: Value, step: int) -> Value:
        length = self.extreme("Max", self.op("Sub", stop, first), self.const([0], torch.int64))
        count = self.floor_divide(self.op("Add", length, step - 1), self.const([step], torch.int64))
        indices = self.op("Add", self.op("Mul", self.iota_below(count), step), first)
        return self.op("Gather", x, indices, axis_i=axis)

    @staticmethod
    def _from_front(bound: Size, size: Size) -> Size:
        if not isinstance(bound, int):
            return bound
        if bound < 0:
            return size + bound
        return size if bound == AXIS_END else bound

    def split(self, x: Value, axis: int, sizes: Sequence[Size]) -> list[Value]:
        count = len(sizes)
        if count == 1:
            return [x]
        if self.opset < 13:
            if not all(isinstance(size, int) for size in sizes):
                return self._split_by_slices(x, axis, sizes)
            return list(self.op("Split", x, axis_i=axis, split_i=sizes, outputs=count))
        return list(self.op("Split", x, self.ints(sizes), axis_i=axis, outputs=count))

    def _split_by_slices(self, x: Value, axis: int, sizes: Sequence[Size]) -> list[Value]:
        """A split into dynamic sizes, which Split accepts from opset 13 on, as slices."""
        parts = []
        start: Size = 0
        for size in sizes:
            parts.append(self.slice(x, [axis], [start], [start + size]))
            start = start + size
        return parts

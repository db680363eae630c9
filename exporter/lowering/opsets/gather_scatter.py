"""Gathering and scattering with index tensors, and iota.

Gather is in every opset. GatherElements, ScatterElements and ScatterND came with opset 11, their reductions with opsets
16 and 18. For earlier opsets, elements are gathered by one Gather from the flattened tensor, and scattering becomes
gathering: for each element of the result, `_hits` computes which update is written to it, if any, and Gather reads that
update. Gather accepts every dtype and copies values unchanged, unlike products with a one-hot mask, which turn
infinities into NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import extremes
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import same_size, shaped
from onnx_parity.exporter.lowering.values.value import Number, Value

__all__ = ["GatherScatterForms", "Reduction"]

Reduction = Literal["add", "mul", "max", "min"]

#: For each reduction, the first opset whose scatter operators have it.
_SINCE: dict[Reduction | None, int] = {None: 11, "add": 16, "mul": 16, "max": 18, "min": 18}
#: For each reduction, the ONNX operator `Reduce...` that computes it over an axis.
_OVER_AXIS = {"add": "Sum", "mul": "Prod", "max": "Max", "min": "Min"}
#: Operators that give indices into an axis, of which none is negative, by the number of the output that has them.
_INDICES = {"ArgMax": 0, "ArgMin": 0, "NonZero": 0, "TopK": 1}
#: Operators that only move or select elements of their first input.
_MOVES = frozenset({"Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})


class GatherScatterForms(Base):
    """Iota, gathering and scattering."""

    def iota(self, size: Size, dtype: torch.dtype = torch.int64) -> Value:
        """0, 1, ... below `size`."""
        if isinstance(size, int):
            return self.const(torch.arange(size, dtype=dtype))
        return shaped(self.iota_below(self.ints([size]), dtype), [size])

    def iota_below(self, size: Value, dtype: torch.dtype = torch.int64) -> Value:
        """0, 1, ... below a size that is computed at run time, a vector of one element."""
        if self.opset >= 11:
            limit = self.squeeze(self.cast(size, dtype), [0])
            return self.op("Range", self.const(0, dtype), limit, self.const(1, dtype))
        self.require_opset(9, "counting along a dynamic axis needs ONNX's NonZero")
        ones = self.op("ConstantOfShape", size, value_t=torch.ones(1, dtype=torch.int64))
        return self.cast(self.op("Reshape", self.op("NonZero", ones), self.const([-1], torch.int64)), dtype)

    def from_front(self, index: Value, size: Size) -> Value:
        """An int64 index without negative entries, which count from the end of the axis."""
        if index.constant is not None:
            known = index.constant.to(torch.int64)
            if bool((known >= 0).all()):
                return self.cast(index, torch.int64)
            if isinstance(size, int):
                return self.const(torch.where(known < 0, known + size, known))
        places = self.cast(index, torch.int64)
        if index.counts is not None or _are_indices(index.ir):
            return places
        length = self.scalar(size, torch.int64)
        if self.opset >= 10 and isinstance(size, int):
            return self.op("Mod", places, length)
        # onnxruntime takes no remainder by a dynamic size that is 0, also where there is no index.
        wrapped = self.cast(self.less(places, self.const(0, torch.int64)), torch.int64)
        return shaped(self.op("Add", places, self.op("Mul", wrapped, length)), index.shape)

    def flat_index(self, indices: Sequence[Value], sizes: Sequence[Size]) -> Value:
        """The index into several axes flattened to one, from broadcast indices into each of them."""
        total = indices[0]
        for index, size in zip(indices[1:], sizes[1:], strict=True):
            total = self.op("Add", self.op("Mul", total, self.scalar(size, torch.int64)), index)
        return total

    def along(self, size: Size, axis: int, rank: int) -> Value:
        """0, 1, ... along one of `rank` axes, the others of size 1."""
        return self.unsqueeze(self.iota(size), [other for other in range(rank) if other != axis])

    # --- gathering ------------------------------------------------------------------------------------------------

    def gather(self, x: Value, index: Value, axis: int) -> Value:
        """Slices of `x` along `axis`. Before opset 11 indices must not be negative."""
        if self.opset < 11:
            index = self.from_front(index, x.sizes[axis])
        return self.op("Gather", x, index, axis_i=axis)

    def can_gather_pairs(self) -> bool:
        """Whether one operator, GatherND, takes the indices along several axes."""
        return self.opset >= 11

    def gather_elements(self, x: Value, index: Value, axis: int) -> Value:
        """y[i, j] = x[index[i, j], j], for axis 0."""
        if self.opset >= 11:
            return shaped(self.op("GatherElements", x, self.cast(index, torch.int64), axis_i=axis), index.sizes)
        indices = [self.along(size, other, index.rank) for other, size in enumerate(index.sizes)]
        indices[axis] = self.from_front(index, x.sizes[axis])
        flat = self.reshape(x, [-1])
        return shaped(self.op("Gather", flat, self.flat_index(indices, x.sizes), axis_i=0), index.sizes)

    # --- scattering -----------------------------------------------------------------------------------------------

    def scatter_rows(self, x: Value, index: Value, updates: Value, reduction: Reduction | None = None) -> Value:
        """x[index[i]] = updates[i] for a vector `index`. Updates of one row are reduced, or the last is used."""
        return self._keeping_nan(lambda old, new, how: self._scatter_rows(old, index, new, how), x, updates, reduction)

    def _scatter_rows(self, x: Value, index: Value, updates: Value, reduction: Reduction | None) -> Value:
        computed = _compute_dtype(x.dtype, reduction)
        old, new = self.cast(x, computed), self.cast(updates, computed)
        if self.opset >= _SINCE[reduction]:
            indices = self.unsqueeze(self.cast(index, torch.int64), [1])
            y = self.op("ScatterND", old, indices, new, reduction_s=reduction)
        else:
            hits = self._hits(self.from_front(index, x.sizes[0]), x.sizes[0], index.sizes[0])
            y = self._gathered_updates(old, hits, new, reduction, by_element=False)
        return shaped(self.cast(y, x.dtype), x.sizes)

    def scatter_elements(
        self, x: Value, index: Value, updates: Value, axis: int, reduction: Reduction | None = None
    ) -> Value:
        """x[index[i, j], j] = updates[i, j], for axis 0; `index` may be smaller than `x` along the other axes."""
        return self._keeping_nan(
            lambda old, new, how: self._scatter_elements(old, index, new, axis, how), x, updates, reduction
        )

    def _scatter_elements(
        self, x: Value, index: Value, updates: Value, axis: int, reduction: Reduction | None
    ) -> Value:
        computed = _compute_dtype(x.dtype, reduction)
        old, new = self.cast(x, computed), self.cast(updates, computed)
        if self.opset >= _SINCE[reduction]:
            y = self.op("ScatterElements", old, self.cast(index, torch.int64), new, axis_i=axis, reduction_s=reduction)
        elif self.opset >= 9 and reduction is None:
            y = self.op("Scatter", old, self.from_front(index, x.sizes[axis]), new, axis_i=axis)
        else:
            y = self._scatter_by_gathering(old, index, new, axis, reduction)
        return shaped(self.cast(y, x.dtype), x.sizes)

    def _keeping_nan(
        self,
        scatter: Callable[[Value, Value, Reduction | None], Value],
        x: Value,
        updates: Value,
        reduction: Reduction | None,
    ) -> Value:
        """The result of `scatter`. Runtimes may lose NaN in maxima and minima, and torch does not."""
        result = scatter(x, updates, reduction)
        if reduction not in ("max", "min") or (x.has_no_nan and updates.has_no_nan):
            return result
        old_nan, new_nan = (self.cast(self.is_nan(value), torch.int32) for value in (x, updates))
        count = scatter(old_nan, new_nan, "add")
        is_nan = self.greater(count, self.const(0, torch.int32))
        return self.where(is_nan, self.const(math.nan, x.dtype), result)

    def scatter_masked(self, x: Value, mask: Value, updates: Value) -> Value:
        """`x` with the rows that a boolean vector selects replaced by the first rows of `updates`, in order."""
        size = x.sizes[0]
        here = self.iota(size)
        # x and updates are joined: row n, if selected, is updated from size + (how many are selected up to n) - 1.
        update = self.op("Add", self.cumulative_count(mask, size), self.scalar(size - 1, torch.int64))
        offset = self.op("Mul", self.cast(mask, torch.int64), self.op("Sub", update, here))
        both = self.op("Concat", x, updates, axis_i=0)
        return shaped(self.op("Gather", both, self.op("Add", here, offset), axis_i=0), x.sizes)

    def _scatter_by_gathering(
        self, x: Value, index: Value, updates: Value, axis: int, reduction: Reduction | None
    ) -> Value:
        """Scatter without an operator: with `axis` first, and `index` and `updates` padded to the sizes of `x`."""
        order = [axis, *(other for other in range(x.rank) if other != axis)]
        back = [order.index(other) for other in range(x.rank)]
        front = self.transpose(x, order)
        size, count = x.sizes[axis], index.sizes[axis]
        rows, news = (
            self.transpose(self._padded_to(value, index, x, axis, filler), order)
            for value, filler in ((self.from_front(index, size), -1), (updates, 0))
        )
        y = self._gathered_updates(front, self._hits(rows, size, count), news, reduction, by_element=True)
        return self.transpose(y, back)

    def _padded_to(self, value: Value, index: Value, x: Value, axis: int, filler: Number) -> Value:
        """`value`, which has the sizes of `index`, padded to the sizes of `x` along all axes but `axis`."""
        missing: list[Size] = [
            0 if other == axis or same_size(own, all_of) else all_of - own
            for other, (own, all_of) in enumerate(zip(index.sizes, x.sizes, strict=True))
        ]
        return self.pad(value, [0] * x.rank, missing, value=filler)

    def _hits(self, rows: Value, size: Size, count: Size) -> Value:
        """For each row of the result and each update: the number of the update, from 1, if it is for the row, or 0."""
        rest = rows.rank - 1
        matches = self.op(
            "Equal",
            self.unsqueeze(self.iota(size), list(range(1, 2 + rest))),
            self.unsqueeze(rows, [0]),
        )
        numbers = self.op("Add", self.iota(count), self.const(1, torch.int64))
        number = self.unsqueeze(numbers, [0, *range(2, 2 + rest)])
        return self.op("Mul", self.cast(matches, torch.int64), number)

    def _gathered_updates(
        self, x: Value, hits: Value, updates: Value, reduction: Reduction | None, by_element: bool
    ) -> Value:
        size, count, rest = x.sizes[0], hits.sizes[1], list(x.sizes[1:])
        if any(isinstance(extent, int) and extent == 0 for extent in (size, count)):
            return x
        if reduction is None:
            # x and updates are joined, and for each row its last update is gathered, or else the row itself.
            last = self.reduce("Max", hits, [1], keepdim=False)
            if not isinstance(count, int):
                # There may be no updates, and runtimes differ in their result of ReduceMax over an empty axis.
                last = self.extreme("Max", last, self.const(0, torch.int64))
            is_updated = self.cast(self.cast(last, torch.bool), torch.int64)
            here = self.along(size, 0, hits.rank - 1)
            offset = self.op("Sub", self.op("Add", last, self.scalar(size - 1, torch.int64)), here)
            pick = shaped(self.op("Add", here, self.op("Mul", is_updated, offset)), [size, *hits.sizes[2:]])
            both = shaped(self.op("Concat", x, updates, axis_i=0), [size + count, *rest])
            return self.gather_elements(both, pick, 0) if by_element else self.op("Gather", both, pick, axis_i=0)
        neutral = self.full([1, *rest], _neutral(x.dtype, reduction), x.dtype)
        options = shaped(self.op("Concat", neutral, updates, axis_i=0), [count + 1, *rest])
        if by_element:
            indices = [hits, *(self.along(extent, 2 + axis, hits.rank) for axis, extent in enumerate(rest))]
            chosen = self.op("Gather", self.reshape(options, [-1]), self.flat_index(indices, options.sizes), axis_i=0)
        else:
            chosen = self.op("Gather", options, hits, axis_i=0)
        chosen = shaped(chosen, [size, count, *rest])
        return self._reduced(x, self.reduce(_OVER_AXIS[reduction], chosen, [1], keepdim=False), reduction)

    def _reduced(self, a: Value, b: Value, reduction: Reduction) -> Value:
        if reduction == "max":
            return self.extreme("Max", a, b)
        if reduction == "min":
            return self.extreme("Min", a, b)
        return self.op("Add" if reduction == "add" else "Mul", a, b)


def _are_indices(value: ir.Value | None) -> bool:
    """Whether all elements are indices that another operator gave."""
    while value is not None and (node := value.producer()) is not None and not node.domain:
        if node.op_type in _INDICES:
            return value.index() == _INDICES[node.op_type]
        if node.op_type not in _MOVES:
            return False
        value = node.inputs[0]
    return False


def _compute_dtype(dtype: torch.dtype, reduction: Reduction | None) -> torch.dtype:
    """The dtype in which onnxruntime scatters. It copies every dtype, but does not reduce halves or booleans."""
    if reduction is None:
        return dtype
    return {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.bool: torch.int32}.get(dtype, dtype)


def _neutral(dtype: torch.dtype, reduction: Reduction) -> Number:
    """The neutral element of a reduction."""
    if reduction in ("add", "mul"):
        return int(reduction == "mul")
    lowest, highest = extremes(dtype)
    return lowest if reduction == "max" else highest

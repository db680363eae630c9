"""Axes: an attribute at first, an input later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from exporter.lowering.opsets.base import Base
from exporter.lowering.values import Value

__all__ = ["AxesForms"]

Reduction = Literal["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "LogSumExp", "SumSquare"]


class AxesForms(Base):
    """Squeezing, unsqueezing, reducing, permuting."""

    def _with_axes(self, op: str, x: Value, axes: Sequence[int] | None, since: int, **attributes: Any) -> Value:
        if axes is None or self.opset < since:
            return self.op(op, x, axes_i=axes, **attributes)
        return self.op(op, x, self.const(list(axes), torch.int64), **attributes)

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        return self._with_axes("Squeeze", x, axes, 13) if axes else x

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        return self._with_axes("Unsqueeze", x, axes, 13) if axes else x

    def reduce(self, how: Reduction, x: Value, axes: Sequence[int] | None, keepdim: bool) -> Value:
        """Reduce over `axes`, over all of them for None."""
        since = 13 if how == "Sum" else 18
        if axes is not None and not axes:
            return x
        return self._with_axes(f"Reduce{how}", x, axes, since, keepdims_i=keepdim)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        if list(permutation) == list(range(len(permutation))):
            return x
        return self.op("Transpose", x, perm_i=permutation)

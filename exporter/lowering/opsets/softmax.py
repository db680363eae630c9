"""Softmax and LogSoftmax, which flattened the axes from `axis` on until opset 13."""

from __future__ import annotations

import math

import torch

from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["SoftmaxForms"]


class SoftmaxForms(Base):
    """Softmax over one axis."""

    def softmax(self, x: Value, dim: int, log: bool = False) -> Value:
        """Softmax over one axis. Before opset 13 that axis is moved to the end, where flattening changes nothing."""
        if log and x.dtype is torch.float64 and x.rank:
            # Beside an infinity all of torch's results in float64 are NaN, as here; those of onnxruntime are not.
            shifted = self.op("Sub", x, self.reduce("Max", x, [dim], True))
            return self.op("Sub", shifted, self.op("Log", self.reduce("Sum", self.op("Exp", shifted), [dim], True)))
        op = "LogSoftmax" if log else "Softmax"
        last = x.rank - 1
        if x.rank == 0:
            return self.reshape(self.op(op, self.reshape(x, [1]), axis_i=0), [])
        if self.opset >= 13 or dim == last:
            return self.op(op, x, axis_i=dim)
        swap = list(range(x.rank))
        swap[dim], swap[last] = last, dim
        return self.transpose(self.op(op, self.transpose(x, swap), axis_i=last), swap)

    def safe_softmax(self, x: Value, axis: int) -> Value:
        """Softmax over one axis, and 0 for a row of -inf only."""
        highest = self.extreme_over("Max", x, [axis], True)
        is_empty = self.equal(highest, self.const(-math.inf, x.dtype))
        zero = self.const(0, x.dtype)
        if self.opset < 9:
            # What stands for Where lets NaN through, so there must be none.
            x = self.where(is_empty, zero, x)
        return self.where(is_empty, zero, self.softmax(x, axis))

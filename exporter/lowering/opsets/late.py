"""Operators that changed their meaning, or that came late and are written out before."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from exporter.capture.graph import Size
from exporter.lowering.dtypes import TO_ONNX
from exporter.lowering.opsets.base import Base
from exporter.lowering.values import Value

__all__ = ["LateForms"]


class LateForms(Base):
    """Softmax, layer norm, dropout, random numbers."""

    def softmax(self, x: Value, dim: int, log: bool = False) -> Value:
        """Before opset 13 Softmax flattened everything from `axis` on: right for the last axis only."""
        op = "LogSoftmax" if log else "Softmax"
        last = x.rank - 1
        if x.rank == 0:
            return self.reshape(self.softmax_of_vector(self.reshape(x, [1]), op), [])
        if self.opset >= 13 or dim == last:
            return self.op(op, x, axis_i=dim)
        swap = list(range(x.rank))
        swap[dim], swap[last] = last, dim
        return self.transpose(self.op(op, self.transpose(x, swap), axis_i=last), swap)

    def softmax_of_vector(self, x: Value, op: str) -> Value:
        return self.op(op, x, axis_i=0)

    def layer_norm(self, x: Value, axes: int, weight: Value | None, bias: Value | None, epsilon: float) -> Value:
        """Normalise over the last `axes` axes."""
        if self.opset >= 17 and weight is not None:
            operands = [x, weight, *([] if bias is None else [bias])]
            return self.op("LayerNormalization", *operands, axis_i=-axes, epsilon_f=epsilon)
        over = list(range(x.rank - axes, x.rank))
        centred = self.op("Sub", x, self.reduce("Mean", x, over, True))
        variance = self.reduce("Mean", self.op("Mul", centred, centred), over, True)
        scaled: Value = self.op("Div", centred, self.op("Sqrt", self.op("Add", variance, epsilon)))
        if weight is not None:
            scaled = self.op("Mul", scaled, weight)
        return scaled if bias is None else self.op("Add", scaled, bias)

    def dropout(self, x: Value, p: float) -> Value:
        """Dropout as in training."""
        if self.opset >= 12:
            ratio = self.const(p, torch.float32)
            return self.op("Dropout", x, ratio, self.const(True, torch.bool))
        drawn = self.op("RandomUniformLike", x, dtype_i=_onnx_number(torch.float32))
        kept = self.op("Not", self.less(drawn, self.const(p, torch.float32)))
        return self.op("Mul", x, self.op("Mul", self.cast(kept, x.dtype), 1 / (1 - p)))

    def uniform(self, sizes: Sequence[Size], dtype: torch.dtype) -> Value:
        """Random numbers in [0, 1)."""
        if all(isinstance(size, int) for size in sizes):
            return self.op("RandomUniform", shape_i=sizes, dtype_i=_onnx_number(dtype))
        return self.op("RandomUniformLike", self.full(sizes, 0, dtype), dtype_i=_onnx_number(dtype))


def _onnx_number(dtype: torch.dtype) -> int:
    return TO_ONNX[dtype].value

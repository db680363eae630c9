"""Softmax and LogSoftmax, which flattened the axes from `axis` on until opset 13."""

from __future__ import annotations

from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["SoftmaxForms"]


class SoftmaxForms(Base):
    """Softmax over one axis."""

    def softmax(self, x: Value, dim: int, log: bool = False) -> Value:
        """Softmax over one axis. Before opset 13 that axis is moved to the end, where flattening changes nothing."""
        op = "LogSoftmax" if log else "Softmax"
        last = x.rank - 1
        if x.rank == 0:
            return self.reshape(self.op(op, self.reshape(x, [1]), axis_i=0), [])
        if self.opset >= 13 or dim == last:
            return self.op(op, x, axis_i=dim)
        swap = list(range(x.rank))
        swap[dim], swap[last] = last, dim
        return self.transpose(self.op(op, self.transpose(x, swap), axis_i=last), swap)

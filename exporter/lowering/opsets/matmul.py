"""Products of matrices."""

from __future__ import annotations

from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import same_size
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["ProductForms"]


class ProductForms(Base):
    """MatMul, which took integers from opset 9 on."""

    def matmul(self, a: Value, b: Value) -> Value:
        """numpy's product: over the last axis of `a` and the last but one of `b`, batches broadcast."""
        # A product over nothing is 0, where onnxruntime's MatMul returns what lies in memory.
        over_nothing = a.shape is not None and same_size(a.shape[-1], 0)
        if (a.dtype.is_floating_point or self.opset >= 9) and not over_nothing:
            return self.op("MatMul", a, b)
        row, column = a.rank == 1, b.rank == 1
        # (..., m, k, 1) * (..., 1, k, n), summed over k.
        left = self.unsqueeze(self.unsqueeze(a, [0]) if row else a, [a.rank + row])
        right = self.unsqueeze(b, [1]) if column else b
        right = self.unsqueeze(right, [right.rank - 2])
        rank = max(left.rank, right.rank) - 1
        product = self.reduce("Sum", self.op("Mul", left, right), [rank - 1], False)
        return self.squeeze(product, [rank - 2] * row + [rank - 1] * column)

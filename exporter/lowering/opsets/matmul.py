"""Linear transforms: MatMul, which takes integers from opset 9 on, Gemm, whose bias is optional from opset 11 on, and
DFT, which came with opset 17 and has its axis as an input from opset 20 on."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import same_size
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["MatmulForms"]


class MatmulForms(Base):
    """MatMul, Gemm and DFT."""

    def matmul(self, a: Value, b: Value) -> Value:
        """numpy's matmul: over the last axis of `a` and the last but one of `b`, with the others broadcast."""
        # A product over an empty axis is 0, but onnxruntime's MatMul returns uninitialized memory for it.
        is_empty = a.shape is not None and same_size(a.shape[-1], 0)
        if (a.dtype.is_floating_point or self.opset >= 9) and not is_empty:
            rows = (a.shape or ())[:-1]
            if b.shape is None or len(b.shape) != 1 or all(isinstance(size, int) for size in rows):
                return self.op("MatMul", a, b)
            # onnxruntime fails where it multiplies matrices without rows with a vector.
            return self.squeeze(self.op("MatMul", a, self.unsqueeze(b, [1])), [len(rows)])
        row, column = a.rank == 1, b.rank == 1
        # (..., m, k, 1) * (..., 1, k, n), summed over k.
        left = self.unsqueeze(self.unsqueeze(a, [0]) if row else a, [a.rank + row])
        right = self.unsqueeze(b, [1]) if column else b
        right = self.unsqueeze(right, [right.rank - 2])
        rank = max(left.rank, right.rank) - 1
        product = self.reduce("Sum", self.op("Mul", left, right), [rank - 1], False)
        return self.squeeze(product, [rank - 2] * row + [rank - 1] * column)

    def linear(self, x: Value, weight: Value, bias: Value | None) -> Value:
        """x @ weight.T + bias, of two matrices."""
        if bias is not None:
            return self.op("Gemm", x, weight, bias, transB_i=1)
        if self.opset < 11:
            return self.matmul(x, self.transpose(weight, [1, 0]))
        return self.op("Gemm", x, weight, transB_i=1)

    def can_dft(self, dtype: torch.dtype) -> bool:
        """Whether ONNX has the discrete Fourier transform of the dtype at this opset."""
        return self.opset >= 17 and self.has_kernel("DFT", dtype, "T1")

    def dft(self, x: Value, axis: int, *, inverse: bool = False, onesided: bool = False) -> Value:
        """The transform along an axis, of parts of complex numbers on a last axis of 2, or of real ones on one of 1."""
        if self.opset < 20:
            return self.op("DFT", x, axis_i=axis, inverse_i=inverse, onesided_i=onesided)
        return self.op("DFT", x, None, self.const(axis, torch.int64), inverse_i=inverse, onesided_i=onesided)

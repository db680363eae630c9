"""Random numbers and dropout in training mode."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["RandomForms"]


class RandomForms(Base):
    """Uniform and normal samples, and dropout."""

    @property
    def has_training_dropout(self) -> bool:
        """Whether Dropout has an input that switches it to training mode, which came with opset 12."""
        return self.opset >= 12

    def dropout(self, x: Value, p: float) -> Value:
        """Dropout in training mode."""
        if self.has_training_dropout:
            y, kept = self.op("Dropout", x, self.const(p, torch.float32), self.const(True, torch.bool), outputs=2)
            # onnxruntime 1.31 removes a Dropout whose mask is not used, even in training mode.
            return self.where(kept, y, self.const(0, x.dtype))
        sample = self.op("RandomUniformLike", x, dtype_i=_onnx_number(torch.float32))
        kept = self.op("Not", self.less(sample, self.const(p, torch.float32)))
        return self.op("Mul", x, self.op("Mul", self.cast(kept, x.dtype), 1 / (1 - p)))

    def uniform(self, sizes: Sequence[Size], dtype: torch.dtype) -> Value:
        """Random numbers in [0, 1)."""
        if self.has_kernel("RandomUniform", dtype):
            return self._random("Uniform", sizes, dtype)
        return self.cast(self._uniform_from_dropout(sizes), dtype)

    def normal(self, sizes: Sequence[Size], dtype: torch.dtype) -> Value:
        """Random numbers of mean 0 and standard deviation 1."""
        if self.has_kernel("RandomNormal", dtype):
            return self._random("Normal", sizes, dtype)
        # The Box-Muller transform: sqrt(-2 log(1 - u)) cos(2 pi v).
        u, v = self._uniform_from_dropout(sizes), self._uniform_from_dropout(sizes)
        log = self.op("Log", self.op("Sub", self.const(1.0), u))
        cosine = self.op("Cos", self.op("Mul", v, 2 * math.pi))
        return self.cast(self.op("Mul", self.op("Sqrt", self.op("Mul", log, -2)), cosine), dtype)

    def _random(self, how: str, sizes: Sequence[Size], dtype: torch.dtype) -> Value:
        onnx_dtype = _onnx_number(dtype)
        if sizes and all(isinstance(size, int) for size in sizes):
            return shaped(self.op(f"Random{how}", shape_i=sizes, dtype_i=onnx_dtype), sizes)
        return shaped(self.op(f"Random{how}Like", self.full(sizes, 0, dtype), dtype_i=onnx_dtype), sizes)

    def _uniform_from_dropout(self, sizes: Sequence[Size]) -> Value:
        """float32 numbers in [0, 1) whose 24 bits are the masks of a Dropout.

        onnxruntime 1.31 has no kernels for the versions of RandomUniform, RandomNormal and their Like variants in opset
        22. Dropout is an operator that it runs and that uses a random generator.
        """
        ones = self.full([24, *sizes], 1, torch.float32)
        _, kept = self.op("Dropout", ones, self.const(0.5), self.const(True), outputs=2)
        weights = (0.5 ** torch.arange(1, 25)).reshape([-1] + [1] * len(sizes))
        weighted = self.op("Mul", self.cast(kept, torch.float32), self.const(weights))
        return shaped(self.reduce("Sum", weighted, [0], keepdim=False), sizes)


def _onnx_number(dtype: torch.dtype) -> int:
    return TO_ONNX[dtype].value

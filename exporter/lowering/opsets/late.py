"""Operators that changed their meaning, or that came late and are written out before."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Number, Value

__all__ = ["LateForms"]


class LateForms(Base):
    """Softmax, running sums, dropout, random numbers."""

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

    def dropout(self, x: Value, p: float) -> Value:
        """Dropout as in training."""
        if self.opset >= 12:
            y, kept = self.op("Dropout", x, self.const(p, torch.float32), self.const(True, torch.bool), outputs=2)
            # onnxruntime 1.31 takes a Dropout for the identity, in training mode too, unless its mask is used.
            return self.where(kept, y, self.const(0, x.dtype))
        drawn = self.op("RandomUniformLike", x, dtype_i=_onnx_number(torch.float32))
        kept = self.op("Not", self.less(drawn, self.const(p, torch.float32)))
        return self.op("Mul", x, self.op("Mul", self.cast(kept, x.dtype), 1 / (1 - p)))

    def running(self, how: Literal["Sum", "Prod"], x: Value, axis: int) -> Value:
        """The sums (products) up to and with each element. CumSum came with opset 11, CumProd with 26."""
        if self.has_kernel(f"Cum{how}", x.dtype):
            return self.op(f"Cum{how}", x, self.const(axis, torch.int64))
        size = x.sizes[axis]
        if not isinstance(size, int):
            since = 11 if how == "Sum" else 26
            raise Unsupported(f"running over an axis whose size varies needs Cum{how} of opset {since}", since=since)
        name, neutral = ("Add", 0) if how == "Sum" else ("Mul", 1)
        [total] = self.doubled([x], [neutral], axis, lambda earlier, here: [self.op(name, here[0], earlier[0])])
        return total

    def doubled(
        self,
        parts: Sequence[Value],
        neutral: Sequence[Number],
        axis: int,
        join: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]],
    ) -> Sequence[Value]:
        """Each element joined with all before it, along an axis of known size.

        It begins as what holds itself alone; joined with what stands as far before it as it reaches back, it reaches
        twice as far. Places before the first hold `neutral`.
        """
        sizes = parts[0].sizes
        size = sizes[axis]
        if not isinstance(size, int):
            raise Unsupported(
                "it runs over an axis whose size varies, for which ONNX has no operator: leave that axis out of "
                "dynamic_axes"
            )
        reach = 1
        while reach < size:
            earlier = [
                shaped(self.op("Concat", front, self.slice(part, [axis], [0], [size - reach]), axis_i=axis), sizes)
                for part, number in zip(parts, neutral, strict=True)
                for front in [self.full([*sizes[:axis], reach, *sizes[axis + 1 :]], number, part.dtype)]
            ]
            parts = [shaped(part, sizes) for part in join(earlier, parts)]
            reach *= 2
        return parts

    def uniform(self, sizes: Sequence[Size], dtype: torch.dtype) -> Value:
        """Random numbers in [0, 1)."""
        if self.has_kernel("RandomUniform", dtype):
            return self._random("Uniform", sizes, dtype)
        return self.cast(self._drawn_bits(sizes), dtype)

    def normal(self, sizes: Sequence[Size], dtype: torch.dtype) -> Value:
        """Random numbers of mean 0 and standard deviation 1."""
        if self.has_kernel("RandomNormal", dtype):
            return self._random("Normal", sizes, dtype)
        # The Box-Muller transform: sqrt(-2 log(1 - u)) cos(2 pi v).
        first, second = self._drawn_bits(sizes), self._drawn_bits(sizes)
        depth = self.op("Log", self.op("Sub", self.const(1.0), first))
        turn = self.op("Cos", self.op("Mul", second, 2 * math.pi))
        return self.cast(self.op("Mul", self.op("Sqrt", self.op("Mul", depth, -2)), turn), dtype)

    def _random(self, how: str, sizes: Sequence[Size], dtype: torch.dtype) -> Value:
        onnx_dtype = _onnx_number(dtype)
        if sizes and all(isinstance(size, int) for size in sizes):
            return shaped(self.op(f"Random{how}", shape_i=sizes, dtype_i=onnx_dtype), sizes)
        return shaped(self.op(f"Random{how}Like", self.full(sizes, 0, dtype), dtype_i=onnx_dtype), sizes)

    def _drawn_bits(self, sizes: Sequence[Size]) -> Value:
        """Numbers in [0, 1), float32, of 24 bits drawn one by one.

        onnxruntime 1.31 has no kernels for RandomUniform and its kin of opset 22, but Dropout draws, too.
        """
        ones = self.full([24, *sizes], 1, torch.float32)
        _, kept = self.op("Dropout", ones, self.const(0.5), self.const(True), outputs=2)
        weights = (0.5 ** torch.arange(1, 25)).reshape([-1] + [1] * len(sizes))
        weighed = self.op("Mul", self.cast(kept, torch.float32), self.const(weights))
        return shaped(self.reduce("Sum", weighed, [0], keepdim=False), sizes)


def _onnx_number(dtype: torch.dtype) -> int:
    return TO_ONNX[dtype].value

"""Normalizations: ONNX's operators if the opset and onnxruntime have them, and otherwise formulas of simpler ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.dtypes import fits_attribute
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.shapes import may_be_empty, product, shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["NormForms"]


class NormForms(Base):
    """Layer, RMS, instance and group norm. Weights and biases have the dtype of the input, or are None."""

    def standardised(self, x: Value, over: Sequence[int], epsilon: float) -> Value:
        """(x - mean) / sqrt(variance + epsilon)"""
        wide = self.accumulating(x)
        centred = self.op("Sub", wide, self.reduce("Mean", wide, over, True))
        variance = self.reduce("Mean", self.op("Mul", centred, centred), over, True)
        deviation = self.op("Sqrt", self.op("Add", variance, epsilon))
        return self.cast(self.op("Div", centred, deviation), x.dtype)

    def affine(self, x: Value, weight: Value | None, bias: Value | None) -> Value:
        """x * weight + bias"""
        y = x if weight is None else self.op("Mul", x, weight)
        return y if bias is None else self.op("Add", y, bias)

    def layer_norm(self, x: Value, axes: int, weight: Value | None, bias: Value | None, epsilon: float) -> Value:
        """Normalize over the last `axes` axes. LayerNormalization came with opset 17. onnxruntime refuses it for axes
        without elements."""
        normalized = x.sizes[x.rank - axes :]
        is_occupied = all(isinstance(size, int) and size > 0 for size in normalized)
        if is_occupied and self.has_kernel("LayerNormalization", x.dtype) and fits_attribute(epsilon, x.dtype):
            scale = self.full(normalized, 1, x.dtype) if weight is None else weight
            operands = [x, scale, *([] if bias is None else [bias])]
            return self.op("LayerNormalization", *operands, axis_i=-axes, epsilon_f=epsilon)
        return self.affine(self.standardised(x, list(range(x.rank - axes, x.rank)), epsilon), weight, bias)

    def rms_norm(self, x: Value, axes: int, weight: Value | None, epsilon: float) -> Value:
        """x / sqrt(mean(x * x) + epsilon) * weight. RMSNormalization came with opset 23."""
        if self.has_kernel("RMSNormalization", x.dtype) and fits_attribute(epsilon, x.dtype):
            scale = self.full(x.sizes[x.rank - axes :], 1, x.dtype) if weight is None else weight
            return self.op("RMSNormalization", x, scale, axis_i=-axes, epsilon_f=epsilon)
        # With Pow onnxruntime finds it, and computes it in one step; in float64 with an epsilon of 1e-5.
        wide = self.accumulating(x)
        squared = wide.dtype is torch.float32
        square = self.op("Pow", wide, self.const(2, wide.dtype)) if squared else self.op("Mul", wide, wide)
        power = self.reduce("Mean", square, list(range(x.rank - axes, x.rank)), True)
        normalized = self.cast(self.op("Div", wide, self.op("Sqrt", self.op("Add", power, epsilon))), x.dtype)
        return self.affine(normalized, weight, None)

    def instance_norm(self, x: Value, weight: Value | None, bias: Value | None, epsilon: float) -> Value:
        """Normalize each channel of each sample."""
        if self.has_kernel("InstanceNormalization", x.dtype) and fits_attribute(epsilon, x.dtype):
            channels = [x.sizes[1]]
            scale = self.full(channels, 1, x.dtype) if weight is None else weight
            shift = self.full(channels, 0, x.dtype) if bias is None else bias
            rows = self._rows(x, x.sizes[1], x.sizes[2:]) or x
            y = self.op("InstanceNormalization", rows, scale, shift, epsilon_f=epsilon)
            return shaped(y, x.shape) if rows is x else self.reshape(y, x.sizes)
        y = self.standardised(x, list(range(2, x.rank)), epsilon)
        return self.affine(y, self.per_channel(weight, x), self.per_channel(bias, x))

    def _rows(self, x: Value, channels: Size, sizes: Sequence[Size]) -> Value | None:
        """The elements of each channel in a row: no rows where there are no elements, for which onnxruntime ends the
        process. None if there are always some, as far as is known."""
        if not isinstance(channels, int) or not self.may_be_empty(sizes):
            return None
        return self.op("Reshape", x, self.ints([-1, channels, torch.sym_max(product(sizes), 1)]))

    def group_norm(self, x: Value, groups: int, weight: Value | None, bias: Value | None, epsilon: float) -> Value:
        """Normalize groups of channels. GroupNormalization takes one weight for each channel from opset 21 on.

        onnxruntime replaces it by its definition, which does not run for an empty batch, has no kernels in bfloat16,
        and takes 2.1 ms for 524,288 numbers where the form of earlier opsets takes 1.2 ms.
        """
        if any(isinstance(size, int) and size == 0 for size in x.sizes):
            return x  # onnxruntime ends the process when it folds InstanceNormalization of a constant without elements.
        runs = self.has_kernel("GroupNormalization", x.dtype) and x.dtype is not torch.bfloat16
        runs = runs and not any(map(may_be_empty, x.sizes))
        if self.opset >= 21 and runs and fits_attribute(epsilon, x.dtype):
            channels = [x.sizes[1]]
            scale = self.full(channels, 1, x.dtype) if weight is None else weight
            shift = self.full(channels, 0, x.dtype) if bias is None else bias
            return self.op("GroupNormalization", x, scale, shift, num_groups_i=groups, epsilon_f=epsilon)
        elements = x.sizes[1] // groups * product(x.sizes[2:])
        if not self.may_be_empty(x.sizes[1:]):
            self.note_occupied([elements])
        y = self.instance_norm(self.reshape(x, [x.sizes[0], groups, elements]), None, None, epsilon)
        return self.affine(self.reshape(y, x.sizes), self.per_channel(weight, x), self.per_channel(bias, x))

    def per_channel(self, vector: Value | None, x: Value) -> Value | None:
        """A vector over channels, reshaped to broadcast with (batch, channel, ...)."""
        return None if vector is None else self.unsqueeze(vector, list(range(1, x.rank - 1)))

"""Resizing: Upsample of opsets 7 to 9, Resize since, as far as they say what torch computes. And GridSample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from onnx_parity.exporter.capture.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["Interpolation", "OffImage", "ResizeForms"]

Interpolation = Literal["bilinear", "nearest", "bicubic"]
#: What lies off an image: zeros, its border, its reflection.
OffImage = Literal["zeros", "border", "reflection"]

#: What GridSample calls the modes since it knows volumes too.
_SINCE_VOLUMES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


class ResizeForms(Base):
    """Repeating by whole factors, and interpolation."""

    def can_repeat(self, dtype: torch.dtype) -> bool:
        """Whether `repeated` takes the dtype."""
        if self.opset < 10:
            return self.has_kernel("Upsample", dtype)
        return self.has_kernel("Resize", dtype, "T" if self.opset < 11 else "T1")

    def repeated(self, x: Value, factors: Sequence[int]) -> Value:
        """Every element of each axis as many times as its factor: nearest interpolation that no rounding can spoil."""
        scales = [float(factor) for factor in factors]
        if self.opset < 9:
            return self.op("Upsample", x, mode_s="nearest", scales_f=scales)
        factors_value = self.const(scales, torch.float32)
        if self.opset < 10:
            return self.op("Upsample", x, factors_value, mode_s="nearest")
        if self.opset < 11:
            return self.op("Resize", x, factors_value, mode_s="nearest")
        return self.op(
            "Resize", x, self._region(), factors_value, mode_s="nearest",
            coordinate_transformation_mode_s="asymmetric", nearest_mode_s="floor",
        )  # fmt: skip

    def interpolated(
        self, x: Value, mode: str, corners: bool, sizes: Sequence[Size], factors: Sequence[float] | None
    ) -> Value:
        """Linear or cubic interpolation to sizes, or by factors where they are given. From opset 11."""
        if factors is None:
            operands = [self._region(), self._no_scales(), self.ints(sizes)]
        else:
            operands = [self._region(), self.const(list(factors), torch.float32)]
        return self.op(
            "Resize", x, *operands, mode_s=mode, cubic_coeff_a_f=-0.75 if mode == "cubic" else None,
            coordinate_transformation_mode_s="align_corners" if corners else "half_pixel",
        )  # fmt: skip

    def grid_sample(
        self, x: Value, grid: Value, mode: Interpolation, off: OffImage, align_corners: bool
    ) -> Value | None:
        """Samples of an image, from opset 20 also of a volume, where a grid says; None where that is not to be had."""
        since = 16 if x.rank == 4 else 20
        if self.opset < since or not self.has_kernel("GridSample", x.dtype, "T1"):
            return None
        name = mode if self.opset < 20 else _SINCE_VOLUMES[mode]
        return self.op("GridSample", x, grid, mode_s=name, padding_mode_s=off, align_corners_i=align_corners)

    def _region(self) -> Value | None:
        # Optional from opset 13; read by nothing but crops.
        return None if self.opset >= 13 else self.const(torch.empty(0), torch.float32)

    def _no_scales(self) -> Value | None:
        return None if self.opset >= 13 else self.const(torch.empty(0), torch.float32)

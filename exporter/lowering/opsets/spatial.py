"""Operators over the spatial axes of images: Upsample and Resize, GridSample, RoiAlign and MaxPool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.schema.signatures import signature
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["Interpolation", "OffImage", "SpatialForms"]

Interpolation = Literal["bilinear", "nearest", "bicubic"]
#: What is read outside of an image: zeros, its border, or its reflection.
OffImage = Literal["zeros", "border", "reflection"]

#: The names that GridSample has for the modes from opset 20 on, which takes volumes too.
_MODES_SINCE_20 = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


class SpatialForms(Base):
    """Resizing, sampling and maximum pooling, if ONNX's operators compute the same as torch."""

    def can_repeat(self, dtype: torch.dtype) -> bool:
        """Whether `repeated` takes the dtype."""
        if self.opset < 10:
            return self.has_kernel("Upsample", dtype)
        return self.has_kernel("Resize", dtype, "T" if self.opset < 11 else "T1")

    def repeated(self, x: Value, factors: Sequence[int]) -> Value:
        """Every element repeated by an integer factor along each axis: nearest interpolation without any rounding."""
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

    def can_interpolate(self, dtype: torch.dtype) -> bool:
        """Whether `interpolated` takes the dtype. Resize of opset 10 does not define coordinates."""
        return self.opset >= 11 and self.has_kernel("Resize", dtype, "T1")

    def interpolated(
        self, x: Value, mode: str, corners: bool, sizes: Sequence[Size], factors: Sequence[float] | None
    ) -> Value:
        """Linear or cubic interpolation to sizes, or by factors if they are given."""
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
        """GridSample of an image, or from opset 20 on of a volume; None if the opset or onnxruntime lacks it."""
        since = 16 if x.rank == 4 else 20
        if self.opset < since or not self.has_kernel("GridSample", x.dtype, "T1"):
            return None
        name = mode if self.opset < 20 else _MODES_SINCE_20[mode]
        return self.op("GridSample", x, grid, mode_s=name, padding_mode_s=off, align_corners_i=align_corners)

    def can_roi_align(self, dtype: torch.dtype, *, aligned: bool) -> bool:
        """Whether there is a RoiAlign that takes the dtype. onnxruntime has no kernel for that of opset 22."""
        since = 16 if aligned else 10
        return self.opset >= since and (self.opset < 22 or self.has_kernel("RoiAlign", dtype, "T1"))

    def roi_align(
        self, x: Value, boxes: Value, images: Value, output: tuple[int, int], scale: float, samples: int, aligned: bool
    ) -> Value:
        """RoiAlign. Half-pixel coordinates (`aligned`) came with opset 16, which also named the other mode."""
        mode = None
        if self.opset >= 16:
            mode = "half_pixel" if aligned else "output_half_pixel"
        elif aligned:
            signature("RoiAlign", self.opset)
            self.require_opset(
                16, "aligned=True needs half-pixel coordinates, which ONNX's RoiAlign does not have at this opset"
            )
        return self.op(
            "RoiAlign", x, boxes, images, spatial_scale_f=scale, output_height_i=output[0], output_width_i=output[1],
            sampling_ratio_i=samples, coordinate_transformation_mode_s=mode,
        )  # fmt: skip

    def can_max_pool(self, dtype: torch.dtype, *, dilated: bool = False, indices: bool = False) -> bool:
        """Whether MaxPool takes the dtype, if asked with dilations (from opset 10) or indices (from opset 8)."""
        return self.opset >= (10 if dilated else 8 if indices else 7) and self.has_kernel("MaxPool", dtype)

    def _region(self) -> Value | None:
        # Optional from opset 13 on. It is only used if the result is a crop of the image.
        return None if self.opset >= 13 else self.const(torch.empty(0), torch.float32)

    def _no_scales(self) -> Value | None:
        return None if self.opset >= 13 else self.const(torch.empty(0), torch.float32)

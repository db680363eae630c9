"""DFT, which ONNX has from opset 17 on, with the axis as an input from opset 20 on."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.opsets.base import Base
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["FourierForms"]


class FourierForms(Base):
    """The discrete Fourier transform as one operator."""

    def can_dft(self, dtype: torch.dtype) -> bool:
        return self.opset >= 17 and self.has_kernel("DFT", dtype, "T1")

    def dft(self, x: Value, axis: int, *, inverse: bool = False, onesided: bool = False) -> Value:
        if self.opset < 20:
            return self.op("DFT", x, axis_i=axis, inverse_i=inverse, onesided_i=onesided)
        return self.op("DFT", x, None, self.const(axis, torch.int64), inverse_i=inverse, onesided_i=onesided)

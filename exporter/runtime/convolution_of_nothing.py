"""A convolution of no images for onnx.reference, which gathers what it multiplies with even where there is nothing.

For the 120 convolutions of DenseNet-121 that takes as long as running it in onnxruntime for three images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx.reference.ops.op_conv import Conv as ConvOfReference

from onnx_parity.exporter.arrays import Array

__all__ = ["Conv"]


class Conv(ConvOfReference):
    """`Conv`, whose result has no elements where the batch is empty: only its sizes are computed, from one channel."""

    op_domain = ""

    def _run(self, x: Array, weight: Array, bias: Array | None = None, **attributes: Any) -> tuple[Array, ...]:  # type: ignore[override]
        run: Callable[..., tuple[Array, ...]] = super()._run
        if x.shape[0] or not (x.shape[1] and weight.shape[0]):
            return run(x, weight, bias, **attributes)
        (of_one,) = run(x[:, :1], weight[:1, :1], None, **{**attributes, "group": 1})
        return (np.zeros((0, weight.shape[0], *of_one.shape[2:]), x.dtype),)

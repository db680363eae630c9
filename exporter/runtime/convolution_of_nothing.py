"""A convolution of no images for onnx.reference, which gathers what it multiplies with even where there is nothing.

For the 120 convolutions of DenseNet-121 that takes as long as running it in onnxruntime for three images.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.ops.op_conv import Conv as ConvOfReference

from onnx_parity.exporter.arrays import Array

__all__ = ["Conv"]


class Conv(ConvOfReference):  # type: ignore[misc]
    """`Conv`, whose result has no elements where the batch is empty: only its sizes are computed, from one channel."""

    op_domain = ""

    def _run(self, X: Array, W: Array, B: Array | None = None, **attributes: Any) -> tuple[Array, ...]:
        if X.shape[0] or not (X.shape[1] and W.shape[0]):
            result: tuple[Array, ...] = super()._run(X, W, B, **attributes)
            return result
        (of_one,) = super()._run(X[:, :1], W[:1, :1], None, **{**attributes, "group": 1})
        return (np.zeros((0, W.shape[0], *of_one.shape[2:]), X.dtype),)

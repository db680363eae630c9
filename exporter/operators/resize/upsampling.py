"""Upsampling by factors, recorded as upsampling to sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.recorded import instead_of
from onnx_parity.exporter.registry.results import Contiguous, result_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

_aten = torch.ops.aten
_NAMES = (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
    "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
)  # fmt: skip


def _scaled(size: Size, factor: float) -> Size:
    """floor(size * factor). For a dynamic size it is computed in integers if the factor is a fraction of small ones."""
    numerator, denominator = float(factor).as_integer_ratio()
    if isinstance(size, int) or denominator > 2**16:
        scaled: Size = math.floor(size * factor)
        return scaled
    whole: Size = size * numerator // denominator
    return whole


def _to_sizes(to_sizes: OpOverload) -> Callable[..., Any]:
    def instead(input: torch.Tensor, output_size: Sequence[Size] | None, *options: Any) -> torch.Tensor:
        *flags, factors = options
        spatial = input.shape[2:]
        if output_size is None:
            output_size = [_scaled(size, factor) for size, factor in zip(spatial, factors, strict=True)]
        result: torch.Tensor = to_sizes(input, output_size, *flags, *(factors or [None] * len(spatial)))
        return result

    return instead


#: The overloads of the operators that take output sizes.
_TO_SIZES: tuple[OpOverload, ...] = tuple(getattr(_aten, name).default for name in _NAMES)

for _to in _TO_SIZES:
    instead_of(_to.overloadpacket.vec, why="torch computes the output sizes as plain ints")(_to_sizes(_to))


@result_of(
    *(op.name() for op in _TO_SIZES),
    why="torch's fake kernels use indexing, which does not accept symbolic sizes",
    static=False,
)
def upsampled(self: torch.Tensor, output_size: Sequence[Size], *options: object) -> Contiguous:
    return Contiguous(self.dtype, (*self.shape[:2], *output_size))

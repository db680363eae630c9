"""What is recorded for images at the points of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from onnx_parity.exporter.dispatch.gradients import is_differentiated
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.registry.recorded import instead_of

_aten = torch.ops.aten


@instead_of(
    "aten::grid_sampler",
    why="on a GPU torch computes it with one fused kernel, which has no lowering and no equivalent in ONNX",
)
def grid_sampler(
    input: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    if input.device.type == "cpu":
        return NotImplemented
    sample = _aten.grid_sampler_2d if input.dim() == 4 else _aten.grid_sampler_3d
    sampled: torch.Tensor = sample(input, grid, interpolation_mode, padding_mode, align_corners)
    return sampled


@instead_of(
    "aten::grid_sampler_2d",
    "aten::grid_sampler_3d",
    why="its derivative is a kernel; those of the definition are operators",
)
def grid_sampler_of_axes(input: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    if not is_differentiated():
        return NotImplemented
    from onnx_parity.exporter.operators.resize.grid_by_pixels import sample_by_pixels  # Few programs need it.

    return sample_by_pixels(input, grid, mode, padding, align_corners)


@instead_of("aten::affine_grid_generator", why="torch's decomposition calls linspace, which fixes a dynamic size")
def affine_grid(theta: torch.Tensor, size: Sequence[Size], align_corners: bool) -> Any:
    if all(isinstance(each, int) for each in size) or len(size) not in (4, 5):
        return NotImplemented
    axes = size[2:]
    # In the order of the coordinates, the last axis comes first. Of an axis of one, torch makes a 0.
    columns = [_centred(length, align_corners, theta.device).to(theta.dtype) for length in axes]
    shaped = [column.view([-1, *[1] * (len(axes) - 1 - axis)]) for axis, column in enumerate(columns)]
    shaped = [*reversed(shaped), theta.new_ones([1] * len(axes))]
    homogeneous = torch.stack([column.expand(axes) for column in shaped], -1)
    return (homogeneous.view(-1, len(axes) + 1) @ theta.mT).view(theta.shape[0], *axes, len(axes))


def _centred(length: Size, reaches_ends: bool, device: torch.device) -> torch.Tensor:
    """The places of that many pixels between -1 and 1, which are the outermost pixels or their outer edges."""
    count = cast("int", length)
    span = torch.sym_max(count - 1, 1) if reaches_ends else count
    return (2 * torch.arange(count, dtype=torch.float64, device=device) - (count - 1)) / span

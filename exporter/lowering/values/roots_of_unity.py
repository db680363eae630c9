"""The roots of unity, by which Fourier transforms multiply."""

from __future__ import annotations

import math

import torch

__all__ = ["roots_of_unity"]


def roots_of_unity(powers: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The cosines and sines of 2 pi power / count, in float64.

    They are as symmetric as the circle: only those of up to an eighth of a turn are computed. So the sine of half a
    turn is 0, where `sin(math.pi)` is 1e-16, and opposite roots cancel.
    """
    eighths = (powers % max(count, 1)).long() * 8
    octant = eighths // max(count, 1)
    within = eighths - octant * count
    # In every other octant angles are counted from its end.
    steps, places = torch.where(octant % 2 == 1, count - within, within).unique(return_inverse=True)
    known = torch.tensor([_cos_and_sin(step, count) for step in steps.tolist()], dtype=torch.float64).reshape(-1, 2)
    cos, sin = known[places].unbind(-1)
    is_steep = (octant + 1) // 2 % 2 == 1
    along, across = torch.where(is_steep, sin, cos), torch.where(is_steep, cos, sin)
    is_left, is_below = (octant >= 2) & (octant < 6), octant >= 4
    return torch.where(is_left, 0.0 - along, along), torch.where(is_below, 0.0 - across, across)


def _cos_and_sin(step: int, count: int) -> tuple[float, float]:
    """Of an angle of so many parts of an eighth of a turn, which has `count` parts."""
    if 3 * step == 2 * count:
        # Of a twelfth of a turn, the sine is a fraction, which `math.sin` misses; it is of no other such angle.
        return math.sqrt(3) / 2, 0.5
    angle = math.pi * step / (4 * count)
    return math.cos(angle), math.sin(angle)

"""Sampling images between their pixels, at the positions of a grid: grid_sample and affine_grid."""

from __future__ import annotations

import torch.nn.functional as F

from onnx_parity.harness.case import IEEE_FLOATS, floats, given, op

#: Some positions lie outside the image, where zeros, the border or the reflection is read.
_GRID = floats(2, 3, 5, 2, low=-1.6, high=1.6)
_VOLUME_GRID = floats(2, 2, 3, 4, 3, low=-1.6, high=1.6)
_OFF = ["zeros", "border", "reflection"]
_MODES = ["bilinear", "nearest", "bicubic"]
_CORNERS = [False, True]
_PLANE = floats(2, 3, 4, 6)

grid_sample = op(
    F.grid_sample,
    _PLANE,
    _GRID,
    mode=_MODES,
    padding_mode=_OFF,
    align_corners=_CORNERS,
)
grid_sample_volume = op(
    F.grid_sample,
    floats(2, 2, 3, 4, 5),
    _VOLUME_GRID,
    mode=_MODES[:2],
    padding_mode=_OFF,
    align_corners=_CORNERS,
)
grid_sample_dtypes = op(F.grid_sample, _PLANE, _GRID, align_corners=False, dtypes=IEEE_FLOATS)
grid_sample_dynamic = op(
    F.grid_sample,
    _PLANE,
    _GRID,
    align_corners=_CORNERS,
    dynamic={"x0": {0: "batch", 2: "height"}, "x1": {0: "batch", 1: "rows"}},
    sizes={"height": [2, 9], "rows": [1, 7]},
)
#: Down to images of one pixel, where the interval of reflection is empty.
grid_sample_reflected = op(
    F.grid_sample,
    _PLANE,
    _GRID,
    mode=_MODES,
    padding_mode="reflection",
    align_corners=_CORNERS,
    dynamic={"x0": {2: "height", 3: "width"}},
    sizes={"height": [1, 5], "width": [1, 3]},
)
grid_sample_corners = op(
    F.grid_sample,
    floats(1, 1, 2, 3),
    given([[[[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [-1.0, 1.0]]]]),
    mode=_MODES,
    align_corners=_CORNERS,
)
affine_grid = op(lambda x: F.affine_grid(x, [2, 3, 4, 5], align_corners=False), floats(2, 2, 3))
spatial_transformer = op(
    lambda x, theta: F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False),
    floats(2, 3, 6, 6),
    floats(2, 2, 3, low=-0.8, high=0.8),
)
#: An axis of one pixel has the place 0.
affine_grid_sizes = op(
    lambda x, theta, align_corners: F.affine_grid(theta, x.shape, align_corners=align_corners),
    floats(2, 3, 4, 5),
    floats(2, 2, 3),
    align_corners=_CORNERS,
    dynamic={"x0": {0: "batch", 2: "height", 3: "width"}, "x1": {0: "batch"}},
    sizes={"height": [1, 5], "width": [1, 3]},
)
affine_grid_volume_sizes = op(
    lambda x, theta: F.affine_grid(theta, x.shape, align_corners=False),
    floats(2, 1, 2, 3, 4),
    floats(2, 3, 4),
    dynamic={"x0": {2: "depth", 3: "height", 4: "width"}},
    sizes={"depth": [1, 3]},
)

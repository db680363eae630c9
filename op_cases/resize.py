"""Upsampling: nearest, linear, cubic and area interpolation, by factors and to sizes; and images at a grid."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import BATCH, FLOATS, IEEE_FLOATS, WIDE_FLOATS, Keywords, floats, given, ints, numbers, op

#: Why some cases do not run with a NaN.
_NAN_TIMES_ZERO = "NaN times a weight of zero is NaN, and torch leaves such pixels out"

_LINE, _PLANE, _SPACE = floats(2, 3, 7), floats(2, 3, 7, 5), floats(1, 2, 4, 5, 3)
_ANY_HEIGHT: Keywords = {"dynamic": {"x": {0: "batch", 2: "height"}}, "sizes": {"batch": [1, 3], "height": [4, 11]}}
_FACTORS = [2, 3.0, 1.5, 0.5, 0.3, 1.7, 2.6]
_CORNERS = [False, True]
_EITHER_NEAREST = ["nearest", "nearest-exact"]
_INTERPOLATED: Keywords = {
    "align_corners": _CORNERS,
    # Positions are computed in float32, which rounds differently where the formula is written differently.
    "tolerance": 4e-6,
    "because": "the positions at which torch and onnxruntime interpolate differ by float32's rounding",
}
_LINEAR: Keywords = {"mode": "linear", **_INTERPOLATED}
_BILINEAR: Keywords = {"mode": "bilinear", **_INTERPOLATED}
_TRILINEAR: Keywords = {"mode": "trilinear", **_INTERPOLATED}
_BICUBIC: Keywords = {"mode": "bicubic", **_INTERPOLATED}

nearest1d = op(F.interpolate, _LINE, scale_factor=_FACTORS, mode=_EITHER_NEAREST)
#: 10 times 0.3 is a whole number only as torch rounds it.
nearest_by_rounded_factor = op(F.interpolate, floats(1, 1, 10), scale_factor=0.3)
nearest1d_size = op(F.interpolate, _LINE, size=[1, 3, 5, 7, 10, 14, 20], mode=_EITHER_NEAREST)
nearest2d = op(F.interpolate, _PLANE, scale_factor=[*_FACTORS, (2.0, 3.0), (1.0, 1.5)], **_ANY_HEIGHT)
nearest2d_size = op(F.interpolate, _PLANE, size=[(14, 10), (9, 8), (3, 2), (7, 5)], **_ANY_HEIGHT)
nearest2d_exact = op(F.interpolate, _PLANE, scale_factor=[2, 1.5, 0.3], mode="nearest-exact", **_ANY_HEIGHT)
nearest3d = op(F.interpolate, _SPACE, scale_factor=[2, 1.5, 0.5], mode=_EITHER_NEAREST)
nearest_dtypes = op(F.interpolate, numbers(1, 2, 4, 3), scale_factor=[2, 1.5], dtypes=[*FLOATS, torch.uint8])

resize_linear = op(F.interpolate, _LINE, scale_factor=_FACTORS, **_LINEAR, without_nan=_NAN_TIMES_ZERO)
linear_size = op(F.interpolate, _LINE, size=[1, 3, 7, 10, 14], **_LINEAR, without_nan=_NAN_TIMES_ZERO)
resize_bilinear = op(F.interpolate, _PLANE, scale_factor=[*_FACTORS, (2.0, 3.0)], **_BILINEAR, **_ANY_HEIGHT)
area_of_another = op(
    lambda x, y: F.interpolate(x, size=y.shape[2:], mode="area"),
    _PLANE,
    floats(1, 1, 4, 5),
    dynamic={"x1": {2: "height", 3: "width"}},
    tier="default",
)
bilinear_size = op(
    F.interpolate,
    _PLANE,
    size=[(14, 10), (9, 8), (3, 2), (1, 1)],
    **_BILINEAR,
    **_ANY_HEIGHT,
    without_nan=_NAN_TIMES_ZERO,
)
bilinear_dtypes = op(
    F.interpolate, floats(1, 2, 4, 3), scale_factor=[2, 1.5], mode="bilinear", align_corners=_CORNERS, dtypes=FLOATS
)
trilinear = op(F.interpolate, _SPACE, scale_factor=[2, 1.5], **_TRILINEAR)
trilinear_size = op(F.interpolate, _SPACE, size=[(8, 3, 4), (1, 2, 2)], **_TRILINEAR, without_nan=_NAN_TIMES_ZERO)
bicubic = op(F.interpolate, _PLANE, scale_factor=[2, 1.5, 0.5, 1.7], **_BICUBIC, **_ANY_HEIGHT)
bicubic_size = op(F.interpolate, _PLANE, size=[(14, 10), (3, 8), (1, 1)], **_BICUBIC)
bicubic_dtypes = op(F.interpolate, floats(1, 2, 4, 3), scale_factor=1.5, mode="bicubic", dtypes=FLOATS)
antialias = op(
    F.interpolate,
    _PLANE,
    size=[(3, 2), (14, 10), (4, 9)],
    mode=["bilinear", "bicubic"],
    align_corners=_CORNERS,
    antialias=True,
    dtypes=WIDE_FLOATS,
    dynamic=BATCH,
    without_nan=_NAN_TIMES_ZERO,
)
antialias_factor = op(
    F.interpolate,
    _PLANE,
    scale_factor=[0.4, 1.6],
    mode=["bilinear", "bicubic"],
    antialias=True,
    dtypes=WIDE_FLOATS,
    without_nan=_NAN_TIMES_ZERO,
)
antialias_any_size = op(
    F.interpolate,
    _PLANE,
    rows=[
        {"size": (3, 9), "mode": "bilinear"},
        {"size": (12, 2), "mode": "bicubic", "align_corners": True},
        {"scale_factor": 0.4, "mode": "bicubic"},
        {"scale_factor": 1.6, "mode": "bilinear"},
    ],
    antialias=True,
    tier="default",
    **_ANY_HEIGHT,
    without_nan=_NAN_TIMES_ZERO,
)
antialias_to_one_row = op(
    F.interpolate, floats(1, 2, 7, 5), scale_factor=(0.2, 0.7), mode=["bilinear", "bicubic"], align_corners=_CORNERS,
    antialias=True, tier="default", dynamic={"x": {2: "height"}}, sizes={"height": [5, 11]},
    without_nan=_NAN_TIMES_ZERO,
)  # fmt: skip
#: torch rounds each axis of bytes to whole numbers by weights of 16 bits. It leaves axes that keep their sizes.
_BYTES = ints(2, 3, 7, 5, high=256, dtype=torch.uint8)
_OF_BYTES: Keywords = {"mode": ["bilinear", "bicubic"], "align_corners": _CORNERS, "dtypes": [torch.uint8]}
bytes_size = op(F.interpolate, _BYTES, size=[(14, 10), (9, 8), (3, 2), (7, 9), (1, 2)], **_OF_BYTES)
bytes_factor = op(F.interpolate, _BYTES, scale_factor=[2.0, 1.5, 0.4, (1.05, 1.7)], **_OF_BYTES)
bytes_any_size = op(F.interpolate, _BYTES, scale_factor=[2.0, 1.5, (0.5, 1.125)], **_OF_BYTES, **_ANY_HEIGHT)
bytes_to_any_size = op(
    lambda x, y, mode: F.interpolate(x, y.shape[2:], mode=mode), _BYTES, y=ints(1, 1, 9, 8),
    mode=["bilinear", "bicubic"], dynamic={"x": {2: "from"}, "y": {2: "height"}}, dtypes=[torch.uint8],
)  # fmt: skip
bytes_antialiased = op(
    F.interpolate, _BYTES, size=[(3, 2), (14, 10), (4, 9), (7, 1)], antialias=True, dynamic=BATCH, **_OF_BYTES
)
bytes_antialiased_any_size = op(
    F.interpolate, _BYTES, rows=[{"scale_factor": 0.4, "mode": "bilinear"}, {"size": (3, 9), "mode": "bicubic"}],
    antialias=True, tier="default", dtypes=[torch.uint8], **_ANY_HEIGHT,
)  # fmt: skip
bytes_of_many_channels = op(
    F.interpolate, ints(1, 6, 40, 30, high=256, dtype=torch.uint8), size=[(7, 9), (3, 50)], antialias=[False, True],
    **_OF_BYTES,
)  # fmt: skip
area = op(F.interpolate, _PLANE, size=[(3, 2), (14, 10)], mode="area", dynamic=BATCH)
recomputed_factor = op(
    F.interpolate, _PLANE, scale_factor=[1.5, 0.4], recompute_scale_factor=True, mode=["nearest", "bilinear"]
)
like_another = op(
    lambda x, y: F.interpolate(x, y.shape[2:]), _PLANE, y=floats(1, 1, 9, 8), dynamic={"y": {2: "height"}}
)

upsample = op(nn.Upsample, _PLANE, scale_factor=2, mode=["nearest", "bilinear", "bicubic"])
upsampling_nearest2d = op(nn.UpsamplingNearest2d, _PLANE, scale_factor=2)
upsampling_bilinear2d = op(nn.UpsamplingBilinear2d, _PLANE, size=(9, 8))
# Factors that leave the size of some axes as it is: 1.3 * 3 is 3, rounded down, and 1.1 * 7 is 7.
nearest_that_keeps_a_size = op(F.interpolate, _PLANE, scale_factor=[1.1, 1.3, (1.1, 1.5)], **_ANY_HEIGHT)
# Factors that double some sizes: 2.1 * 7 is 14, rounded down.
nearest_that_doubles_a_size = op(F.interpolate, _PLANE, scale_factor=[2.1, (2.1, 1.5)], **_ANY_HEIGHT)
nearest_by_a_factor_of_the_size = op(
    lambda x: F.interpolate(x, scale_factor=(14.5 / x.shape[2], 1.0)), _PLANE, **_ANY_HEIGHT
)
nearest_of_other_ranks_that_keeps_a_size = op(
    F.interpolate, _LINE, scale_factor=[1.1, 2.1], mode=_EITHER_NEAREST, dynamic={"x": {2: "length"}}
)
linear_that_keeps_a_size = op(
    F.interpolate,
    _PLANE,
    scale_factor=[1.1, 1.25, (1.1, 1.5)],
    mode=["bilinear", "bicubic"],
    **_ANY_HEIGHT,
    without_nan=_NAN_TIMES_ZERO,
)
antialiased_that_keeps_a_size = op(
    F.interpolate, _PLANE, scale_factor=[(1.1, 1.6)], mode=["bilinear", "bicubic"], antialias=True, dtypes=WIDE_FLOATS,
    **_ANY_HEIGHT, without_nan=_NAN_TIMES_ZERO,
)  # fmt: skip
bytes_that_keep_a_size = op(F.interpolate, _BYTES, scale_factor=[(1.1, 1.6)], **_OF_BYTES, **_ANY_HEIGHT)

# --- images between their pixels, at the positions of a grid ----------------------------------------------------------

#: Some positions lie outside the image, where zeros, the border or the reflection is read.
_GRID = floats(2, 3, 5, 2, low=-1.6, high=1.6)
_VOLUME_GRID = floats(2, 2, 3, 4, 3, low=-1.6, high=1.6)
_OFF = ["zeros", "border", "reflection"]
_MODES = ["bilinear", "nearest", "bicubic"]
_SAMPLED = floats(2, 3, 4, 6)

grid_sample = op(
    F.grid_sample,
    _SAMPLED,
    _GRID,
    mode=_MODES,
    padding_mode=_OFF,
    align_corners=_CORNERS,
    dtypes=[torch.float32],
    without_nan="NaN times a weight of zero is NaN, in some of torch's kernels only",
)
grid_sample_volume = op(
    F.grid_sample,
    floats(2, 2, 3, 4, 5),
    _VOLUME_GRID,
    mode=_MODES[:2],
    padding_mode=_OFF,
    align_corners=_CORNERS,
    dtypes=[torch.float32],
    without_nan=_NAN_TIMES_ZERO,
)
grid_sample_dtypes = op(F.grid_sample, _SAMPLED, _GRID, align_corners=False, dtypes=FLOATS)
grid_sample_of_nan = op(
    F.grid_sample, floats(2, 3, 4, 6, special=(math.nan,)), _GRID, align_corners=False, dtypes=IEEE_FLOATS
)
grid_sample_dynamic = op(
    F.grid_sample,
    _SAMPLED,
    _GRID,
    align_corners=_CORNERS,
    dynamic={"x0": {0: "batch", 2: "height"}, "x1": {0: "batch", 1: "rows"}},
    sizes={"height": [2, 9], "rows": [1, 7]},
)
#: Down to images of one pixel, where the interval of reflection is empty.
grid_sample_reflected = op(
    F.grid_sample,
    _SAMPLED,
    _GRID,
    mode=_MODES,
    padding_mode="reflection",
    align_corners=_CORNERS,
    dtypes=[torch.float32],
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

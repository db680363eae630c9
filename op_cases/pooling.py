"""Pooling over windows, and adaptive pooling, over one to three spatial axes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import (
    BATCH,
    FLOATS,
    NUMBERS,
    WIDE_FLOATS,
    Keywords,
    Rows,
    floats,
    given,
    numbers,
    op,
)

#: Why some cases do not run with a NaN.
_NAN_LEFT_OUT = "onnxruntime's MaxPool leaves NaN out"

_LINE, _PLANE, _SPACE = floats(2, 3, 10), floats(2, 3, 10, 7), floats(2, 3, 5, 7, 6)
_EITHER = [False, True]
_ANY_LENGTH: Keywords = {
    "dynamic": {"x": {0: "batch", 2: "length"}},
    "sizes": {"batch": [1, 4], "length": [6, 7, 9, 12]},
}

_AVERAGES: Rows = [
    {"kernel_size": 3},
    {"kernel_size": 2, "stride": 3},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 4, "stride": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    {"kernel_size": 2, "stride": 5, "padding": 1, "ceil_mode": True},
]
_DIVISORS: Rows = [
    {"kernel_size": 3, "divisor_override": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1, "divisor_override": 5},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False, "divisor_override": 5},
    {"kernel_size": 4, "stride": 3, "padding": 1, "ceil_mode": True, "divisor_override": 7},
    {"kernel_size": 4, "stride": 3, "ceil_mode": True, "divisor_override": 7},
    {"kernel_size": 3, "divisor_override": -2},
]
_MAXIMA: Rows = [
    {"kernel_size": 3},
    {"kernel_size": 2, "stride": 3},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "dilation": 2, "stride": 1},
    {"kernel_size": 3, "dilation": 2, "stride": 2, "padding": 1},
    {"kernel_size": 4, "stride": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 2, "padding": 1, "dilation": 2, "ceil_mode": True},
    {"kernel_size": 2, "stride": 5, "padding": 1, "ceil_mode": True},
]
_UNEVEN_AVERAGES: Rows = [
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)},
    {"kernel_size": (2, 3), "stride": (3, 2), "padding": (0, 1), "ceil_mode": True},
]
_UNEVEN_MAXIMA: Rows = [
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)},
    {"kernel_size": (2, 3), "stride": (3, 2), "padding": (0, 1), "ceil_mode": True},
]

avg_pool1d = op(F.avg_pool1d, _LINE, rows=_AVERAGES, **_ANY_LENGTH)
avg_pool2d = op(F.avg_pool2d, _PLANE, rows=[*_AVERAGES, *_DIVISORS, *_UNEVEN_AVERAGES], **_ANY_LENGTH)
avg_pool3d = op(F.avg_pool3d, _SPACE, rows=[*_AVERAGES, *_DIVISORS], dtypes=WIDE_FLOATS, dynamic=BATCH)
avg_pool_unbatched = op(nn.AvgPool2d, floats(3, 10, 7), kernel_size=3, stride=2, padding=1, ceil_mode=[False, True])
avg_pool1d_unbatched = op(nn.AvgPool1d, floats(3, 10), kernel_size=3, stride=2, padding=1)
avg_pool3d_unbatched = op(nn.AvgPool3d, floats(3, 5, 7, 6), kernel_size=3, stride=2, padding=1, dtypes=WIDE_FLOATS)
avg_pool2d_dtypes = op(
    F.avg_pool2d, numbers(2, 3, 6, 5), kernel_size=2, stride=1, padding=1, dtypes=[*FLOATS, torch.int64]
)
avg_pool2d_special = op(
    F.avg_pool2d, floats(1, 2, 6, 6, special=(math.inf, -math.inf, math.nan)), kernel_size=2, padding=[0, 1]
)

max_pool1d = op(F.max_pool1d, _LINE, rows=_MAXIMA, **_ANY_LENGTH, without_nan=_NAN_LEFT_OUT)
max_pool2d = op(F.max_pool2d, _PLANE, rows=[*_MAXIMA, *_UNEVEN_MAXIMA], **_ANY_LENGTH, without_nan=_NAN_LEFT_OUT)
max_pool3d = op(F.max_pool3d, _SPACE, rows=_MAXIMA, dynamic=BATCH, without_nan=_NAN_LEFT_OUT)
max_pool1d_indices = op(
    F.max_pool1d, _LINE, rows=_MAXIMA, return_indices=True, **_ANY_LENGTH, without_nan=_NAN_LEFT_OUT
)
max_pool2d_indices = op(
    F.max_pool2d,
    _PLANE,
    rows=[*_MAXIMA, *_UNEVEN_MAXIMA],
    return_indices=True,
    **_ANY_LENGTH,
    without_nan=_NAN_LEFT_OUT,
)
max_pool3d_indices = op(
    F.max_pool3d, _SPACE, rows=_MAXIMA, return_indices=True, dynamic=BATCH, without_nan=_NAN_LEFT_OUT
)
#: The elements of such a window lie before and behind the image.
max_pool_around_the_image = op(
    F.max_pool2d,
    floats(2, 3, 1, 4),
    kernel_size=2,
    stride=1,
    padding=1,
    dilation=2,
    return_indices=_EITHER,
    dtypes=[torch.float32, torch.float64],
    dynamic={"x": {0: "batch", 2: "height", 3: "width"}},
    without_nan=_NAN_LEFT_OUT,
)
max_pool_unbatched = op(
    nn.MaxPool2d,
    floats(3, 10, 7),
    kernel_size=3,
    stride=2,
    padding=1,
    ceil_mode=[False, True],
    return_indices=_EITHER,
    without_nan=_NAN_LEFT_OUT,
)
max_pool1d_unbatched = op(
    nn.MaxPool1d, floats(3, 10), kernel_size=3, padding=1, return_indices=_EITHER, without_nan=_NAN_LEFT_OUT
)
max_pool3d_unbatched = op(
    nn.MaxPool3d, floats(3, 5, 7, 6), kernel_size=3, padding=1, return_indices=_EITHER, without_nan=_NAN_LEFT_OUT
)
max_pool2d_dtypes = op(
    F.max_pool2d, numbers(2, 3, 6, 5), kernel_size=3, stride=2, padding=1, dtypes=NUMBERS, without_nan=_NAN_LEFT_OUT
)
max_pool2d_ints_indices = op(
    F.max_pool2d,
    numbers(2, 3, 6, 5, low=-9, high=9),
    kernel_size=2,
    return_indices=True,
    dtypes=[torch.int64, torch.int32],
)
max_pool_of_bytes_indices = op(
    lambda x: (
        F.max_pool2d(x, 2, padding=1, return_indices=True), F.max_pool1d(x[0], 3, return_indices=True),
        F.max_pool3d(x[None], 2, return_indices=True),
    ), numbers(1, 2, 5, 4, low=0, high=120), dtypes=[torch.uint8, torch.int8],
)  # fmt: skip
max_pool1d_dtypes = op(
    F.max_pool1d, numbers(2, 3, 6), kernel_size=3, stride=2, padding=1, dtypes=FLOATS, without_nan=_NAN_LEFT_OUT
)
max_pool2d_ties = op(
    F.max_pool2d,
    numbers(2, 3, 6, 5, low=0, high=2, dtype=torch.float32),
    kernel_size=3,
    padding=1,
    return_indices=True,
    without_nan=_NAN_LEFT_OUT,
)
max_pool2d_all_minus_infinity = op(
    F.max_pool2d,
    given([[[[-math.inf] * 4] * 4, [[0.0, -math.inf, 1.0, -1.0]] * 4]]),
    kernel_size=2,
    padding=[0, 1],
    return_indices=_EITHER,
    without_nan=_NAN_LEFT_OUT,
)
max_pool2d_dilated_minus_infinity = op(
    F.max_pool2d,
    given([[[[-math.inf] * 5] * 5, [[0.0, -math.inf, 1.0, -math.inf, -1.0]] * 5]]),
    kernel_size=3,
    stride=[1, 2],
    padding=1,
    dilation=2,
    ceil_mode=True,
    return_indices=True,
    without_nan=_NAN_LEFT_OUT,
)
max_pool2d_nan = op(
    F.max_pool2d,
    given([[[[1.0, 2.0, 2.0, math.nan], [0.0, math.nan, 5.0, -1.0]]]]),
    kernel_size=2,
    return_indices=_EITHER,
    dtypes=[torch.float32],
)
max_pool2d_no_batch = op(F.max_pool2d, floats(0, 3, 6, 5), kernel_size=2)

_LENGTHS = [1, 5, 4, 10, 13]
_AREAS = [1, (5, 7), (None, 1), (4, 3), (12, 9)]
_VOLUMES = [1, (5, 1, 3), (2, 3, 4)]

adaptive_avg_pool1d = op(F.adaptive_avg_pool1d, _LINE, output_size=_LENGTHS, dynamic=BATCH)
adaptive_avg_pool2d = op(
    F.adaptive_avg_pool2d,
    _PLANE,
    output_size=_AREAS,
    dynamic=BATCH,
)
adaptive_avg_pool3d = op(F.adaptive_avg_pool3d, _SPACE, output_size=_VOLUMES, dynamic=BATCH)
adaptive_avg_pool_any_size = op(
    F.adaptive_avg_pool2d, _PLANE, output_size=[1, (1, 7), (None, 1)], dynamic={"x": {0: "batch", 2: "height"}}
)
#: The number of bins is the size of another image.
adaptive_avg_pool_to_any_size = op(
    lambda x, y: F.adaptive_avg_pool2d(x, (y.shape[2], 3)),
    floats(2, 1, 10, 7),
    floats(1, 1, 4, 5),
    dynamic={"x0": {2: "height"}, "x1": {2: "bins"}},
    sizes={"height": [7, 12], "bins": [1, 20, 0]},
    tier="default",
)
adaptive_avg_pool_of_some_columns = op(
    lambda x: (F.adaptive_avg_pool2d(x[..., 1:], 1), x.transpose(1, 2).mean((2, 3), keepdim=True)),
    floats(2, 4, 3, 5),
    dynamic={"x": {2: "height", 3: "width"}},
    sizes={"height": [0, 2, 3, 7], "width": [5, 1, 0, 3]},
)
adaptive_avg_pool_unbatched = op(nn.AdaptiveAvgPool2d, floats(3, 10, 7), output_size=[1, (5, 7), (4, 3)])
adaptive_avg_pool_channels_last = op(
    lambda x, size: (
        F.adaptive_avg_pool2d(x.movedim(-1, 1), size),
        F.adaptive_avg_pool3d(x[:, None].movedim(-1, 1), size),
    ),
    floats(2, 6, 5, 3),
    size=[1, 2],
    dynamic=BATCH,
)
adaptive_avg_pool2d_dtypes = op(F.adaptive_avg_pool2d, floats(2, 3, 6, 5), output_size=[1, (4, 3)], dtypes=FLOATS)
adaptive_max_pool1d = op(
    F.adaptive_max_pool1d,
    _LINE,
    output_size=_LENGTHS,
    return_indices=_EITHER,
    dynamic=BATCH,
    without_nan=_NAN_LEFT_OUT,
)
adaptive_max_pool2d = op(
    F.adaptive_max_pool2d,
    _PLANE,
    output_size=_AREAS,
    return_indices=_EITHER,
    dynamic=BATCH,
    without_nan=_NAN_LEFT_OUT,
)
adaptive_max_pool3d = op(
    F.adaptive_max_pool3d, _SPACE, output_size=_VOLUMES, return_indices=_EITHER, without_nan=_NAN_LEFT_OUT
)
adaptive_max_pool_any_size = op(
    F.adaptive_max_pool2d,
    _PLANE,
    output_size=[1, (1, 7)],
    return_indices=_EITHER,
    dynamic={"x": {0: "batch", 2: "height"}},
    without_nan=_NAN_LEFT_OUT,
)
adaptive_max_pool_unbatched = op(
    nn.AdaptiveMaxPool2d, floats(3, 10, 7), output_size=[1, (4, 3)], return_indices=_EITHER, without_nan=_NAN_LEFT_OUT
)
adaptive_max_pool_of_nan = op(F.adaptive_max_pool2d, floats(1, 2, 5, 4, special=(math.nan,)), output_size=(3, 3))
adaptive_max_pool2d_dtypes = op(F.adaptive_max_pool2d, floats(2, 3, 6, 5), output_size=(4, 3), dtypes=FLOATS)
lp_pool2d = op(
    F.lp_pool2d, floats(2, 3, 6, 5, low=0.1), norm_type=[1.0, 2.0, 3.0], kernel_size=2, ceil_mode=[False, True]
)

fractional_pooling = op(
    lambda x, samples: F.fractional_max_pool2d_with_indices(x, (2, 2), output_size=(3, 4), _random_samples=samples),
    floats(2, 3, 7, 9), floats(2, 3, 2, low=0.0, high=1.0),
)  # fmt: skip
fractional_pooling_of_one_volume = op(
    lambda x, samples: tuple(
        F.fractional_max_pool3d_with_indices(x, (2, 3, 2), **size, _random_samples=samples)
        for size in ({"output_size": (3, 4, 2)}, {"output_ratio": 0.5})
    ),
    floats(3, 7, 9, 5), floats(2, 3, 3, low=0.0, high=1.0),
)  # fmt: skip
#: NaN among more than 30 elements, in each dtype, in the first and in the second call.
averages_of_nan = op(
    lambda x: tuple(
        pooled
        for each in (x, x.flip(-1))
        for pooled in (F.avg_pool1d(each, 2), F.adaptive_avg_pool1d(each, 3), F.lp_pool1d(each, 2.0, 2))
    ),
    floats(2, 3, 8, special=(math.nan, math.inf, -math.inf)),
    dtypes=FLOATS,
    dynamic=BATCH,
)
#: Also several NaN in one window, of which the last has the index.
maxima_of_nan = op(
    lambda x: (
        F.adaptive_max_pool1d(x[0], 3, return_indices=True),
        F.adaptive_max_pool2d(x, (1, 2), return_indices=True),
        F.adaptive_max_pool3d(x, (1, 3, 2), return_indices=True),
    ),
    floats(2, 4, 7, 5, special=(*[math.nan] * 9, math.inf, *[-math.inf] * 9)),
    dtypes=[torch.float32],
    dynamic={"x": {2: "rows", 3: "columns"}},
)
fractional_pooling_of_nan = op(
    lambda x, samples: F.fractional_max_pool2d_with_indices(x, (2, 2), output_size=(3, 4), _random_samples=samples),
    floats(2, 3, 7, 9, special=(math.nan,) * 60), floats(2, 3, 2, low=0.0, high=1.0),
    dtypes=[torch.float64], tier="full",
)  # fmt: skip
lp_pool_attributes = op(
    F.lp_pool1d, floats(2, 3, 9), norm_type=2.0, kernel_size=2, rows=[{"stride": 3, "ceil_mode": True}, {"stride": 1}]
)
lp_pool_strides = op(F.lp_pool2d, floats(2, 3, 7, 7), norm_type=2.0, kernel_size=2, stride=[1, 3])
lp_pool_volume = op(F.lp_pool3d, floats(1, 2, 5, 6, 7), norm_type=2.0, kernel_size=2, stride=3, ceil_mode=True)

"""Convolutions and their transposes, over one to three spatial axes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import BATCH, FLOATS, Keywords, Rows, floats, numbers, op

_LINE, _PLANE, _SPACE = floats(2, 4, 9), floats(2, 4, 9, 8), floats(2, 4, 6, 5, 7)

_FORMS: Rows = [
    {"kernel_size": 3},
    {"kernel_size": 1, "bias": False},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "dilation": 3, "padding": 2},
    {"kernel_size": 3, "groups": 2, "padding": 1},
    {"kernel_size": 3, "groups": 4, "bias": False},
    {"kernel_size": 3, "padding": "valid"},
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": 4, "padding": "same"},
    {"kernel_size": 2, "padding": "same", "dilation": 3},
]
_TRANSPOSED_FORMS: Rows = [
    {"kernel_size": 3},
    {"kernel_size": 2, "bias": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
    {"kernel_size": 3, "stride": 3, "output_padding": 2},
    {"kernel_size": 3, "dilation": 2, "output_padding": 1},
    {"kernel_size": 3, "groups": 2, "padding": 2},
]
_UNEVEN: Rows = [
    {"kernel_size": (3, 2), "stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)},
    {"kernel_size": (1, 5), "padding": "same"},
]

#: The channels of layers whose input has four.
_TO_8: Keywords = {"in_channels": 4, "out_channels": 8}
_TO_6: Keywords = {"in_channels": 4, "out_channels": 6}
_TO_2: Keywords = {"in_channels": 4, "out_channels": 2, "kernel_size": 3}
_ANY_LINE = {"x": {0: "batch", 2: "length"}}

conv1d = op(nn.Conv1d, _LINE, rows=_FORMS, **_TO_8, dynamic=_ANY_LINE, sizes={"batch": [1, 5], "length": [5, 12]})
conv2d = op(
    nn.Conv2d,
    _PLANE,
    rows=[*_FORMS, *_UNEVEN],
    **_TO_8,
    dynamic={"x": {0: "batch", 2: "height", 3: "width"}},
    sizes={"height": [7, 12], "width": [13, 6]},
)
conv3d = op(nn.Conv3d, _SPACE, rows=_FORMS, **_TO_8, dynamic=BATCH)

conv_transpose1d = op(
    nn.ConvTranspose1d,
    _LINE,
    rows=_TRANSPOSED_FORMS,
    **_TO_6,
    dynamic=_ANY_LINE,
    sizes={"batch": [1, 5], "length": [4, 12]},
)
conv_transpose2d = op(nn.ConvTranspose2d, _PLANE, rows=_TRANSPOSED_FORMS, **_TO_6, dynamic=BATCH)
conv_transpose3d = op(nn.ConvTranspose3d, _SPACE, rows=_TRANSPOSED_FORMS, **_TO_6)
conv_transpose_to_size = op(
    lambda x, weight: F.conv_transpose2d(x, weight, stride=2, output_padding=(0, 1)), _PLANE, weight=floats(4, 2, 3, 3)
)

conv_padding_mode = op(
    nn.Conv2d,
    _PLANE,
    **_TO_2,
    padding=[1, (2, 0), "same"],
    padding_mode=["zeros", "reflect", "replicate", "circular"],
    dynamic={"x": {0: "batch", 2: "height"}},
    sizes={"height": [5, 12]},
)
conv1d_unbatched = op(nn.Conv1d, floats(4, 9), **_TO_2, padding=[1, "same"])
conv2d_unbatched = op(nn.Conv2d, floats(4, 9, 8), **_TO_2, stride=2)
conv3d_unbatched = op(nn.Conv3d, floats(4, 6, 5, 7), **_TO_2)
conv_transpose2d_unbatched = op(nn.ConvTranspose2d, floats(4, 9, 8), **_TO_2)

conv2d_weight_input = op(F.conv2d, _PLANE, weight=floats(6, 4, 3, 3), bias=[None, floats(6)])
conv2d_no_batch = op(F.conv2d, floats(0, 4, 9, 8), weight=floats(6, 4, 3, 3))
conv2d_dtypes = op(F.conv2d, _PLANE, weight=floats(6, 4, 3, 3), bias=floats(6), dtypes=FLOATS)
conv_transpose2d_dtypes = op(F.conv_transpose2d, _PLANE, weight=floats(4, 6, 3, 3), dtypes=FLOATS)
# ONNX's attributes for groups, kernels and padding are constant numbers.
conv_of_any_groups = op(
    lambda x, weight, bias, f: f(x, weight, bias, stride=2, padding=1, dilation=(1, 2), groups=x.shape[1]),
    _PLANE,
    weight=floats(4, 1, 3, 2),
    bias=floats(4),
    f=[F.conv2d, F.conv_transpose2d],
    dtypes=[torch.float32, torch.float64],
    dynamic={"x": {0: "batch", 1: "channels"}, "weight": {0: "channels"}, "bias": {0: "channels"}},
    sizes={"batch": [0, 1], "channels": [1, 7]},
)
conv_of_each_sample = op(
    lambda x, weight, f: f(x.flatten(0, 1), weight.flatten(0, 1), groups=x.shape[0]),
    _LINE,
    weight=floats(2, 4, 4, 3),
    f=[F.conv1d, F.conv_transpose1d],
    dynamic={"x": {0: "batch", 2: "length"}, "weight": {0: "batch"}},
    sizes={"batch": [1, 3], "length": [3, 7]},
)


def same_by(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv1d(x, w, groups=2, padding="same", dilation=2)


def padded_by(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv1d(x, w, groups=2, padding=w.shape[2] // 2)


def transposed_by(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv_transpose1d(x, w, stride=2, padding=w.shape[2] // 2, output_padding=1)


conv_by_any_kernel = op(
    lambda x, w, f: f(x, w),
    numbers(2, 4, 9),
    numbers(4, 2, 4),
    f=[same_by, padded_by, transposed_by],
    dtypes=[torch.float32, torch.int64],
    dynamic={"x0": {2: "length"}, "x1": {2: "kernel"}},
    sizes={"length": [11], "kernel": [1, 5]},
)

conv_tbc = op(torch.conv_tbc, floats(9, 2, 4), weight=floats(3, 4, 6), bias=floats(6), pad=[0, 1])

_WHOLE = [torch.int64, torch.float64]
conv_products = op(
    F.conv2d,
    numbers(2, 4, 9, 8),
    rows=[
        {"weight": numbers(6, 4, 3, 2)},
        {"weight": numbers(6, 2, 3, 3), "groups": 2, "stride": (2, 1), "padding": 1, "bias": numbers(6)},
        {"weight": numbers(4, 1, 2, 2), "groups": 4, "dilation": 2},
    ],
    dtypes=_WHOLE,
    dynamic={"x": {0: "batch", 2: "height"}},
    sizes={"height": [4, 11]},
)
conv_products_line = op(F.conv1d, numbers(4, 9), weight=numbers(6, 4, 3), padding=["same", "valid"], dtypes=_WHOLE)
conv_transpose_products = op(
    F.conv_transpose2d,
    numbers(2, 4, 5, 6),
    rows=[
        {"weight": numbers(4, 3, 3, 2)},
        {
            "weight": numbers(4, 3, 3, 3),
            "groups": 2,
            "stride": 2,
            "padding": 1,
            "output_padding": 1,
            "bias": numbers(6),
        },
        {"weight": numbers(4, 1, 2, 2), "groups": 4, "dilation": 2, "padding": 3},
    ],
    dtypes=_WHOLE,
    dynamic=BATCH,
)
convolutions_of_nan = op(
    lambda x, w, f: f(x, w),
    floats(1, 2, 6, 5, special=(float("nan"),)),
    floats(2, 2, 3, 2),
    f=[F.conv2d, F.conv_transpose2d],
)

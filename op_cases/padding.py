"""Padding: constant, reflection, replication and circular; and cropping by negative padding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import ALL_DTYPES, BATCH, FLOATS, floats, numbers, op

_MODES = ["reflect", "replicate", "circular"]

pad_constant = op(
    F.pad,
    floats(2, 3, 4),
    pad=[(1, 2), (0, 0), (1, 0, 0, 2), (-1, 2), (1, -2, -1, 0), (0, 1, 1, 1, 2, 0)],
    value=[0, 1.5],
    dynamic={"x": {0: "batch", 2: "length"}},
    sizes={"batch": [1, 5], "length": [2, 7]},
)
pad_constant_special = op(F.pad, floats(2, 3), pad=(1, 1), value=[float("inf"), float("-inf"), float("nan")])
pad_of_special = op(
    F.pad, floats(2, 3, 6, special=(float("nan"), float("inf"), float("-inf"))), pad=(2, 1), mode=_MODES
)
pad_constant_dtypes = op(
    F.pad, numbers(2, 3, 4), pad=[(1, 2), (-1, 1, 0, -1)], value=[0, 1], dtypes=ALL_DTYPES, dynamic=BATCH
)
pad_empty = op(F.pad, floats(0, 3), pad=[(1, 1), (0, 0, 1, 2)])
pad_by_size = op(lambda x: F.pad(x, (0, x.shape[0], 1, 0)), floats(2, 3), dynamic=BATCH)
#: torch takes a plain number, and rounds it to the dtype of the tensor.
pad_with_a_size = op(
    lambda x: (
        F.pad(x, (1, 2), value=x.shape[0]),
        F.pad(x.to(torch.int64), (0, 0, 1, 0), value=x.shape[0] / 2),
        F.pad(x > 0, (1, 0), value=x.shape[0]),
        nn.ConstantPad1d((2, -1), x.shape[0] - 1)(x),
    ),
    floats(3, 4),
    dynamic=BATCH,
)
pad_with_a_value = op(
    lambda x: (F.pad(x, (1, 2), value=x.min()), F.pad(x.to(torch.int64), (-1, 1), value=x.max().item())),
    floats(3, 4),
    dynamic=BATCH,
)
pad_line = op(
    F.pad,
    floats(2, 3, 6),
    pad=[(2, 1), (0, 3), (-1, 2)],
    mode=_MODES,
    dynamic={"x": {0: "batch", 2: "length"}},
    sizes={"length": [4, 9]},
)
pad_plane = op(
    F.pad,
    floats(2, 3, 6, 5),
    pad=[(2, 1, 0, 3), (1, 0, -1, 1)],
    mode=_MODES,
    dynamic={"x": {0: "batch", 2: "height"}},
    sizes={"height": [5, 8]},
)
pad_space = op(F.pad, floats(1, 2, 4, 3, 5), pad=(1, 0, 2, 1, 0, 3), mode=_MODES)
pad_unbatched = op(F.pad, floats(3, 6, 5), pad=(2, 1, 0, 3), mode=_MODES)
pad_mode_dtypes = op(F.pad, numbers(2, 3, 6), pad=(2, 1), mode=_MODES, dtypes=[*FLOATS, torch.int64])

constant_pad1d = op(nn.ConstantPad1d, floats(2, 3, 4), padding=[2, (3, 1)], value=3.5)
constant_pad2d = op(nn.ConstantPad2d, floats(2, 3, 4), padding=[2, (3, 0, 2, 1)], value=3.5)
constant_pad3d = op(nn.ConstantPad3d, floats(2, 3, 4, 5), padding=[1, (3, 3, 6, 6, 0, 1)], value=3.5)
zero_pad2d = op(nn.ZeroPad2d, floats(1, 1, 3, 3), padding=[2, (1, 1, 2, 0)])
reflection_pad1d = op(nn.ReflectionPad1d, floats(2, 3, 6), padding=[2, (3, 1)])
reflection_pad2d = op(nn.ReflectionPad2d, floats(1, 2, 4, 5), padding=[2, (1, 1, 2, 0)])
reflection_pad3d = op(nn.ReflectionPad3d, floats(1, 2, 3, 4, 4), padding=1)
replication_pad1d = op(nn.ReplicationPad1d, floats(2, 3, 4), padding=[2, (3, 1)])
replication_pad2d = op(nn.ReplicationPad2d, floats(1, 1, 3, 3), padding=[2, (1, 1, 2, 0)])
replication_pad3d = op(nn.ReplicationPad3d, floats(1, 2, 3, 4, 4), padding=[3, (3, 3, 6, 6, 1, 1)])
circular_pad2d = op(nn.CircularPad2d, floats(1, 2, 4, 5), padding=[2, (1, 1, 2, 0)])
circular_of_an_empty_batch = op(
    F.pad,
    floats(2, 3, 4, 5),
    pad=[(1, 1, 2, 0), (2, 0, 0, 1)],
    mode="circular",
    dynamic=BATCH,
    sizes={"batch": [0, 1, 3]},
)  # fmt: skip
#: Where the axis is empty, what is padded has a row, and the product has none.
padded_beside_an_empty_axis = op(
    lambda x: torch.ones((F.pad(x[1:], (0, 0, 1, 0)) * x).size(0)),
    floats(3, 2),
    dynamic=BATCH,
    sizes={"batch": (0, 1, 5)},
)

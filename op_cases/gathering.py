"""Gathering along an axis."""

from __future__ import annotations

import torch

from onnx_parity.harness.case import MOVED_DTYPES, distinct, floats, ints, numbers, op

gather = op(
    torch.gather, numbers(3, 4), dim=[0, 1, -1], index=[ints(3, 4, high=3), ints(2, 3, high=3)], dtypes=MOVED_DTYPES
)
gather_longer = op(torch.gather, floats(3, 4), dim=1, index=ints(3, 6, high=4))
gather_special = op(
    torch.gather, floats(3, 4, special=(float("nan"), float("inf"), float("-inf"))), dim=1, index=ints(3, 4, high=4)
)
gather_cube = op(torch.gather, floats(2, 3, 4), dim=[0, 1, 2], index=ints(2, 3, 4, high=2))
gather_scalar = op(lambda x: x.gather(0, torch.tensor(0)), floats())
gather_nothing = op(torch.gather, floats(3, 4), dim=0, index=ints(0, 4, high=3))
gather_dynamic = op(
    torch.gather, floats(3, 4), dim=1, index=ints(3, 2, high=4), dynamic={"x": {0: "batch"}, "index": {0: "batch"}}
)
take_along_dim_varying = op(
    lambda x, index: (
        x.take_along_dim(x.argmax(1, keepdim=True), 1),
        x.take_along_dim(x.argsort(0), -2),
        x.take_along_dim(index),
        x[None].take_along_dim(index[:, :1, None], 2),
        x.take_along_dim(index[:1], 1),
        x[:, :1].take_along_dim(index, 0),
    ),
    distinct(4, 5),
    ints(4, 3, high=4),
    dynamic={"x0": {0: "batch", 1: "width"}, "x1": {0: "batch"}},
    sizes={"batch": (4, 7), "width": (4, 9)},
)

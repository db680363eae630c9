"""Writes in each dtype: to as many places as there are at run time, and under masks of several axes."""

from __future__ import annotations

import torch

from onnx_parity.harness.case import MOVED_DTYPES, floats, given, ints, numbers, op
from onnx_parity.op_cases.assignment import put, put_at

_NUMBERS = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8)


def _scattered(x: torch.Tensor, y: torch.Tensor, dim: int) -> list[torch.Tensor]:
    """`x` in each dtype, with slices written along an axis, to places that differ."""
    places = (torch.arange(y.shape[0]) * 2 + 1) % 7
    found = [put(a, places, b) for a, b in ((x > 0, y > 0), (x[:, :1], y[:, :1]), (x[:, :0], y[:, :0]))]
    for dtype in _NUMBERS:
        far = 2**33 + 1 if dtype.itemsize == 8 else 1
        old, new = x.to(dtype) * far, y.to(dtype) * far
        slices = new.movedim(0, dim)
        found += [old.index_copy(dim, places, slices), old.index_add(dim, places, slices), put(old, places, new)]
    return found


#: As many slices as there are at run time, down to none.
scatters_of_any_number = op(
    _scattered,
    numbers(7, 7, low=0),
    numbers(3, 7, low=0),
    dim=[0, -1],
    dynamic={"x1": {0: "count"}},
    sizes={"count": [0, 1, 7]},
)
#: The axes before the mask's have elements of their own.
put_columns_under_mask_of_two_axes = op(
    lambda x, m, y: put_at(x, y, slice(None), m),
    numbers(2, 2, 3, 2),
    given([[True, False, True], [False, True, False]]),
    y=[numbers(2, 1, 2), numbers(2, 3, 2)],
    dtypes=MOVED_DTYPES,
)
#: The place of the axis that is written to matters though nothing is.
writes_of_nothing = op(
    lambda x, places, y: put_at(x, y, slice(None), places),
    rows=[
        {"x": floats(0, 4), "places": given([2, 0]), "y": floats(0, 2)},
        {"x": floats(3, 4), "places": ints(0, high=4), "y": floats(3, 0)},
    ],
)


def written_one_after_the_other(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    torch._foreach_mul_([y, y[1:], y[:, :2]], [2.0, 3.0, 4.0])
    torch._foreach_zero_([y[:1]])
    return y


lists_that_share_memory = op(written_one_after_the_other, floats(3, 4), dynamic={"x": {0: "rows", 1: "columns"}})


def written_while_read(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, :-1] = y[:, 1:]
    y *= y
    y[1:].masked_fill_(y[1:] > 0.5, y.new_ones(()))
    return y


#: Where torch reads each element before it writes to it.
parts_of_one_tensor = op(written_while_read, numbers(3, 4), dynamic={"x": {0: "rows", 1: "columns"}})

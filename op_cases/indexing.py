"""Reading `x[...]` in all its forms, and gathering along an axis."""

from __future__ import annotations

from typing import Any

import torch
from numpy import s_

from onnx_parity.harness.case import (
    BATCH,
    BATCHES,
    IEEE_FLOATS,
    MOVED_DTYPES,
    Keywords,
    bools,
    distinct,
    floats,
    given,
    ints,
    numbers,
    op,
)

#: Numbers and slices of one axis or more, for a tensor of shape (4, 5, 6).
BASIC_INDICES = [s_[0], s_[-1], s_[1, 2], s_[-1, :, -2], s_[1:3], s_[-3:], s_[:-1], s_[::2], s_[3:1]]

_ANY_MATRIX: Keywords = {"dynamic": {"x": {0: "rows", 1: "columns"}}, "sizes": {"rows": [2, 7], "columns": [2, 9]}}


def item_of(x: torch.Tensor, index: Any) -> torch.Tensor:
    return x[index]


# --- integers, slices, None, ... --------------------------------------------------------------------------------------

getitem = op(
    item_of,
    floats(4, 5, 6),
    index=[
        *BASIC_INDICES,
        s_[1:100],
        s_[:, 1::2],
        s_[..., 0],
        s_[0, ..., -1],
        s_[None, 1],
        s_[..., None],
        s_[0:2, None, 0, 1:4:3],
        s_[None, ..., None],
        s_[:, None, 2:4],
        s_[1, 2, 3],
        (),
    ],
)
getitem_dtypes = op(lambda x: (x[1], x[:, 1:3], x[::2, -1]), numbers(4, 5), dtypes=MOVED_DTYPES)
getitem_dynamic = op(
    item_of,
    floats(6, 5),
    index=[s_[0], s_[-1], s_[1:], s_[:-1], s_[-4:], s_[::2], s_[:, -2], s_[..., None]],
    dynamic=BATCH,
    sizes={"batch": [5, 8]},
)
getitem_by_size = op(lambda x: x[: x.shape[0] - 1, x.shape[1] // 2 :], floats(4, 5), **_ANY_MATRIX)
chained_views = op(
    lambda x: x[1:][:, 2:].t()[0], floats(4, 5), dynamic={"x": {1: "columns"}}, sizes={"columns": [3, 8]}
)
getitem_at_size = op(
    lambda x: (x[:, x.shape[1] - 1], x[x.shape[0] // 2, None, 1:], x[..., x.shape[1] - 2, None]),
    floats(4, 5),
    **_ANY_MATRIX,
)
last_by_size = op(
    lambda x, count: (x[x.shape[0] - count :], x[x.shape[0] - count : 2], x[x.shape[0] - 3 :: 2]),
    floats(4, 5),
    count=[3, 2],
    dynamic=BATCH,
    sizes={"batch": [1, 6]},
)
select = op(torch.select, floats(3, 4), rows=[{"dim": 0, "index": 1}, {"dim": -1, "index": -1}])
bytes_as_places = op(
    lambda x, m: (x.narrow(0, m, 2), x[:m], x[m : m + 2], x[m]),
    floats(6, 2),
    given(3, dtype=torch.uint8),
    tier="default",
)
narrow = op(
    torch.narrow,
    floats(3, 5),
    rows=[
        {"dim": 0, "start": 1, "length": 2},
        {"dim": 1, "start": -3, "length": 2},
        {"dim": 1, "start": 5, "length": 0},
    ],
)
narrow_dynamic = op(lambda x: x.narrow(0, 1, x.shape[0] - 1), floats(3, 5), dynamic=BATCH)

# --- tensors ----------------------------------------------------------------------------------------------------------

by_tensor = op(
    lambda x, i: (x[i], x[:, i]),
    numbers(4, 5),
    i=[ints(3, low=-4, high=4), ints(2, 3, high=4), ints(0, high=4)],
    dtypes=MOVED_DTYPES,
)
by_int32 = op(lambda x, i: x[i], floats(4, 5), ints(3, low=-4, high=4, dtype=torch.int32))
by_list = op(lambda x: (x[[0, -1, 2]], x[:, [1, 3]], x[[0, 1], [2, -2]], x[[[0], [1]], [[2, 3]]]), floats(4, 5))
by_tensors = op(lambda x, i, j: x[i, j], floats(4, 5, 6), ints(3, low=-4, high=4), ints(3, low=-5, high=5))
by_tensors_broadcast = op(lambda x, i, j: x[i, j], floats(4, 5, 6), ints(3, 1, high=4), ints(2, low=-5, high=5))
by_tensors_of_all_axes = op(lambda x, i, j: x[i, j, i], floats(4, 5, 6), ints(3, high=4), ints(3, high=5))
by_tensor_later = op(
    lambda x, i: (x[:, i], x[..., i], x[1:, :, i], x[:, None, i]), floats(4, 5, 6), ints(3, low=-5, high=5)
)
by_tensors_together = op(lambda x, i, j: x[:, i, j], floats(4, 5, 6), ints(3, high=5), ints(3, low=-6, high=6))
by_tensors_apart = op(
    lambda x, i, j: (x[i, :, j], x[i, None, j], x[0, :, i]), floats(4, 5, 6), ints(2, high=4), ints(2, high=5)
)
by_tensor_dynamic = op(
    lambda x, i: (x[i], x[i, i], x[:, i]),
    floats(4, 5),
    ints(3, low=-2, high=1),
    dynamic={"x0": {0: "rows"}, "x1": {0: "count"}},
    sizes={"rows": [2, 7]},
)
by_arange = op(lambda x, last: x[torch.arange(x.shape[0]), last], floats(3, 5, 2), ints(3, high=5), dynamic=BATCHES)
index_select = op(torch.index_select, floats(3, 4), dim=[0, 1, -1], index=[ints(2, high=3), ints(0, high=3)])
index_select_dtypes = op(
    torch.index_select, numbers(3, 4), dim=1, index=ints(2, high=3, dtype=torch.int32), dtypes=MOVED_DTYPES
)
index_select_scalar = op(lambda x: x.index_select(0, torch.tensor([0])), floats())
take = op(torch.take, floats(3, 4), index=[ints(2, 3, low=-12, high=12), ints(0, high=3)])
take_along_dim = op(torch.take_along_dim, floats(3, 4), ints(3, 4, high=3), dim=[0, 1])

# --- masks ------------------------------------------------------------------------------------------------------------

by_mask = op(lambda x, m: x[m], numbers(3, 4), m=[bools(3, 4), bools(3)], dtypes=MOVED_DTYPES)
by_mask_later = op(lambda x, m: (x[:, m], x[..., m]), floats(2, 4, 4), bools(4))
by_mask_of_two_axes = op(lambda x, m: x[:, m], floats(2, 3, 4, 5), bools(3, 4))
by_mask_and_slice = op(lambda x, m: (x[m, 1:], x[m, 0], x[m, None]), floats(3, 4), bools(3))
by_mask_and_tensor = op(
    lambda x, m, i: (x[m, i], x[m][:, i]), floats(3, 4), given([True, False, True]), ints(2, high=4)
)
by_constant_mask = op(lambda x: x[torch.tensor([True, False, True])], floats(3, 4))
#: Masks of bytes, from before torch had booleans: torch warns, and accepts them.
by_mask_of_bytes = op(
    lambda x, m: (x[m], x[m, 1:], x[x[:, 0] > 0], x.T[:, m]),
    floats(3, 2),
    ints(3, high=3, dtype=torch.uint8),
    dynamic=BATCHES,
)
by_empty_mask = op(lambda x, m: x[m], floats(3, 4), given([False, False, False]))
by_scalar_mask = op(lambda x, m: (x[m], x[~m]), floats(3), given(True))
by_condition = op(lambda x: x[x > 0] * 2, floats(3, 4), dynamic=BATCH)
masked_select = op(torch.masked_select, floats(3, 4), mask=[bools(3, 4), bools(4), bools(2, 3, 4)])
#: More elements are selected than the tensor has, because the mask repeats it.
masked_select_repeated = op(
    lambda x, mask: torch.masked_select(x, mask)[:4], floats(3), mask=given([[True, True, False], [True, True, True]])
)
masked_size = op(lambda x: x[x > 0].shape[0] + x, floats(3, 4), dynamic=BATCH)
#: NaN and infinities are picked as other elements are.
indexing_of_edges = op(
    lambda x, i, mask: (
        x.gather(-1, i),
        x.index_select(-1, i[0]),
        x[:, i[0]],
        x[..., 1:],
        x.select(-1, 1),
        x.narrow(-1, 1, 2),
        x.take(i),
        x.masked_fill(mask, 2.0),
        torch.where(mask, x, 1.0),
        x.tril(),
    ),
    floats(3, 4, special=(float("nan"), float("inf"), float("-inf"), float("nan"))),
    given([[1, 0, 3], [2, 2, 1], [0, 1, 3]]),
    bools(3, 4),
    dtypes=IEEE_FLOATS,
)
nonzero = op(torch.nonzero, numbers(3, 4, low=-1, high=2, far=True), dtypes=MOVED_DTYPES)
indexing_special = op(
    lambda x: (x[[0, 2], [1, -1]], x[:, [2, 0, 1]], x[[-1, 0]], x[:, None, 1], x[x > 0], x.take(torch.tensor([5, -1]))),
    floats(3, 4, special=(float("nan"), float("inf"), float("-inf"), float("nan"))),
)
nonzero_special = op(torch.nonzero, floats(3, 4, special=(float("nan"), 0.0, -0.0, float("inf"))))
nonzero_scalar = op(torch.nonzero, given(2.0))
nonzero_static = op(
    lambda x, size: torch.nonzero_static(x, size=size, fill_value=-7), numbers(3, 4, low=-1, high=2), size=[3, 20]
)
unsafe_index = op(
    lambda x, i: (
        torch.ops.aten._unsafe_index(x, [None, i]),
        torch.ops.aten._unsafe_index_put(x, [i], x[:2] + 1, True),
    ),
    floats(3, 4),
    i=given([2, 0]),
)
nonzero_as_tuple = op(lambda x: torch.nonzero(x, as_tuple=True), numbers(3, 4, low=-1, high=2))
where_of_condition = op(lambda x: torch.where(x > 0), floats(3, 4), dynamic=BATCH)
argwhere = op(torch.argwhere, numbers(3, 4, low=-1, high=2))

# --- gathering along an axis ------------------------------------------------------------------------------------------

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


def taken_along(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
    # Places that there are at all sizes: of others, PyTorch returns what lies beside the tensor in memory.
    index = index % x.shape[0] % x.shape[1]
    return (
        x.take_along_dim(x.argmax(1, keepdim=True), 1),
        x.take_along_dim(x.argsort(0), -2),
        x.take_along_dim(index),
        x[None].take_along_dim(index[:, :1, None], 2),
        x.take_along_dim(index[:1], 1),
        x[:, :1].take_along_dim(index, 0),
    )


take_along_dim_varying = op(
    taken_along,
    distinct(4, 5),
    ints(4, 3, high=4),
    dynamic={"x0": {0: "batch", 1: "width"}, "x1": {0: "batch"}},
    sizes={"batch": (4, 7), "width": (4, 9)},
)
#: Integers that fewer bits would change, by indices of each kind.
indexed_far = op(
    lambda x, i, m: (
        x[i],
        x[:, i[:2]],
        x[i, i],
        x[m],
        x[..., -1],
        x[::2, 1:],
        x.index_select(1, i),
        x.take(i),
        x[None, i],
    ),
    numbers(4, 5),
    i=ints(4, high=4),
    m=bools(4),
    dtypes=[torch.int64, torch.float64],
)
#: A mask within the model, on another axis than the first.
constant_masks = op(
    lambda x, m: (x[:, m], x[:, :, m], x[:1, :, m], x.mT[:, m]), floats(2, 3, 3), m=bools(3, constant=True),
    dynamic={"x": {0: "batch"}},
)  # fmt: skip
masked_along_one = op(
    lambda x, m: (x[m], x[:, m[0]], x.masked_select(m[..., None])),
    floats(1, 4, 2),
    m=bools(1, 4),
    dynamic={"x": {0: "batch"}, "m": {0: "batch"}},
    sizes={"batch": [2, 3]},
)


def by_steps_of_a_size(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.flatten() * 2
    first = y[1 :: x.shape[1]] + 0
    y[:: max(1, x.shape[0] // 2)] = 0
    return first, y


steps_of_dynamic_sizes = op(
    by_steps_of_a_size,
    floats(5, 3),
    dynamic={"x": {0: "rows", 1: "columns"}},
    sizes={"rows": [1, 2, 7], "columns": [1, 2, 5]},
)

"""Writing `x[...] = y` in all its forms, and the operators that write at indices: scatter, index_put, masked_fill."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from numpy import s_

from onnx_parity.harness.case import (
    BATCH,
    BATCHES,
    FLOATS,
    MOVED_DTYPES,
    MOVED_NUMBERS,
    bools,
    distinct,
    floats,
    given,
    ints,
    numbers,
    op,
)
from onnx_parity.op_cases.indexing import BASIC_INDICES


def put(x: torch.Tensor, index: Any, y: Any) -> torch.Tensor:
    x = x.clone()
    x[index] = y
    return x


def put_at(x: torch.Tensor, y: Any, *index: Any) -> torch.Tensor:
    return put(x, index, y)


def accumulated(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.index_put((index,), y, accumulate=True)


def clamped_parts(boxes: torch.Tensor) -> torch.Tensor:
    left, top, right, bottom = boxes.unbind(-1)
    left.clamp_(min=0)
    bottom.neg_()
    return torch.stack([left, top, right, bottom], -1) + boxes


def doubled_rows(x: torch.Tensor) -> torch.Tensor:
    for row in x:
        row.mul_(2)
    return x


# --- integers, slices, None, ... --------------------------------------------------------------------------------------

setitem = op(
    put,
    floats(4, 5, 6),
    index=[
        *BASIC_INDICES,
        s_[:, 1::2],
        s_[::3, :, 0:6:2],
        s_[..., 0],
        s_[0, ..., -1],
        s_[None, 1],
        s_[0:2, None, 0, 1:4:3],
        s_[1, 2, 3],
        s_[...],
        (),
    ],
    y=2.5,
)
#: From the end to the start there is nothing, whatever the size.
setitem_of_nothing = op(lambda x: put(x, slice(-2, 0), 5.0), floats(4, 3), dynamic=BATCH)
#: Slices whose bounds are out of order are empty, even if one bound is beyond the end of the axis.
_OUT_OF_ORDER = [
    slice(5, 2), slice(-2, -4), slice(3, 3), (slice(2, 0), slice(3, 1)), (slice(3, 1), [0, 1]),
    ([0, 0], slice(3, 1)), (slice(4, 2), 0), (None, slice(3, 1)), slice(5, 2, 2), slice(5, -2), slice(-2, 1),
]  # fmt: skip
setitem_out_of_order = op(
    lambda x, index: put(put(x, index, 5.0), index, x[:1, :1].squeeze()), floats(6, 4), index=_OUT_OF_ORDER,
    dynamic=BATCH, sizes={"batch": [1, 3, 9]},
)  # fmt: skip
setitem_out_of_order_in_columns = op(
    lambda x, index: put(x.t(), index, 5.0), floats(6, 4), index=_OUT_OF_ORDER, dynamic={"x": {1: "columns"}},
    sizes={"columns": [1, 2, 7]},
)  # fmt: skip
slice_scatter_out_of_order = op(lambda x: x.slice_scatter(x[:0], 0, 5, 2), floats(6, 4), dynamic=BATCH)
setitem_dtypes = op(put, numbers(4, 5), index=(slice(1, 3), 2), y=1, dtypes=MOVED_DTYPES)
setitem_row = op(lambda x, y: put(x, 1, y), floats(3, 4), y=[floats(4), floats(1), floats()])
setitem_slice = op(
    lambda x, y: put(x, (slice(None), slice(1, 3)), y), floats(3, 4), y=[floats(3, 2), floats(2), floats(3, 1)]
)
setitem_steps = op(
    lambda x, y: put(x, (slice(None), slice(0, 4, 2)), y),
    floats(3, 4),
    floats(3, 2),
    dynamic=BATCHES,
)
setitem_casts = op(lambda x, y: put(x, 0, y), ints(3, 4), floats(4))
setitem_dynamic = op(
    put,
    floats(4, 5),
    index=[
        0,
        -1,
        slice(1, None),
        slice(None, -1),
        (slice(None), 2),
        (slice(None), slice(None, None, 2)),
        slice(None, None, 2),
    ],
    y=1.0,
    dynamic=BATCH,
)
setitem_at_size = op(lambda x: put(x, (slice(None), x.shape[1] - 1), 1.0), floats(4, 5), dynamic={"x": {1: "columns"}})
setitem_from_itself = op(lambda x: put(x, slice(1, None), x[:-1]), floats(4, 5), dynamic=BATCH)
add_to_slice = op(
    lambda x, y: (x := x.clone(), x[:, 1:3].add_(y), x)[-1], floats(3, 4), floats(2), dynamic={"x0": {0: "batch"}}
)
multiply_view = op(lambda x: (x := x.clone(), x.t()[1:].mul_(2), x[0].zero_(), x)[-1], floats(3, 4))
write_through_chained_views = op(
    lambda x: (x := x.clone(), x[1:][:, ::2][0].fill_(7), x.view(-1)[3:5].neg_(), x)[-1], floats(3, 4)
)
copy_ = op(lambda x, y: (x := x.clone(), x[1].copy_(y), x)[-1], floats(3, 4), y=[floats(4), ints(4), floats(1)])
diagonal_fill = op(lambda x: (x := x.clone(), x.diagonal().fill_(0), x.diagonal(1).add_(1), x)[-1], floats(4, 5))
diagonal_fill_at_size = op(
    lambda x: (x := x.clone(), x.diagonal(x.shape[0] - 2).fill_(0), x.diagonal(offset=1 - x.shape[0]).add_(1), x)[-1],
    floats(4, 5),
    dynamic=BATCH,
    sizes={"batch": (1, 2, 6)},
)
write_to_parts = op(lambda x: clamped_parts(x.clone()), floats(5, 4, low=-1.0), dynamic=BATCH)
write_to_rows = op(lambda x: doubled_rows(x.clone()), floats(3, 4), dynamic={"x": {1: "columns"}})
write_through_expand = op(lambda x: (y := torch.zeros(3, 4), y[:].copy_(x.expand(3, 4)), y)[-1], floats(1, 4))
select_scatter = op(torch.select_scatter, floats(3, 4), floats(4), dim=0, index=[1, -1])
slice_scatter = op(
    torch.slice_scatter,
    floats(5, 4),
    rows=[
        {"src": floats(2, 4), "start": 1, "end": 3},
        {"src": floats(3, 4), "step": 2},
        {"src": floats(5, 1), "dim": 1, "start": -1},
    ],
)
diagonal_scatter = op(
    torch.diagonal_scatter,
    numbers(3, 4),
    rows=[{"src": numbers(3)}, {"src": numbers(3), "offset": 1}, {"src": numbers(2), "offset": -1}],
    dtypes=[torch.float32, torch.int64],
)
as_strided_scatter = op(lambda x, y: x.as_strided_scatter(y, (2, 2), (4, 1), 1), floats(3, 4), floats(2, 2))

# --- tensors ----------------------------------------------------------------------------------------------------------

put_scalar = op(
    lambda x, i: put(x, i, 3),
    numbers(4, 5),
    i=[ints(3, low=-4, high=4), ints(2, 3, high=4), ints(0, high=4)],
    dtypes=MOVED_DTYPES,
)
put_where_flag = op(
    lambda x, y, yes, no: (put(x, yes, 2.5), put(x, yes, y), put(x, no, 2.5)),
    floats(4, 5),
    floats(4, 5),
    yes=given(True),
    no=given(False),
    dynamic=BATCHES,
)
put_rows = op(
    put,
    floats(6, 5, special=(float("nan"), float("inf"))),
    given([4, 0, -1]),
    y=[floats(3, 5, special=(float("nan"), float("-inf"))), floats(5), floats(3, 1), floats()],
)
put_constant_rows = op(
    lambda x, y: put(x, [0, 1], y), floats(4, 5), floats(2, 5), dynamic={"x0": {1: "width"}, "x1": {1: "width"}}
)
put_pairs = op(
    lambda x, y: put_at(x, y, torch.tensor([0, 2, -1]), torch.tensor([1, -1, 0])), floats(4, 5), y=[floats(3), floats()]
)
put_pairs_broadcast = op(
    lambda x, y: put_at(x, y, torch.tensor([[0], [2]]), torch.tensor([1, 3, 4])),
    floats(4, 5),
    y=[floats(2, 3), floats(3), floats(2, 1)],
)
put_columns = op(
    lambda x, i, y: put_at(x, y, slice(None), i),
    floats(4, 5, 6),
    given([3, -5]),
    y=[floats(4, 2, 6), floats(2, 6), floats(6), floats(2, 1)],
)
put_last_axis = op(lambda x, i, y: put_at(x, y, ..., i), floats(4, 5, 6), given([3, 0]), y=[floats(4, 5, 2), floats(2)])
put_together = op(
    lambda x, y: put_at(x, y, slice(None), torch.tensor([0, 2]), torch.tensor([1, 3])),
    floats(4, 5, 6),
    y=[floats(4, 2), floats(2)],
)
put_apart = op(
    lambda x, y: put_at(x, y, torch.tensor([0, 2]), slice(None), torch.tensor([1, 3])),
    floats(4, 5, 6),
    y=[floats(2, 5), floats(5)],
)
put_mixed = op(
    lambda x, y: put_at(x, y, slice(1, None), torch.tensor([0, 2]), 1), floats(4, 5, 6), y=[floats(3, 2), floats(1)]
)
put_dynamic = op(
    put,
    floats(6, 5),
    given([4, 0, -1]),
    floats(3, 5),
    dynamic={"x0": {1: "width"}, "x2": {1: "width"}},
)
put_in_varying = op(lambda x: put(x, [0, -1], 1.0), floats(6, 5), dynamic=BATCH, sizes={"batch": [2, 7]})
put_repeated = op(lambda x, y: x.index_put((torch.tensor([1, 1, 1]),), y), floats(3, 4), floats(1, 4))

index_put_accumulate = op(
    accumulated,
    numbers(4, 5),
    given([1, 1, -1, 1]),
    y=[numbers(4, 5), numbers(5), numbers()],
    dtypes=MOVED_NUMBERS,
)
index_put_accumulate_pairs = op(
    lambda x, y: x.index_put((torch.tensor([1, 1, 0]), torch.tensor([2, 2, -1])), y, accumulate=True),
    floats(3, 4),
    floats(3),
)
index_put_accumulate_special = op(
    accumulated,
    floats(4),
    given([1, 1, 2]),
    given([float("inf"), 1.0, float("nan")]),
)
index_put_ = op(
    lambda x, i, y: (x * 2).index_put_((i,), y, accumulate=True), floats(4, 5), ints(3, high=4), floats(3, 5)
)

# --- masks ------------------------------------------------------------------------------------------------------------

put_under_mask = op(lambda x, m: put(x, m, 3), numbers(3, 4), m=[bools(3, 4), bools(3)], dtypes=MOVED_DTYPES)
put_rows_under_mask = op(
    put,
    floats(4, 3, special=(float("nan"),)),
    given([True, False, True, False]),
    y=[floats(2, 3, special=(float("inf"),)), floats(3), floats(2, 1)],
)
put_columns_under_mask = op(
    lambda x, m, y: put_at(x, y, slice(None), m),
    floats(2, 4, 3),
    given([True, False, True, True]),
    y=[floats(2, 3, 3), floats(3, 3), floats(3, 1), floats(3), floats(2, 1, 3)],
)
put_under_mask_of_two_axes = op(
    put,
    floats(2, 3, 4),
    given([[True, False, True], [False, True, False]]),
    y=[floats(3, 4), floats(4), floats(1, 4), floats(3, 1)],
)
put_elements_under_mask = op(put, floats(2, 3), given([[True, False, True], [False, True, False]]), floats(3))
put_under_condition = op(
    lambda x: put(x, x > 0, 0.0), floats(3, 4, special=(float("nan"), float("inf"))), dynamic=BATCH
)
put_what_was_there = op(lambda x: put(x, x > 0, x[x > 0] * 2), floats(3, 4), dynamic=BATCH)
put_under_mask_of_bytes = op(
    lambda x, m: (put(x, m, x[m] * 2), x.index_put((m,), x[m] + 1, accumulate=True)),
    floats(3, 2),
    ints(3, high=2, dtype=torch.uint8),
    dynamic=BATCHES,
)
put_under_mask_and_tensor = op(
    lambda x, m, i, y: put_at(x, y, m, i),
    floats(4, 5),
    given([True, False, True, False]),
    given([0, 3]),
    y=[floats(2), floats()],
)
accumulate_under_mask = op(
    accumulated,
    floats(4, 3),
    given([True, False, True, False]),
    y=[floats(2, 3), floats(3), floats()],
)
masked_fill = op(
    torch.masked_fill, numbers(3, 4), mask=[bools(3, 4), bools(4), bools(3, 1)], value=[0, 1], dtypes=MOVED_DTYPES
)
masked_fill_dynamic = op(torch.masked_fill, floats(3, 4), mask=bools(4), value=-1.0, dynamic=BATCH)
masked_fill_special = op(
    torch.masked_fill,
    floats(3, 4, special=(float("nan"), float("inf"))),
    bools(3, 4),
    value=[float("-inf"), float("nan"), 6e4],
)
masked_fill_nan = op(
    lambda x, m: (x.masked_fill(m, float("nan")), torch.where(m, x, float("nan"))),
    floats(3, 4),
    m=bools(4),
    dynamic=BATCH,
)
masked_fill_tensor = op(lambda x, m, value: x.masked_fill(m, value), floats(3, 4), bools(3, 4), floats())
masked_fill_ = op(lambda x, m: (x + 1).masked_fill_(m, 2), floats(3, 4), bools(3, 4))
masked_scatter = op(
    torch.masked_scatter,
    numbers(3, 4),
    mask=[bools(3, 4), bools(4), bools(3, 1)],
    source=numbers(12),
    dtypes=[torch.float32, torch.int64, torch.bool],
)

# --- operators that write along an axis -------------------------------------------------------------------------------

index_add = op(
    lambda x, y, dim, alpha: x.index_add(dim, torch.tensor([1, 0, 1]), y, alpha=alpha),
    rows=[
        {"x": numbers(3, 4), "y": numbers(3, 4), "dim": 0, "alpha": 1},
        {"x": numbers(2, 4), "y": numbers(2, 3), "dim": -1, "alpha": 2},
    ],
    dtypes=[torch.float32, torch.float64, torch.float16, torch.int64, torch.int32],
)
index_add_dynamic = op(
    lambda x, i, y: x.index_add(0, i, y),
    floats(3, 4),
    given([1, 0, 1]),
    floats(3, 4),
    dynamic={"x0": {1: "width"}, "x2": {1: "width"}},
)
index_copy = op(
    lambda x, y, dim: x.index_copy(dim, torch.tensor([2, 0]), y),
    rows=[{"x": numbers(3, 4), "y": numbers(2, 4), "dim": 0}, {"x": numbers(3, 4), "y": numbers(3, 2), "dim": -1}],
    dtypes=MOVED_DTYPES,
)
scattered_slices_special = op(
    lambda x, y: (
        torch.slice_scatter(x, y, -1, 1, 3),
        torch.slice_scatter(x, y[:2, [0, 1, 0, 1]], -2, -2),
        torch.select_scatter(x, y[:, 0], -1, 0),
        x.index_copy(-1, torch.tensor([3, 0]), y),
        x.index_add(1, torch.tensor([2, 2]), y),
    ),
    floats(3, 4, special=(float("nan"), float("inf"))),
    floats(3, 2, special=(float("nan"), float("-inf"))),
)
index_copy_input = op(lambda x, i, y: x.index_copy(0, i, y), floats(3, 4), given([2, 0]), floats(2, 4))
index_fill = op(torch.index_fill, numbers(3, 4), dim=[0, 1, -1], index=given([2, 0]), value=1, dtypes=MOVED_DTYPES)
index_fill_dynamic = op(torch.index_fill, floats(3, 4), dim=1, index=given([2, 0]), value=1, dynamic=BATCH)
index_fill_tensor = op(lambda x, value: x.index_fill(1, torch.tensor([0, -1]), value), floats(3, 4), floats())
index_fill_ = op(lambda x: (x + 1).index_fill_(0, torch.tensor([1]), -1), floats(3, 4))
index_reduce = op(
    lambda x, y, reduce, include_self: x.index_reduce(0, torch.tensor([1, 0, 1]), y, reduce, include_self=include_self),
    numbers(3, 4, far=False),
    numbers(3, 4, far=False),
    reduce=["prod", "mean", "amax", "amin"],
    include_self=[True, False],
    dtypes=[torch.float32, torch.int64],
)
put_flat = op(
    lambda x, y, accumulate: x.put(torch.tensor([[1, -2], [5, 1]]), y, accumulate=accumulate),
    floats(3, 4),
    given([[1.0, 2.0], [3.0, 1.0]]),
    accumulate=True,
)
scatter = op(
    lambda x, i, src, dim: x.scatter(dim, i, src),
    distinct(3, 4),
    given([[0, 1, 2], [2, 0, 1]]),
    distinct(3, 4),
    dim=[0, -1],
    dtypes=MOVED_NUMBERS,
)
scatter_value = op(
    torch.scatter,
    numbers(3, 4),
    index=[ints(2, 3, high=3), ints(3, 4, high=3)],
    dim=[0, 1],
    value=1,
    dtypes=MOVED_DTYPES,
)
scatter_scalar = op(lambda x, src: x.scatter(0, torch.tensor(0), src), floats(), floats())
scatter_multiply = op(
    lambda x, i, src: x.scatter(1, i, src, reduce="multiply"), floats(2, 3), ints(2, 4, high=3), floats(2, 4)
)
scatter_value_add = op(lambda x, i: x.scatter(1, i, 2.0, reduce="add"), floats(2, 3), ints(2, 4, high=3))
scatter_ = op(lambda i: torch.zeros(2, 5).scatter_(1, i, 1.0), ints(2, 1, high=5))
scatter_dynamic = op(
    lambda x, i: x.scatter(1, i, 1.0),
    floats(3, 4),
    ints(3, 2, high=4),
    dynamic=BATCHES,
)
scatter_add = op(
    torch.scatter_add,
    numbers(3, 4),
    dim=[0, 1, -1],
    index=[ints(2, 3, high=3), ints(3, 4, high=3)],
    src=numbers(3, 4),
    dtypes=MOVED_NUMBERS,
)
scatter_add_special = op(
    lambda x, src: x.scatter_add(0, torch.tensor([1, 1, 2]), src), floats(4), given([float("inf"), 1.0, float("nan")])
)
scatter_reduce = op(
    lambda x, i, src, **how: x.scatter_reduce(0, i, src, **how),
    numbers(3, 4, far=False),
    ints(5, 3, high=3),
    numbers(5, 4, far=False),
    reduce=["sum", "prod", "mean", "amax", "amin"],
    include_self=[True, False],
    dtypes=[torch.float32, torch.float64, torch.float16, torch.int64, torch.int32],
)
#: Into axes that are counted from the end.
scatters_from_the_end = op(
    lambda x, y, i: (
        x.scatter_reduce(-1, i, y, "sum"),
        x.index_reduce(-1, torch.tensor([2, 0, 2]), y, "amax"),
        x.select_scatter(y[:, 0], -1, 2),
        x.slice_scatter(y[:, :2], -1, 1, 3),
        x.diagonal_scatter(y[:, 0], 0, -1, -2),
    ),
    floats(3, 4),
    floats(3, 3),
    ints(3, 3, high=4),
)
scatter_reduce_bools = op(
    lambda x, i, src: (x.scatter_reduce(0, i, src, "amax"), x.scatter_reduce(0, i, src, "amin")),
    bools(3, 4),
    ints(5, 3, high=3),
    bools(5, 4),
)
scatter_reduce_special = op(
    lambda x, src, **how: x.scatter_reduce(0, torch.tensor([0, 0, 1, 2, 2]), src, **how),
    given([0.0, float("nan"), 1.0, 2.0]),
    given([float("nan"), 5.0, 1.0, float("inf"), float("-inf")]),
    reduce=["sum", "prod", "amax", "amin"],
    include_self=[True, False],
)
#: NaN in what is written to and in what is written, among more than 30 elements, in each dtype.
scatters_of_nan = op(
    lambda x, y: tuple(
        scattered
        for each, source in ((x, y), (y, x))
        for scattered in (
            each.scatter(-1, torch.tensor([[3, 0], [1, 1]]), source),
            each.scatter_add(-2, torch.tensor([[1, 0, 1], [0, 0, 1]]), source),
            *(
                each.scatter_reduce(-1, torch.tensor([[3, 3, 0], [1, 2, 1]]), source, reduce)
                for reduce in ("sum", "prod", "amax", "amin")
            ),
        )
    ),
    floats(5, 7, special=(math.nan, math.nan, math.inf)),
    floats(5, 7, special=(math.nan, math.nan, -math.inf)),
    dtypes=FLOATS,
    dynamic={"x0": {0: "rows"}, "x1": {0: "rows"}},
    sizes={"rows": [2, 9]},
)
assignments_of_nan = op(
    lambda x, y: tuple(
        written
        for each, source in ((x, y), (y, x))
        for written in (
            each.index_add(-1, torch.tensor([2, 2, 0]), source[:, :3]),
            each.index_copy(-1, torch.tensor([2, 0]), source[:, 1:3]),
            each.index_fill(-1, torch.tensor([1, -1]), math.nan),
            each.index_put((torch.tensor([1, 0]),), source[:2]),
            each.masked_fill(each > 0, math.nan),
            each.masked_fill(each.isnan(), 0),
            each.select_scatter(source[:, 0], -1, -1),
            each.slice_scatter(source[:, :2], -1, 1, 3),
        )
    ),
    floats(5, 7, special=(math.nan, math.nan, math.inf)),
    floats(5, 7, special=(math.nan, math.nan, -math.inf)),
    dtypes=FLOATS,
    dynamic={"x0": {0: "rows"}, "x1": {0: "rows"}},
    sizes={"rows": [2, 9]},
)


_KNOWN = torch.arange(3.0)  # No input, no weight, and not of the recording.


def copied(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    shared, (apart, again) = copy.copy(y.t()), copy.deepcopy((y, {"y": y}))
    shared[:1] += 1
    apart[:1] = 0
    return y, again["y"], copy.deepcopy([_KNOWN])[0].add_(1) * _KNOWN


def of_lists(x: torch.Tensor) -> list[torch.Tensor]:
    xs = torch._foreach_add([x, x * 2], 1.0)
    torch._foreach_mul_(xs, [2.0, 3.0])
    torch._foreach_lerp_(xs, [x, x], 0.25)
    return [*xs, *torch._foreach_norm(xs), *torch._foreach_maximum(xs, [x, x])]


written_after_copy = op(copied, floats(3, 4), dynamic={"x": {0: "rows", 1: "columns"}})
lists_of_tensors_at_once = op(of_lists, floats(3, 4), dynamic={"x": {0: "rows", 1: "columns"}})

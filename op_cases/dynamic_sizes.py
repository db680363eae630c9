"""Dynamic sizes, and programs that compute with them: in views, slices, ranges and numbers; data-dependent sizes."""

from __future__ import annotations

import math
from math import sqrt

import torch
import torch.nn.functional as F
from torch.nn.functional import scaled_dot_product_attention

from onnx_parity.harness.case import BATCH, BATCHES, bools, distinct, floats, given, ints, numbers, op

#: Why some cases do not run with a NaN.
_NAN_LEFT_OUT = "onnxruntime's MaxPool leaves NaN out"

ALL_AXES = {"x": {0: "a", 1: "b", 2: "c"}}

# --- sizes in Python's arithmetic -------------------------------------------------------------------------------------

view_by_sizes = op(
    lambda x: (x.view(x.shape[0] * 2, -1), x.view(-1), x.reshape(x.size(1), x.size(0), 4)),
    floats(3, 2, 4),
    dynamic=BATCH,
)
every_axis = op(
    lambda x: (x.reshape(-1, x.shape[2]), x.flatten(), x.permute(2, 0, 1).reshape(x.shape[2], -1), x * x.numel()),
    floats(2, 3, 4),
    dynamic=ALL_AXES,
)
reshape_divided = op(
    lambda x: x.reshape(x.size(0), x.size(1) // 2, 2, -1),
    floats(2, 6, 4),
    dynamic=ALL_AXES,
    sizes={"a": (1, 5), "b": (2, 8), "c": (1, 7)},
)
#: Before opset 14, a 0 in the shape of a Reshape copies a size of the input, and nothing is inferred beside it.
merged_beside_empty_axes = op(
    lambda x: (x.flatten(2), x.transpose(0, 2).reshape(x.shape[2], -1, 2), x.unflatten(2, (-1, 1)).flatten(0, 1)),
    floats(2, 3, 4, 2),
    dynamic={"x": {0: "a", 2: "b"}},
)
statements = op(
    lambda x: (
        x * (x.shape[0] != 2),
        x + (x.shape[0] < x.shape[1]),
        torch.where(x > 0, x, x.shape[0] % 2 == 0),
        torch.tensor([x.shape[0] >= 3, x.shape[0] <= 3, x.shape[0] > x.shape[1]]),
        x.masked_fill(x > 0, x.shape[0] == 4),
    ),
    floats(4, 3),
    dynamic={"x": {0: "a", 1: "b"}},
    sizes={"a": (2, 3), "b": (3, 5)},
)
expand_by_size = op(lambda x: x.mean(0).expand(x.shape[0], -1) + x, floats(3, 4), dynamic=BATCH)
#: Where there is one column, it is broadcast to as many as there are rows.
filled_by_another_axis = op(
    lambda x: (x + torch.ones(x.shape[0]), x * x.sum(1), x.t() * x),
    floats(3, 3),
    dynamic={"x": {0: "a", 1: "b"}},
    sizes={"a": (3,), "b": (1, 3)},
)
from_sizes = op(
    lambda x: (x.new_zeros(x.shape[0], x.shape[0]), torch.full((x.shape[0] + 1,), 2.0), torch.eye(x.shape[0])),
    floats(3, 4),
    dynamic=BATCH,
)
ranges = op(
    lambda x: (torch.arange(x.shape[0]), torch.arange(0, x.shape[0], 2), torch.arange(x.shape[0], 2 * x.shape[0])),
    floats(5, 2),
    dynamic=BATCH,
)
linspace_of_sizes = op(
    lambda x, low, high: torch.linspace(low, high, x.shape[0]), floats(6, 2), low=[0.0, -3.5], high=1.0, dynamic=BATCH
)
slices = op(
    lambda x: (x[: x.shape[0] // 2], x[x.shape[0] // 2 :], x[-(-x.shape[0] // 2) :], x[: x.shape[0] - 1]),
    floats(4, 3),
    dynamic=BATCH,
    sizes={"batch": (2, 7)},
)
slices_at_numbers = op(
    lambda x: (x[:4].reshape(-1), torch.zeros(x[:4].shape[0]), x[-3:].shape[0] * x, torch.arange(x[2:9:2].shape[0])),
    floats(3, 2),
    dynamic=BATCH,
    sizes={"batch": (1, 4, 12)},
)
slices_that_may_be_empty = op(
    lambda x: (x[1:-1], torch.zeros_like(x[1:-1]), x[-4:2], x[2:-3], x[-1:1]),
    floats(6, 2),
    dynamic=BATCH,
    sizes={"batch": (1, 2, 3, 5, 9)},
)
slices_from_the_end = op(
    lambda x: (
        x[-(x.shape[0] // 2) :],
        x[-(x.shape[0] // 2) :: 2],
        x[: -(x.shape[0] // 2)],
        x[: x.shape[0] - 2],
        x[x.shape[0] - 5 :],
        x[-4::2],
        x[1::2],
    ),
    floats(6, 2),
    dynamic=BATCH,
    sizes={"batch": (1, 2, 3, 4, 5, 9)},
)
#: Sizes with which each axis is the longer one of some two in turn.
_OTHER_SIZES = {"a": (1, 3, 4, 3), "b": (5, 4, 2, 7), "c": (3, 2, 7, 3)}
#: A slice ends where the axis ends, also where its bound is a larger size.
slices_by_other_axes = op(
    lambda x: (
        torch.zeros(x[0, 0, : x.size(1)].size(0)),
        torch.arange(x[:, :, x.size(1) :].size(2)),
        x[:, :, : x.size(1)].numel() * x[:, :, : x.size(1)],
        torch.ones(x[:, :, 0 : x.size(1) : 2].size(2)),
        torch.ones(x[:, :, x.size(0) : x.size(1)].size(2)),
        torch.ones(x[:, :, -x.size(1) :].size(2)),
        torch.ones(x[:, :, : -x.size(1)].size(2)),
        torch.ones(x[:, : x.size(2) - 1].size(1)),
        torch.ones(x.view(-1)[x.size(1) : x.size(1) + x.size(2)].size(0)),
        (x[:, : x.size(0)] @ x[:, : x.size(0)].transpose(1, 2)).reshape(x.size(0), -1),
    ),
    floats(2, 3, 4),
    dynamic=ALL_AXES,
    sizes=_OTHER_SIZES,
)
#: Where an axis is empty, a bound of one less is negative, and counts from the end.
slices_beside_an_empty_axis = op(
    lambda x: (torch.ones(x[:, : x.size(2) - 1].size(1)), torch.ones(x[:, x.size(1) - 1 :].size(1))),
    floats(2, 3, 4),
    dynamic=ALL_AXES,
    sizes={"a": (2, 1, 2), "b": (3, 2, 0), "c": (0, 1, 3)},
)
slices_of_a_table = op(
    lambda x: (
        torch.ones(torch.arange(4)[: x.size(1)].size(0)),
        torch.ones(torch.arange(4)[x.size(1) :].size(0)),
        torch.ones(torch.arange(4)[-x.size(1) :].size(0)),
        torch.ones(torch.arange(4)[x.size(1) - 3 :].size(0)),
        torch.eye(4)[: x.size(1), : x.size(2)].reshape(-1),
    ),
    floats(2, 3, 4),
    dynamic=ALL_AXES,
    sizes=_OTHER_SIZES,
)
write_by_other_axes = op(
    lambda x: (
        y := x.clone(),
        y.__setitem__((..., slice(x.size(1))), 7.0),
        y.__setitem__((..., slice(x.size(1), None)), 5.0),
        y[:, x.size(0) : x.size(2)].mul_(2),
    )[0],
    floats(2, 3, 4),
    dynamic=ALL_AXES,
    sizes=_OTHER_SIZES,
)
#: Half of the second axis is 1 in the example, as long as an axis that broadcasts.
half_is_one = op(
    lambda x: (
        x[:, :, : x.size(1) // 2].transpose(1, 2).reshape(-1, x.size(1)),
        x.transpose(0, 1)[: x.size(1) // 2].reshape(-1, x.size(2)),
    ),
    floats(2, 3, 4),
    dynamic=ALL_AXES,
    sizes={"a": (1, 3, 4), "b": (5, 4, 7), "c": (3, 2, 7)},
)
#: All rows but the first are one row in the example, which is no axis that broadcasts.
all_but_one = op(
    lambda x: (
        torch.stack([x[1:], x[:-1]]),
        torch.lerp(x[1:], x[:-1], 0.5),
        x[1:].expand(3, x.size(0) - 1, x.size(1)),
        x[1:].unsqueeze(0).sum(0).cumsum(0).flip(0).repeat(2, 1),
        x.clone().index_put_((torch.arange(1, x.size(0)),), x[:-1]),
        x[1:].masked_fill(x[:-1] > 0, 2.0),
        x.diff(dim=0),
        F.mse_loss(x[1:], x[:-1]),
        torch.atan2(x[1:], x[:-1]).clamp(min=x[:-1], max=x[1:] + 1),
        torch.einsum("ij,kj->ik", x[1:], x),
        x[1:].std(0, unbiased=False),
        x[1:].sort(0)[0].argmax(0),
    ),
    floats(2, 4),
    dynamic={"x": {0: "rows", 1: "columns"}},
    sizes={"rows": (3, 5, 6), "columns": (4, 2, 5)},
)
write_at_sizes = op(
    lambda x: (
        x := x.clone(),
        x.__setitem__(x.shape[0] // 2 - 1, 7.0),
        x.__setitem__(slice(x.shape[0] - 4, None), 5.0),
        x.__setitem__(slice(-1, None), 3.0),
        x,
    )[-1],
    floats(6, 2),
    dynamic=BATCH,
    sizes={"batch": (1, 2, 3, 9)},
)
write_between = op(
    lambda x: (
        x := x.clone(),
        x.__setitem__(slice(2, 4), 3.0),
        x.__setitem__(slice(1, -1), 4.0),
        x.__setitem__(slice(-4, 2), 5.0),
        x[-3:-1].mul_(2),
        x[:-2].add_(1),
        x,
    )[-1],
    floats(6, 2),
    dynamic=BATCH,
    sizes={"batch": (1, 2, 3, 4, 9)},
)
write_every_other = op(
    lambda x: (x := x.clone(), x.__setitem__(slice(1, None, 2), 7.0), x.__setitem__(slice(-4, None, 2), 5.0), x)[-1],
    floats(6, 2),
    dynamic=BATCH,
    sizes={"batch": (1, 2, 3, 9)},
)
pad_to_multiple = op(
    lambda x: F.pad(x, (0, 0, 0, (4 - x.shape[0] % 4) % 4)), floats(5, 2), dynamic=BATCH, sizes={"batch": (1, 7, 8)}
)
pad_to_length = op(
    lambda x: F.pad(x, (0, 10 - x.shape[1])), floats(3, 4), dynamic={"x": {1: "width"}}, sizes={"width": (1, 9)}
)
least_of_sizes = op(
    lambda x: (x[: torch.sym_min(x.shape[0], 3)], torch.zeros(torch.sym_max(x.shape[0], 4))),
    floats(5, 2),
    dynamic=BATCH,
)
floor_of_size = op(lambda x: x[: math.floor(x.shape[0] * 0.5)], floats(4, 3), dynamic=BATCH, sizes={"batch": (2, 7)})
size_as_number = op(
    lambda x: (x * x.shape[0] / x.numel(), x * (x.shape[0] / 2), x * x.shape[1] ** 0.5 + x.shape[0] / x.shape[1]),
    floats(3, 4),
    dynamic={"x": {0: "batch", 1: "width"}},
)
size_as_tensor = op(
    lambda x: (torch.tensor(x.shape[0]), torch.tensor([x.shape[0], x.shape[1]]), torch.tensor([[x.shape[0], 0.5]])),
    floats(3, 4),
    dynamic=BATCH,
)
doubled_shape = op(lambda x: torch.as_tensor(x.shape) * 2, floats(3, 4), dynamic=BATCH)
split_in_sections = op(torch.tensor_split, floats(7, 2), sections=[2, 3], dynamic=BATCH)
split_at_constants = op(torch.tensor_split, floats(7, 2), indices=[(1, 3)], dynamic=BATCH)
split_at_places = op(torch.tensor_split, floats(7, 2), given([1, 3]), dynamic={"x0": {0: "batch"}})
split_by_size = op(lambda x: x.split([x.shape[0] - 2, 2]), floats(6, 2), dynamic=BATCH, sizes={"batch": (3, 9)})
top_half = op(lambda x: x.topk(x.shape[0] // 2, dim=0), distinct(6, 3), dynamic=BATCH, sizes={"batch": (2, 9)})
repeat_by_size = op(lambda x: x.repeat(x.shape[0], 1), floats(3, 2), dynamic=BATCH)
chunk_of_a_size = op(
    lambda x: (torch.cat(x.chunk(3)[::-1]), [part.sum(0) for part in x.chunk(2)]),
    floats(5, 4),
    dynamic=BATCH,
    sizes={"batch": (3, 6, 9)},
)
chunks_by_size = op(
    lambda x: torch.cat([part.flip(0) for part in x.chunk(math.ceil(x.shape[0] / 4))]),
    floats(6, 4),
    dynamic=BATCH,
    sizes={"batch": (5, 7, 8)},
)
bins_by_size = op(
    lambda x: (F.adaptive_max_pool2d(x, (x.shape[1] // 2, x.shape[2] // 3 + 1)), F.adaptive_max_pool1d(x[0], 3)),
    floats(2, 6, 7),
    dynamic={"x": {1: "height", 2: "width"}},
    sizes={"height": (1, 2, 3, 11), "width": (1, 2, 13)}, without_nan="onnxruntime's MaxPool leaves NaN out",
)  # fmt: skip
windows_by_size = op(
    lambda x: (x.unfold(0, x.shape[0] // 2, 1), x.unfold(0, x.shape[0] // 2, x.shape[0] // 2), x.unfold(1, 2, 1)),
    floats(6, 4),
    dynamic=BATCH,
    sizes={"batch": (2, 3, 11)},
)
real_numbers_of_sizes = op(
    lambda x: (x + (x.shape[0] * 2.5 // 4), x[: int(x.shape[0] * 1.5 // 2.0)], x + ((x.shape[0] > 3) ^ True)),
    floats(6, 4),
    dynamic=BATCH,
    sizes={"batch": (1, 3, 7)},
)
chunk_of_a_multiple = op(
    lambda x: [part - x for part in torch.cat([x, x * 2, x * 3]).chunk(3)], floats(3, 4), dynamic=BATCH
)
cached_mask = op(
    lambda x, past: torch.ones(x.shape[0], x.shape[0] + past.shape[0]).tril(past.shape[0]).triu(1 - x.shape[0]),
    floats(3, 2),
    floats(4, 2),
    dynamic={"x0": {0: "queries"}, "x1": {0: "past"}},
)
#: Windows of 4 pixels, cut from images whose sides need not be multiples of 4.
windows = op(
    lambda x: (
        F.pad(x, (0, 0, 0, -x.shape[2] % 4, 0, -x.shape[1] % 4))
        .unflatten(1, (-1, 4))
        .unflatten(3, (-1, 4))
        .transpose(2, 3)
        .flatten(3, 4)
    ),
    floats(2, 6, 9, 3),
    dynamic={"x": {0: "batch", 1: "height", 2: "width"}},
    sizes={"height": [4, 7], "width": [8, 5]},
)
triangle = op(lambda x: torch.tril(torch.ones(x.shape[0], x.shape[0], dtype=x.dtype)) @ x, floats(3, 2), dynamic=BATCH)
resize_by_size = op(
    lambda x: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 1)),
    floats(1, 2, 4, 5),
    dynamic={"x": {2: "height", 3: "width"}},
)
one_in_the_example = op(lambda x: x / x.sum(0, keepdim=True), floats(1, 4), dynamic=BATCH)
none_in_the_example = op(lambda x: torch.cat([x, torch.ones(2, 4)]), floats(0, 4), dynamic=BATCH)

# --- numbers read from tensors ----------------------------------------------------------------------------------------


def write_row_and_column(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[i] = 7.0
    x[:, i].add_(1)
    return x


at_place = op(lambda x, i: (x[i], x[:, i], x[..., i, :], x[i, i]), floats(4, 5), i=ints(low=-4, high=4))
at_place_dynamic = op(
    lambda x, i: x[i], floats(4, 5), ints(low=-2, high=2), dynamic={"x0": {0: "batch"}}, sizes={"batch": (2, 6)}
)
write_at_place = op(write_row_and_column, floats(4, 5), ints(high=4))
write_at_last_place = op(write_row_and_column, floats(4, 5), given(-1))
write_up_to_place = op(
    lambda x, i: (
        x := x.clone(),
        x.__setitem__(slice(i, i + 1), 7.0),
        x.__setitem__((slice(None), slice(i - 1, i + 1)), 5.0),
        x,
    )[-1],
    floats(4, 5),
    ints(low=-2, high=3),
)
windows_of_computed_sizes = op(
    lambda x: (
        F.avg_pool2d(x, max(1, round(min(x.shape[2:]) / 4))),
        F.max_pool2d(x, (2, x.shape[3] // 2), stride=(1, x.shape[3] // 2)),
        F.avg_pool1d(x.flatten(2), x.shape[2] // 3),
    ),
    floats(2, 3, 9, 8),
    dynamic={"x": {0: "batch", 2: "height", 3: "width"}},
    sizes={"batch": (1, 5), "height": (3, 7, 31), "width": (2, 5, 13)},
    without_nan=_NAN_LEFT_OUT,
)
paddings_of_computed_sizes = op(
    lambda x: (
        F.avg_pool2d(x, 2, padding=[size % 2 for size in x.shape[2:]]),
        F.max_pool2d(x, 3, stride=1, padding=x.shape[2] % 2),
    ),
    floats(2, 3, 6, 4),
    dynamic={"x": {0: "batch", 2: "height", 3: "width"}},
    sizes={"batch": (0, 1, 5), "height": (3, 7, 8), "width": (5, 4, 13)},
    without_nan=_NAN_LEFT_OUT,
)
up_to_place = op(
    lambda x, n: (x[:n], x[n:], x[:, : n.item()]), floats(5, 6), ints(low=1, high=5), dynamic={"x0": {0: "batch"}}
)
up_to_place_of_narrow_integers = op(
    lambda x, n, m: (x[: n.item()], torch.zeros(m.item(), 2), x * n.item()),
    floats(5, 6),
    ints(low=1, high=5, dtype=torch.int32),
    ints(low=1, high=5, dtype=torch.uint8),
)
narrow_at_place = op(lambda x, n: (x.narrow(0, n, 2), torch.narrow(x, 1, n, 1)), floats(5, 6), ints(low=0, high=3))
made_by_number = op(
    lambda x, n: (torch.zeros(n.item(), x.shape[1]), torch.ones(n), x.new_full((n, 2), 3.0), torch.arange(n * 2 + 1)),
    floats(3, 4),
    ints(low=1, high=5),
    dynamic={"x0": {1: "width"}},
)
mask_of_lengths = op(
    lambda lengths: torch.arange(lengths.max().item())[None] < lengths[:, None],
    ints(4, low=1, high=7),
    dynamic=BATCH,
)
arithmetic_of_numbers = op(
    lambda x, n: x * n.item() + n.item() // 2 + (n.item() + 1) / 2, floats(3, 4), ints(low=1, high=9)
)
listed_numbers = op(
    lambda x, n: (x * n.tolist()[0][0] + n.tolist()[1][1], torch.zeros(n.tolist()[0]), x.sum(1).tolist()[1] + x),
    floats(3, 4),
    ints(2, 2, low=1, high=5),
)
split_by_counts = op(
    lambda x, groups: torch.cat(
        [
            rows * (group + 1)
            for group, rows in enumerate(
                x[groups.argsort(stable=True)].split(F.one_hot(groups, 3).sum(0).tolist(), dim=0)
            )
        ]
    ),
    floats(6, 4),
    ints(6, high=3),
    dynamic=BATCHES,
)
between_numbers = op(
    lambda x, i, n: (x[i : i + n], torch.arange(i, i + n), torch.full((n, 2), i.item() + 0.5), x[i, n:], x[-n:]),
    floats(9, 6),
    ints(high=4),
    ints(low=1, high=5),
)
real_number = op(lambda x, y: x * y.item() + x.sum().item() / 2, floats(3, 4), floats())
numbers_into_tensor = op(
    lambda x: torch.tensor([x[0, 0], x[1, 1], 2.0]) * torch.tensor([x[0, 1].item()] * 3), floats(2, 3)
)
one_hot_of_greatest = op(F.one_hot, ints(3, 4, high=6))
repeat_number = op(lambda x, n: x.repeat(n, 1), floats(2, 3), ints(low=1, high=4))

# --- data-dependent sizes ---------------------------------------------------------------------------------------------

nonzero_then = op(
    lambda x: (torch.zeros(x.nonzero().shape[0]) + 1, x.nonzero().sum(0)), numbers(4, 5, low=-1, high=2), dynamic=BATCH
)
masked_rows = op(
    lambda x, w: (torch.softmax(x[x[:, 0] > 0], 0) @ w, x[x[:, 0] > 0].view(-1, 2, 2)),
    floats(6, 4),
    floats(4, 2),
    dynamic={"x0": {0: "batch"}},
)
parted_and_joined = op(lambda x: torch.cat([x[x[:, 0] > 0], x[x[:, 0] <= 0]]), floats(6, 4), dynamic=BATCH)
top_of_masked = op(lambda x: x[x > -99].topk(3), distinct(6, 2), dynamic=BATCH, sizes={"batch": (2, 9)})
repeat_interleave_by_values = op(
    lambda x, repeats: x.repeat_interleave(repeats, 0), floats(4, 3), ints(4, high=4), dynamic=BATCHES
)
unique_of_a_batch = op(
    lambda x: torch.unique(x, return_inverse=True, return_counts=True), ints(8, high=5), dynamic=BATCH
)
masked_select_by_a_row = op(
    lambda x, m: (torch.masked_select(x, m), x.masked_select(x[:, :1] > 0)),
    floats(4, 3),
    bools(1, 3),
    dynamic={"x0": {0: "batch"}},
)
#: The size of one of the two may be 1, or that of the other.
masked_select_of_one_or_more = op(
    torch.masked_select, floats(4, 3), bools(4, 3), dynamic={"x0": {0: "batch"}}, sizes={"batch": [1, 4]}
)
masked_mean = op(lambda x, m: (x[m].sum() / m.sum(), x[m].shape[0] * x), floats(4, 3), bools(4, 3), dynamic=BATCHES)

# --- writes in place, and checks --------------------------------------------------------------------------------------

divided_in_place = op(
    lambda x, y, mode: ((x * 1).div_(y, rounding_mode=mode), (x + 1).divide_(0.3, rounding_mode=mode)),
    floats(3, 4),
    y=[floats(4, low=0.5), 0.7],
    mode=["floor", "trunc"],
    dynamic={"x": {0: "batch"}},
    sizes={"batch": (0, 1, 7)},
)
resized = op(
    lambda x: (x.new_empty(0).resize_(x.shape[0], 2).fill_(1), x.new_empty(0).resize_as_(x).copy_(x * 2)),
    floats(3, 4),
    dynamic=BATCH,
    sizes={"batch": (0, 1, 7)},
)
shrunk = op(lambda x: (x * 1).resize_(x.shape[0] // 2, 4), floats(4, 4), dynamic=BATCH, sizes={"batch": (1, 7)})
checked = op(
    lambda x: (torch._is_all_true(x > -9), torch._is_any_true(x > 0.5)),
    floats(3, 4),
    dynamic=BATCH,
    sizes={"batch": (0, 1, 7)},
)

# --- functions and methods that torch and Python have in C ------------------------------------------------------------

numbers_of_shapes = op(
    lambda x: (x * x.shape.numel(), x.reshape(x.shape.numel()), x / (x.shape[1:].numel() + x.numel())),
    floats(3, 4),
    dynamic={"x": {0: "a", 1: "b"}},
    sizes={"a": (0, 1, 7), "b": (1, 5)},
)
imported_by_name = op(lambda x: x * sqrt(x.shape[0]), floats(3, 4), dynamic=BATCH, sizes={"batch": (0, 1, 7)})
causal_if_several = op(
    lambda x: scaled_dot_product_attention(x, x, x, is_causal=x.shape[-2] > 1),
    floats(2, 3, 4),
    dynamic={"x": {0: "batch", 1: "length"}},
    sizes={"batch": (1, 3), "length": (1, 7)},
    without_nan="torch's kernels of attention differ about NaN",
)
divisors_and_roots_of_sizes = op(
    lambda x: (x * math.gcd(x.shape[0], 12) + math.gcd(-2, x.shape[1]), x.new_ones(math.isqrt(x.numel()))),
    floats(4, 3),
    dynamic={"x": {0: "a", 1: "b"}},
    sizes={"a": (0, 1, 6, 9, 12), "b": (1, 8)},
)
bits_of_sizes = op(
    lambda x: (x * (x.shape[0] ^ x.shape[1]), x + (x.shape[0] | x.shape[1]), x[: x.shape[0] & x.shape[1]]),
    floats(6, 5),
    dynamic={"x": {0: "a", 1: "b"}},
    sizes={"a": (0, 1, 7), "b": (1, 8)},
)
next_powers_of_two = op(
    lambda x: (F.pad(x, (0, (1 << x.shape[1].bit_length()) - x.shape[1])), x * (-x.shape[0]).bit_length()),
    floats(4, 5),
    dynamic={"x": {0: "a", 1: "b"}},
    sizes={"a": (0, 1, 7), "b": (1, 3, 4, 8)},
)

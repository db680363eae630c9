"""Views, permutations and copies, and operators that rearrange elements."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import BATCH, IEEE_FLOATS, bools, distinct, floats, ints, numbers, op

# --- views ------------------------------------------------------------------------------------------------------------

#: One dtype of each kind.
_ONE_OF_EACH = [torch.float32, torch.int64, torch.bool]


def viewed(x: torch.Tensor, size: tuple[int, ...]) -> torch.Tensor:
    return x.view(size)


view = op(viewed, floats(2, 3, 4), size=[(6, 4), (2, 12), (-1,), (4, -1, 2), (1, 24), (2, 3, 4)])
#: NaN and infinities are moved as other elements are.
moving_of_edges = op(
    lambda x: (
        x.view(x.shape[0], 2, 2),
        x.reshape(-1),
        x.transpose(0, -1),
        x.permute(-1, 0),
        x.flip(-1),
        x.roll(1, -1),
        x.unsqueeze(-2).expand(-1, 2, -1),
        x.movedim(-1, 0),
        x.swapaxes(-1, 0),
        x.unfold(-1, 2, 1),
    ),
    floats(3, 4, special=(math.nan, math.inf, -math.inf, math.nan)),
    dtypes=IEEE_FLOATS,
    dynamic=BATCH,
)
view_of_dynamic = op(lambda x: x.view(x.size(0), -1), floats(2, 3, 4), dynamic=BATCH)
bits_of_floats = op(
    lambda x, dtype: x.view(dtype), floats(3, 4), dtype=[torch.int32, torch.uint8, torch.float16, torch.int64]
)
bits_as_floats = op(lambda x, dtype: x.view(dtype), ints(3, 4, low=-9), dtype=[torch.float64, torch.bfloat16])
bits_of_integers = op(
    lambda x, dtype: x.view(dtype),
    ints(3, 8, low=-100, high=100, dtype=torch.int16),
    dtype=[torch.uint16, torch.int8, torch.int32, torch.int64],
)
bits_of_bools = op(lambda x: x.view(torch.uint8), bools(5))
bits_of_dynamic = op(lambda x: x.view(torch.int32), ints(3, 2, low=-9), dynamic={"x": {0: "batch", 1: "time"}})
view_merging_dynamic = op(lambda x: x.view(-1, x.shape[-1]), floats(2, 3, 4), dynamic={"x": {0: "batch", 1: "time"}})
view_splitting_dynamic = op(
    lambda x: x.view(x.shape[0], x.shape[1], 2, 2), floats(2, 3, 4), dynamic={"x": {0: "batch", 1: "time"}}
)
view_as = op(lambda x, other: x.view_as(other), floats(2, 6), other=floats(3, 4))
view_of_nothing = op(viewed, floats(0, 3), size=[(3, 0), (0,), (2, 0, 5)])
view_of_scalar = op(viewed, floats(), size=[(1,), (1, 1), ()])
reshape = op(torch.reshape, numbers(2, 3, 4), shape=[(6, 4), (24,), (-1, 3)], dtypes=_ONE_OF_EACH)
reshape_of_transposed = op(lambda x: x.t().reshape(-1), floats(2, 3), dynamic=BATCH)
reshape_as = op(lambda x, other: x.reshape_as(other), floats(2, 6), other=floats(3, 4))
flatten = op(
    torch.flatten,
    floats(2, 3, 4, 5),
    rows=[{}, {"start_dim": 1}, {"start_dim": -2}, {"start_dim": 1, "end_dim": 2}],
    dynamic=BATCH,
)
flatten_scalar = op(torch.flatten, floats())
flatten_module = op(nn.Flatten, floats(2, 3, 4), rows=[{}, {"start_dim": 0, "end_dim": -2}])
unflatten = op(
    lambda x, dim, sizes: x.unflatten(dim, sizes),
    floats(6, 4),
    rows=[{"dim": 0, "sizes": (2, 3)}, {"dim": -1, "sizes": (2, -1)}],
)
ravel = op(torch.ravel, floats(2, 3))
squeeze = op(
    torch.squeeze, floats(1, 3, 1), rows=[{}, {"dim": 0}, {"dim": 1}, {"dim": -1}, {"dim": (0, 2)}, {"dim": (0, 1)}]
)
squeeze_ = op(lambda x: (x * 2).squeeze_(0), floats(1, 3))
unsqueeze = op(torch.unsqueeze, floats(2, 3), dim=[0, 1, 2, -1, -3], dynamic=BATCH)
unsqueeze_scalar = op(torch.unsqueeze, floats(), dim=[0, -1])
expand = op(
    lambda x, size: x.expand(size),
    numbers(3, 1),
    size=[(3, 4), (2, 3, 4), (-1, 4), (2, -1, -1), (3, 1)],
    dtypes=[torch.float32, torch.bool, torch.int64],
)
expand_scalar = op(lambda x: x.expand(2, 3), floats())
expand_dynamic = op(lambda x: x[:, None].expand(-1, 4, -1), floats(2, 3), dynamic=BATCH)
expand_as = op(lambda x, other: x.expand_as(other), floats(1, 3), other=floats(2, 3), dynamic={"other": {0: "batch"}})
broadcast_tensors = op(torch.broadcast_tensors, floats(3, 1), floats(1, 4))
t = op(torch.t, floats(2, 3), dynamic=BATCH)
t_of_vector = op(torch.t, floats(3))
t_of_many = op(torch.t, floats(6, 7, special=(math.nan, -math.inf, -0.0)))
transpose = op(
    torch.transpose,
    floats(2, 3, 4),
    rows=[{"dim0": 0, "dim1": 1}, {"dim0": -1, "dim1": 0}, {"dim0": 1, "dim1": 1}],
    dynamic=BATCH,
)
transpose_ = op(lambda x: (x + 1).transpose_(0, 1), floats(2, 3))
swapaxes = op(torch.swapaxes, floats(2, 3, 4), axis0=0, axis1=-1)
permute = op(torch.permute, floats(2, 3, 4), dims=[(2, 0, 1), (0, -1, 1), (0, 1, 2)], dynamic=BATCH)
movedim = op(
    torch.movedim, floats(2, 3, 4), rows=[{"source": 0, "destination": -1}, {"source": (0, 2), "destination": (1, 0)}]
)
mT = op(lambda x: x.mT, floats(2, 3, 4))
size = op(lambda x: x + x.size(0) * x.shape[1], floats(2, 3), dynamic={"x": {0: "rows", 1: "columns"}})
shape_as_tensor = op(lambda x: torch.tensor(x.shape) + 0 * x.sum().long(), floats(2, 3))
numel = op(lambda x: x / x.numel(), floats(2, 3), dynamic=BATCH)
copies = op(
    lambda x: (x.clone(), x.contiguous(), x.detach() + 0), numbers(2, 3), dtypes=[torch.float32, torch.int8, torch.bool]
)


def _normalized(x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, x.mean((0, 2)), x.var((0, 2)))


def _normalized_in_training(x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, training=True)


def _pooled(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool1d(x, 2)


def _added_in_part(x: torch.Tensor) -> torch.Tensor:
    return torch.lerp(torch.zeros(x.shape, dtype=x.dtype), x, 0.3)


# Their results lie in memory in the order of their axes, whatever the tensor, so that `view` takes them.
viewed_after_transposition = op(
    lambda x, f: f(x.transpose(1, 2)).view(2, -1),
    floats(2, 4, 5),
    f=[_normalized, _normalized_in_training, _pooled, _added_in_part, torch.diagonal_copy, torch.squeeze_copy],
    dynamic={"x": {1: "steps"}},
    sizes={"steps": (2, 7)},
    without_nan="onnxruntime's MaxPool leaves NaN out",
)

viewed_after_norm_of_transposed_images = op(
    lambda x, axes: F.batch_norm(x.transpose(*axes), None, None, training=True).view(-1),
    floats(2, 3, 3, 4),
    axes=[(1, 2), (2, 3), (0, 2)],
)

# --- operators that rearrange elements --------------------------------------------------------------------------------

flip = op(torch.flip, numbers(2, 3, 4), dims=[(0,), (0, 2), (-1, 1), ()], dtypes=_ONE_OF_EACH)
flip_dynamic = op(torch.flip, floats(2, 3), dims=(0, 1), dynamic=BATCH)
fliplr = op(torch.fliplr, floats(2, 3))
roll = op(
    torch.roll,
    floats(3, 4),
    rows=[{"shifts": 1}, {"shifts": -2, "dims": 0}, {"shifts": (1, 5), "dims": (0, -1)}, {"shifts": 0, "dims": 1}],
)
roll_dynamic = op(torch.roll, floats(3, 4), shifts=[2, -1], dims=0, dynamic=BATCH)
roll_flat_dynamic = op(torch.roll, floats(3, 4), shifts=2, dynamic=BATCH)
rot90 = op(torch.rot90, floats(2, 3), k=[1, 2, 3, -1])
rot90_of_axes = op(torch.rot90, floats(2, 3, 4), k=1, dims=[(-1, 0), (0, -2)])
tril = op(torch.tril, floats(2, 3, 4, special=(float("nan"), float("inf"))), diagonal=[0, 1, -1, 5, -5])
triu = op(torch.triu, floats(4, 3, special=(float("nan"), float("-inf"))), diagonal=[0, 1, -1, 5, -5])
triangles_of_ints = op(
    lambda x: (torch.tril(x), torch.triu(x, 1)),
    numbers(3, 3),
    dtypes=[torch.int64, torch.int32, torch.uint8, torch.bool, torch.float16],
)
triangles_dynamic = op(lambda x: (x.tril(), x.triu(1)), floats(3, 4), dynamic={"x": {0: "rows", 1: "columns"}})
causal_mask = op(lambda x: torch.ones(x.shape[0], x.shape[0]).tril().bool() & (x > 0), floats(3, 1), dynamic=BATCH)
diagonal = op(
    torch.diagonal,
    floats(3, 4, 5),
    rows=[{}, {"offset": 1, "dim1": -2, "dim2": -1}, {"offset": -2}, {"dim1": 2, "dim2": 0}, {"offset": 7}],
)
diagonal_dynamic = op(torch.diagonal, floats(3, 3), dynamic={"x": {1: "columns"}}, sizes={"columns": [3, 5, 8]})
diag = op(
    torch.diag,
    rows=[{"input": floats(3)}, {"input": floats(3), "diagonal": -1}, {"input": floats(3, 4), "diagonal": 1}],
)
diag_embed = op(
    torch.diag_embed,
    floats(2, 3, special=(float("nan"), float("inf"))),
    rows=[{}, {"offset": 1}, {"offset": -2}, {"dim1": 0, "dim2": 2}, {"dim1": -1, "dim2": 0}],
    dynamic=BATCH,
)
diag_embed_ints = op(torch.diag_embed, numbers(3), dtypes=[torch.int64, torch.bool, torch.int8])
unfold = op(
    lambda x, **how: x.unfold(**how),
    floats(2, 7),
    rows=[
        {"dimension": 1, "size": 3, "step": 1},
        {"dimension": -1, "size": 2, "step": 3},
        {"dimension": 0, "size": 1, "step": 1},
        {"dimension": 1, "size": 7, "step": 2},
    ],
)
unfold_dynamic = op(
    lambda x: x.unfold(1, 3, 2), floats(2, 7), dynamic={"x": {0: "batch", 1: "time"}}, sizes={"time": [3, 4, 9]}
)
im2col = op(
    F.unfold,
    floats(2, 3, 5, 6),
    rows=[
        {"kernel_size": 2},
        {"kernel_size": (3, 2), "padding": 1},
        {"kernel_size": 2, "stride": 2, "dilation": 2},
        {"kernel_size": (2, 3), "stride": (1, 2), "padding": (0, 1)},
    ],
    dynamic=BATCH,
)
im2col_dynamic = op(F.unfold, floats(1, 2, 5, 6), kernel_size=2, padding=1, dynamic={"x": {2: "height", 3: "width"}})
im2col_unbatched = op(F.unfold, floats(3, 5, 6), kernel_size=2)
unfold_module = op(nn.Unfold, floats(2, 3, 5, 6), kernel_size=2)
pixel_shuffle = op(F.pixel_shuffle, floats(2, 8, 3, 4), upscale_factor=[1, 2], dynamic={"x": {0: "batch", 2: "height"}})
# torch returns an empty tensor as it is, with the shape that it had.
pixel_unshuffle = op(F.pixel_unshuffle, floats(2, 3, 4, 6), downscale_factor=2, dynamic=BATCH, sizes={"batch": [1, 5]})
channel_shuffle = op(F.channel_shuffle, floats(2, 6, 3, 4), groups=[2, 3])
meshgrid = op(
    lambda x, y, indexing: torch.meshgrid(x, y, indexing=indexing), floats(3), floats(2), indexing=["ij", "xy"]
)
as_strided = op(
    lambda x, size, stride, offset: x.as_strided(size, stride, offset),
    distinct(12),
    rows=[
        {"size": (3, 2), "stride": (2, 4), "offset": 1},
        {"size": (5, 3), "stride": (1, 1), "offset": 0},
        {"size": (), "stride": (), "offset": 4},
    ],
    without_nan="the copy that has a NaN does not lie as the input does",
)
as_strided_of_dynamic_sizes = op(
    lambda x: (
        x.as_strided((x.shape[0] - 1, 2, x.shape[1]), (x.shape[1], x.shape[1], 1)),
        x.reshape(-1).as_strided((x.shape[1], x.shape[0]), (1, x.shape[1])),
    ),
    distinct(4, 3),
    dynamic={"x": {0: "rows", 1: "columns"}},
    sizes={"rows": (2, 7), "columns": (1, 5)},
)


def _through_dlpack(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    own = x + 1
    shared = torch.utils.dlpack.from_dlpack(own)
    shared.mul_(2)
    return own, torch.utils.dlpack.from_dlpack(x, copy=True) * 2


from_dlpack = op(_through_dlpack, floats(3, 4), dynamic={"x": {0: "rows"}})
as_strided_of_as_strided = op(
    lambda x: (
        x[1:].as_strided((2, 2), (2, 1)).as_strided((2,), (3,)),
        x.t().as_strided((2, 3), (1, 2)).as_strided((3, 2), (2, 1)),
        (x.as_strided((2, 3), (1, 2)) + 1).as_strided((3, 2), (1, 3)),
        x.as_strided((2, 3), (1, 2)).clone().as_strided((6,), (1,)),
        x[0].expand(3, 4).as_strided((2, 2), (1, 1)).as_strided((3,), (1,)),
    ),
    distinct(3, 4),
)
as_strided_of_as_strided_of_dynamic_sizes = op(
    lambda x: (
        x.as_strided((x.shape[0] // 2, 2), (2, 1)).as_strided((2, x.shape[0] // 2), (1, 2)),
        x.as_strided((x.shape[0], 2), (1, 0)) + 1,
    ),
    distinct(7),
    dynamic={"x": {0: "length"}},
)
as_strided_of_view = op(lambda x: x.t()[1:].as_strided((2, 3), (1, 4), 1), distinct(3, 4))
atleast = op(lambda x: (torch.atleast_1d(x), torch.atleast_2d(x), torch.atleast_3d(x)), floats())
to_mask = op(lambda x: x.reshape(-1).logical_not(), bools(2, 3))

flipped = op(lambda x: x.flip(0, 1), floats(3, 4), dynamic={"x": {0: "batch", 1: "length"}})
#: torch's types say that these return nothing.
_SPLIT_COPY: Any = torch.split_with_sizes_copy
_UNBIND_COPY: Any = torch.unbind_copy
#: Functions that copy, with the arguments of the views.
copies_along_axes = op(
    lambda x: (
        torch.diagonal_copy(x, 1, -2, 0),
        torch.narrow_copy(x, -2, 1, 2),
        *_SPLIT_COPY(x, [1, 3], -1),
        *_SPLIT_COPY(x, [1, 2], 1),
        *_UNBIND_COPY(x, -2),
        torch.unsqueeze_copy(x, -2),
        *torch.unsafe_chunk(x, 2, -1),
        *torch.unsafe_split(x, 2, -2),
        *torch.unsafe_split_with_sizes(x, [1, 3], -1),
        torch.concatenate([x, x], -2),
        torch.as_strided_copy(x, (2, 3), (4, 1), 5),
    ),
    floats(2, 3, 4),
)
diagonals_off_the_main = op(
    lambda x: (
        torch.diag(x[0], 1), torch.diag(x[0, 0], -2), torch.diagflat(x[0], -1),
        torch.linalg.diagonal(x, offset=-1, dim1=-3, dim2=1), x.diagonal(-1, 0, -1),
    ),
    floats(2, 3, 4),
)  # fmt: skip

"""Joining, splitting, repeating."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import BATCH, IEEE_FLOATS, MOVED_DTYPES, floats, given, ints, numbers, op


def stacked(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.hstack((x, y)), torch.vstack((x, y)), torch.dstack((x, y)), torch.column_stack((x, y))


cat = op(torch.cat, (numbers(2, 3), numbers(2, 3), numbers(2, 3)), dim=[0, 1, -1], dtypes=MOVED_DTYPES)
_EDGES = floats(3, 4, special=(math.nan, math.inf, -math.inf, math.nan))
#: NaN and infinities are moved as other elements are.
joining_of_edges = op(
    lambda x: (
        torch.cat((x, x * 2), -1),
        torch.stack((x, -x), -2),
        *x.split(3, -1),
        *x.unbind(-1),
        *x.chunk(2, -1),
        x.repeat(1, 2),
        x.repeat_interleave(2, -1),
    ),
    _EDGES,
    dtypes=IEEE_FLOATS,
    dynamic=BATCH,
)
cat_sizes = op(
    lambda x, y: torch.cat([x, y], 1),
    floats(2, 3),
    floats(2, 5),
    dynamic={"x0": {0: "batch", 1: "time"}, "x1": {0: "batch"}},
)
cat_promotes = op(lambda x, y: torch.cat([x, y]), floats(2, 3), ints(2, 3))
cat_empty = op(lambda x: torch.cat([torch.empty(0), x, x.new_empty(0, 3)]), floats(2, 3))
cat_empty_beside_blocks = op(lambda x, dim: torch.cat([x, torch.empty(0), x], dim), floats(2, 3, 2), dim=[1, -1])
cat_one = op(lambda x: torch.cat([x]), floats(2, 3))
concat = op(lambda x, y: (torch.concat((x, y), dim=-1), torch.concatenate((x, y))), floats(2, 3), floats(2, 3))
cat_with_constant = op(lambda x: torch.cat([torch.zeros(x.shape[0], 1), x], 1), floats(2, 3), dynamic=BATCH)
stack = op(torch.stack, (numbers(2, 3), numbers(2, 3)), dim=[0, 1, 2, -1], dtypes=MOVED_DTYPES)
stack_scalars = op(lambda x, y: torch.stack([x, y]), floats(), floats())
stacks = op(
    stacked,
    floats(2, 3),
    floats(2, 3),
)
stacks_of_vectors = op(
    stacked,
    floats(3),
    floats(3),
)
block_diag = op(torch.block_diag, floats(2, 3), floats(1, 2), floats(2))
split = op(
    torch.split,
    numbers(5, 4),
    rows=[
        {"split_size_or_sections": 2},
        {"split_size_or_sections": 5},
        {"split_size_or_sections": 2, "dim": -1},
        {"split_size_or_sections": (1, 4)},
        {"split_size_or_sections": (1, 0, 3), "dim": 1},
    ],
    dtypes=MOVED_DTYPES,
)
split_along_static = op(lambda x: (*x.split(2, 1), *x.split(3, 1)), floats(2, 5), dynamic=BATCH)
split_unsafely = op(lambda x: (torch.unsafe_split(x, 2, 1), x.unsafe_split_with_sizes([1, 4], 1)), floats(2, 5))
chunk = op(torch.chunk, floats(5, 4), chunks=[1, 2, 3, 7], dim=[0, -1])
tensor_split = op(
    torch.tensor_split,
    floats(5, 4),
    rows=[{"sections": 3}, {"indices": (1, 4), "dim": 0}, {"indices": (2,), "dim": -1}],
)
unbind = op(torch.unbind, numbers(3, 4), dim=[0, 1, -1], dtypes=MOVED_DTYPES)
unbind_dynamic = op(lambda x: x.unbind(1), floats(2, 3), dynamic=BATCH)
iterate = op(lambda x: sum(row * number for number, row in enumerate(x)), floats(3, 4))
repeat = op(
    lambda x, times: x.repeat(times), numbers(2, 3), times=[(1, 2), (2, 1, 3), (1, 1), (0, 2)], dtypes=MOVED_DTYPES
)
repeat_dynamic = op(lambda x: x.repeat(2, x.shape[0]), floats(2, 3), dynamic=BATCH)
repeat_scalar = op(lambda x: x.repeat(2, 3), floats())
tile = op(torch.tile, floats(2, 3), dims=[(2,), (1, 2), (2, 1, 2), ()], dynamic=BATCH)
repeat_interleave = op(
    torch.repeat_interleave,
    numbers(2, 3),
    rows=[{"repeats": 2}, {"repeats": 3, "dim": 0}, {"repeats": 2, "dim": -1}, {"repeats": 0, "dim": 1}],
    dtypes=MOVED_DTYPES,
)
repeat_interleave_dynamic = op(torch.repeat_interleave, floats(2, 3), repeats=2, dim=0, dynamic=BATCH)
repeat_interleave_counts = op(lambda x, repeats: x.repeat_interleave(repeats, 0), floats(3, 2), given([2, 0, 3]))
repeat_interleave_int32 = op(
    lambda x, repeats: x.repeat_interleave(repeats, 0), floats(3, 2), ints(3, high=4, dtype=torch.int32)
)
repeat_interleave_known = op(
    lambda x, repeats: x.repeat_interleave(repeats, 1, output_size=4), floats(2, 3), given([1, 0, 3])
)

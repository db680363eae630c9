"""Creating tensors: filled with a value, ranges; and casts to another dtype."""

from __future__ import annotations

import torch

from onnx_parity.harness.case import ALL_DTYPES, BATCH, bools, floats, given, ints, numbers, op, scripted


@scripted
def _doubled_or_more(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    return x * 2 if bool(count > 2) else x + 1


# --- filled -----------------------------------------------------------------------------------------------------------

full = op(lambda x, size, value: x + torch.full(size, value), floats(3, 4), size=[(3, 4), (4,), ()], value=[2, 0.5])
full_dtypes = op(lambda x, dtype: torch.full((9, 8), 3, dtype=dtype), floats(1), dtype=[*ALL_DTYPES])
full_inferred = op(lambda x: (torch.full((2,), 1), torch.full((2,), 1.5), torch.full((2,), True)), floats(1))
full_of_batch = op(lambda x: torch.full((x.shape[0], 2), 7.0), floats(3, 4), dynamic=BATCH)
full_like = op(torch.full_like, numbers(9, 8), fill_value=1, dtypes=ALL_DTYPES, dynamic=BATCH)
full_like_dtype = op(torch.full_like, floats(3, 4), fill_value=2, dtype=[torch.int64, torch.float64, torch.bool])
new_full = op(lambda x: (x.new_full((2, 3), 5), x.new_ones(2), x.new_zeros(3)), numbers(1), dtypes=ALL_DTYPES)
#: So many that they are no constant of the model, of the dtypes of tensors without elements.
new_full_of_nothing = op(
    lambda x, value: [
        x.to(dtype).new_full((33, 32), value)
        for dtype in (x.dtype, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)
    ],
    numbers(0),
    value=[5, 1, 0],
)
ones = op(lambda x, dtype: torch.ones(2, 3, dtype=dtype), floats(1), dtype=[None, torch.int64, torch.bool])
zeros = op(lambda x, dtype: torch.zeros(0, 3, dtype=dtype), floats(1), dtype=[None, torch.int64, torch.bool])
ones_like = op(torch.ones_like, numbers(9, 8), dtypes=ALL_DTYPES, dynamic=BATCH)
zeros_like = op(torch.zeros_like, numbers(9, 8), dtypes=ALL_DTYPES, dynamic=BATCH)
_OWN = torch.arange(6.0).reshape(2, 3)
like_own_tensors = op(
    lambda x: (torch.full_like(_OWN, 2.5), x * torch.ones_like(_OWN * 2), torch.zeros_like(_OWN, dtype=torch.int64)),
    floats(2, 3),
)
like_own_tensors_beside_a_script = op(
    lambda x, count: (x + torch.ones_like(_OWN), _doubled_or_more(x, count)), floats(2, 3), ints(low=0, high=5)
)
fill_ = op(lambda x: ((x + 1).fill_(2.5), (x + 1).zero_(), torch.empty(2, 3).fill_(1)), floats(3, 4), dynamic=BATCH)
empty = op(lambda x: torch.empty(3, 4).copy_(x), floats(3, 4))

# --- ranges -----------------------------------------------------------------------------------------------------------

arange = op(
    lambda x, args, dtype: torch.arange(*args, dtype=dtype),
    floats(1),
    args=[(5,), (2, 9), (1, 10, 3), (7, -4, -2), (0, 0)],
    dtype=[None, torch.int64, torch.float32, torch.int32],
)
arange_fractional = op(lambda x, args: torch.arange(*args), floats(1), args=[(0.0, 1.0, 0.1), (2.5,), (-1, 1.0, 0.3)])
arange_of_size = op(lambda x: x + torch.arange(x.shape[0])[:, None], floats(3, 4), dynamic=BATCH)
arange_of_size_stepped = op(
    lambda x, dtype: torch.arange(2, 3 * x.shape[0], 3, dtype=dtype),
    floats(3, 4),
    dtype=[None, torch.float32, torch.int32],
    dynamic=BATCH,
)
dim_arange = op(torch._dim_arange, floats(3, 4), dim=[0, 1], dynamic=BATCH)
linspace = op(
    lambda x, start, end, steps: x + torch.linspace(start, end, steps)[:1],
    floats(1),
    start=[0, -1.5],
    end=[1, 7.25],
    steps=[1, 2, 5],
)
linspace_dtype = op(
    lambda x, dtype: torch.linspace(3, 20, 7, dtype=dtype), floats(1), dtype=[torch.int32, torch.float64]
)
linspace_tensors = op(lambda x, end: torch.linspace(x, end, 6), floats(), end=[floats(), 3.0])
#: The middle of an odd number of steps is computed from the end, which may be another number by a rounding.
linspace_middle = op(
    lambda x: (torch.linspace(x - 0.5, x + 0.5, 3) == x, torch.linspace(x, 3, 1) - x), given(0.266924113035202),
    dtypes=[torch.float32],
)  # fmt: skip
linspace_of_tensors = op(
    lambda x, dtype: (torch.linspace(x, 18, 6, dtype=dtype), torch.linspace(x, 11, 5, dtype=dtype)),
    given(-3.0),
    dtype=[torch.int64, torch.int32, torch.float64],
)
logspace = op(lambda x: torch.logspace(0, 2, 5, 2.0), floats(1))
scalar_tensor = op(lambda x: x + torch.tensor(2.5) * torch.tensor([1, 2, 3]), floats(3))
triangle_indices = op(
    lambda x, f, offset: f(3, 5, offset) + x.long(),
    floats(1),
    f=[torch.tril_indices, torch.triu_indices],
    offset=[0, -1, 2],
)

# --- casts ------------------------------------------------------------------------------------------------------------

to = op(lambda x, dtype: x.to(dtype), numbers(3, 4, low=0), dtype=[*ALL_DTYPES], dtypes=ALL_DTYPES)
to_truncates = op(
    lambda x, dtype: x.to(dtype), floats(3, 4, low=-9.0, high=9.0), dtype=[torch.int64, torch.int32, torch.int8]
)
to_wraps = op(lambda x, dtype: x.to(dtype), ints(9, low=-1000, high=1000), dtype=[torch.int8, torch.uint8, torch.int16])
to_other = op(lambda x, y: (x.to(y), x.type_as(y)), numbers(3, 4), y=[ints(1), floats(1), bools(1)])
to_named = op(lambda x: (x.float(), x.double(), x.half(), x.long(), x.int(), x.bool(), x.byte()), numbers(3, 4, low=0))
#: What a pair of casts rounds, or cuts off.
to_and_back = op(
    lambda x, y, z: (
        *(x.to(dtype).to(x.dtype) for dtype in (torch.float32, torch.float64, torch.int32, torch.int8)),
        *(y.to(dtype).to(y.dtype) for dtype in (torch.float16, torch.int64, torch.int32)),
        *(z.to(dtype).to(z.dtype) for dtype in (torch.float32, torch.int64)),
    ),
    ints(9, low=2**54, high=2**56),
    floats(9, low=-99.0, high=99.0),
    floats(9, low=-99.0, high=99.0, dtype=torch.float64),
)
to_device = op(lambda x: (x.to("cpu"), x.cpu(), x.to("cpu", torch.float64), x.contiguous()), floats(3, 4))

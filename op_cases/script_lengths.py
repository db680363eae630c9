"""TorchScript: branches on sizes, of which one side would fail with the sizes of the example.

Each is declared twice: the example takes one branch or the other. The models run at sizes of both branches, and of the
bound between them. The annotations are those that TorchScript's compiler needs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from onnx_parity.harness.case import floats, op, scripted

_AXES = {"x": {0: "rows", 1: "columns"}}
_SIZES = {"rows": (2, 1, 3, 5, 5), "columns": (4, 3, 5, 1, 7)}
_LONG, _SHORT = floats(2, 6), floats(2, 3)

# --- as long as needed ------------------------------------------------------------------------------------------------


@scripted
def cut_or_joined(x: Tensor) -> Tensor:
    if x.size(1) > 4:
        x = x[:, :4]
    elif x.size(1) < 4:
        x = torch.cat([x, x.new_zeros(x.size(0), 4 - x.size(1))], 1)
    return x.view(x.size(0), 2, -1).sum(-1)


@scripted
def padded(x: Tensor) -> Tensor:
    missing = 4 - x.size(1)
    if missing > 0:
        x = F.pad(x, [0, missing])
    return x.softmax(1)


@scripted
def padded_in_front(x: Tensor) -> Tensor:
    missing = 4 - x.size(1)
    if missing > 0:
        x = torch.cat([torch.full([x.size(0), missing], 2.5, dtype=x.dtype), x], dim=1)
    elif missing < 0:
        x = x[:, -missing:]
    return x.reshape(x.size(0), 4)


@scripted
def filled_up(x: Tensor) -> Tensor:
    if x.size(1) < 4:
        x = torch.cat([x, x[:, :1].expand(x.size(0), 4 - x.size(1)), x[:, :1].repeat(1, 4 - x.size(1))], 1)
    return x.sum(1)


@scripted
def written_into(x: Tensor) -> Tensor:
    y = torch.zeros(x.size(0), 4, dtype=x.dtype)
    if x.size(1) < 4:
        y[:, : x.size(1)] = x
    else:
        y = x[:, :4]
    return y


@scripted
def counted(x: Tensor) -> Tensor:
    if x.size(1) < 4:
        return torch.arange(4 - x.size(1)).to(x.dtype)
    return x[0]


@scripted
def made_square(x: Tensor) -> Tensor:
    missing = x.size(1) - x.size(0)
    x = F.pad(x, [0, 0, 0, missing]) if missing > 0 else F.pad(x, [0, -missing])
    return x @ x.t()


# --- long enough ------------------------------------------------------------------------------------------------------


@scripted
def last_four(x: Tensor) -> Tensor:
    if x.size(1) >= 4:
        x = x.narrow(1, x.size(1) - 4, 4)
    return x.sum(1)


@scripted
def windows(x: Tensor) -> Tensor:
    if x.size(1) >= 4:
        x = x.unfold(1, 4, 1).mean(1)
    return x


@scripted
def convolved(x: Tensor) -> Tensor:
    if x.size(1) >= 4 and x.size(0) > 0:
        x = F.conv1d(x.unsqueeze(1), torch.ones(1, 1, 4, dtype=x.dtype)).squeeze(1)
    return x.relu()


@scripted
def pooled(x: Tensor) -> Tensor:
    if not x.size(1) < 4:
        x = F.avg_pool1d(x.unsqueeze(1), 4).squeeze(1)
    return x


@scripted
def of_one_size(x: Tensor) -> Tensor:
    """A weight that fits one size only."""
    if x.size(1) == 4:
        return x @ torch.eye(4, dtype=x.dtype).cumsum(0)
    return x.sum(1, keepdim=True)


@scripted
def by_layout(x: Tensor) -> Tensor:
    if x.t().is_contiguous():
        return x * 2
    return x + 1


@scripted
def one_row(x: Tensor) -> Tensor:
    """An axis that is squeezed where it is known to be 1."""
    if x.size(0) == 1:
        return x.squeeze(0).unsqueeze(0) * 2
    return x - x.mean(0)


@scripted
def cut_square(x: Tensor) -> Tensor:
    if x.size(1) > x.size(0):
        x = x[:, : x.size(0)]
    elif x.size(1) < x.size(0):
        x = x[: x.size(1)]
    return x @ x


@scripted
def first_and_others(x: Tensor) -> Tensor:
    first, others = (x[:1], x[1:]) if x.size(0) > 1 else (x, x)
    return first + others


@scripted
def by_joined_conditions(x: Tensor) -> Tensor:
    if x.size(0) > 1 and x.size(1) > 2:
        y = x[1:, 2:]
    elif x.size(0) > 1 or x.size(1) > 4:
        y = x[-1:, :1]
    else:
        y = x.new_ones(1, 2)
    return y.sum(1)


@scripted
def made_even(x: Tensor) -> Tensor:
    if x.size(1) % 2 != 0:
        x = F.pad(x, [0, 1])
    return x.view(x.size(0), 2, -1).transpose(1, 2).reshape(x.size(0), -1)


# --- convolved as PyTorch's `padding="same"` --------------------------------------------------------------------------


@scripted
def same(x: Tensor) -> Tensor:
    """The numbers of a padding that are computed from sizes in a branch, and what is convolved after it."""
    needed = max(((x.size(1) + 1) // 2 - 1) * 2 + 3 - x.size(1), 0)
    if needed > 0:
        x = F.pad(x, [needed // 2, needed - needed // 2])
    return F.conv1d(x.unsqueeze(1), torch.ones(1, 1, 3, dtype=x.dtype), stride=2)


script_cut_or_joined = op(cut_or_joined, _LONG, dynamic=_AXES, sizes=_SIZES)
script_cut_or_joined_short = op(cut_or_joined, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_padded = op(padded, _LONG, dynamic=_AXES, sizes=_SIZES)
script_padded_short = op(padded, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_padded_in_front = op(padded_in_front, _LONG, dynamic=_AXES, sizes=_SIZES)
script_padded_in_front_short = op(padded_in_front, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_filled_up = op(filled_up, _LONG, dynamic=_AXES, sizes=_SIZES)
script_filled_up_short = op(filled_up, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_written_into = op(written_into, _LONG, dynamic=_AXES, sizes=_SIZES)
script_written_into_short = op(written_into, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_counted = op(counted, _LONG, dynamic=_AXES, sizes=_SIZES)
script_counted_short = op(counted, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_made_square = op(made_square, _LONG, dynamic=_AXES, sizes=_SIZES)
script_made_square_tall = op(made_square, floats(5, 3), dynamic=_AXES, sizes=_SIZES)
script_last_four = op(last_four, _LONG, dynamic=_AXES, sizes=_SIZES)
script_last_four_short = op(last_four, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_windows_if_long = op(windows, _LONG, dynamic=_AXES, sizes=_SIZES)
script_windows_if_long_short = op(windows, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_convolved = op(convolved, _LONG, dynamic=_AXES, sizes=_SIZES)
script_convolved_short = op(convolved, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_pooled = op(pooled, _LONG, dynamic=_AXES, sizes=_SIZES)
script_pooled_short = op(pooled, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_of_one_size = op(of_one_size, _LONG, dynamic=_AXES, sizes=_SIZES)
script_of_one_size_fitting = op(of_one_size, floats(2, 4), dynamic=_AXES, sizes=_SIZES)
script_same_padding = op(same, _LONG, dynamic=_AXES, sizes=_SIZES)
script_same_padding_odd = op(same, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_one_row = op(one_row, _LONG, dynamic=_AXES, sizes=_SIZES)
script_one_row_otherwise = op(one_row, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_branch_by_layout = op(
    by_layout, _LONG, dynamic=_AXES, sizes=_SIZES, without_nan="the copy that has a NaN does not lie as the input does"
)
script_cut_square = op(cut_square, _LONG, dynamic=_AXES, sizes=_SIZES)
script_cut_square_otherwise = op(cut_square, floats(5, 3), dynamic=_AXES, sizes=_SIZES)
script_first_and_others = op(first_and_others, _LONG, dynamic=_AXES, sizes=_SIZES)
script_first_and_others_otherwise = op(first_and_others, floats(5, 3), dynamic=_AXES, sizes=_SIZES)
script_by_joined_conditions = op(by_joined_conditions, _LONG, dynamic=_AXES, sizes=_SIZES)
script_by_joined_conditions_otherwise = op(by_joined_conditions, _SHORT, dynamic=_AXES, sizes=_SIZES)
script_made_even = op(made_even, _LONG, dynamic=_AXES, sizes=_SIZES)
script_made_even_otherwise = op(made_even, _SHORT, dynamic=_AXES, sizes=_SIZES)

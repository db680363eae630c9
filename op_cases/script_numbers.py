"""TorchScript: numbers that depend on values, given to operators that take numbers; sizes that depend on other axes.

The models run at other values and sizes too. The annotations are those that TorchScript's compiler needs.
"""

# TorchScript reads type comments, so these cannot stand in the functions.
# mypy: disable-error-code="call-overload, call-arg, no-any-return"

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import floats, ints, model, op, scripted

_ROWS = {"x": {0: "rows"}}

# --- tensors made of numbers ------------------------------------------------------------------------------------------


@scripted
def arange(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    total = float(x.abs().sum())
    return (
        torch.arange(total),
        torch.arange(-0.5, total, 0.75),
        torch.arange(1, int(total) + 1, 2, dtype=torch.float32),
        torch.arange(x.size(0), 0, -1),
    )


@scripted
def arange_of_tensor(x: Tensor) -> Tensor:
    return torch.arange(x.abs().sum())


@scripted
def linspace(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.linspace(0.0, float(x.sum()), 5),
        torch.linspace(0, 1, x.size(0)),
        torch.logspace(float(x.mean()), 1, 3),
    )


@scripted
def whole_places(count: Tensor) -> Tensor:
    return torch.linspace(0, 49, int(count), dtype=torch.int64)


@scripted
def written_diagonal(x: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    copy = torch.diag(x, int(offset))
    copy.add_(1)
    return x * 2, copy


@scripted
def windows(x: Tensor) -> tuple[Tensor, Tensor]:
    return (
        torch.hann_window(x.size(0)),
        torch.hann_window(int(x.abs().sum()) + 1, periodic=False),
    )


@scripted
def full(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    total = float(x.sum())
    return (
        torch.full([2, x.size(0)], total),
        torch.full([2], int(total)),
        torch.full_like(x, total),
        x.new_full([2], total),
        torch.full([2], total > 0),
    )


@scripted
def scalars(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    total = float(x.sum())
    return (
        torch.scalar_tensor(total * 2),
        torch.scalar_tensor(x.size(0)),
        torch.tensor([int(total), 2]),
        torch.tensor([[total, 2.0], [1.0, 0.5 * x.size(0)]]),
    )


@scripted
def written_to_out(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    total = float(x.abs().sum())
    one, many, filled, scalar = torch.empty([0]), torch.empty([0]), torch.empty([2, 3]), torch.empty([])
    torch.arange(total, out=one)
    torch.arange(1, int(total) + 1, 2, out=many)
    torch.full([2, 3], total, out=filled)
    torch.scalar_tensor(total, out=scalar)
    return one, many, filled, scalar


@scripted
def sized(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    count = int(x.abs().sum())
    rows = x.size(0)
    return (
        torch.zeros(count, 2) + count,
        torch.eye(rows),
        torch.zeros(rows).fill_(float(rows)),
        F.one_hot(torch.zeros([2], dtype=torch.int64), count + 1),
    )


script_arange = op(arange, floats(3, 4), dynamic=_ROWS)
script_arange_of_tensor = op(arange_of_tensor, floats(3, 4), dynamic=_ROWS)
script_linspace = op(linspace, floats(3, 4), dynamic=_ROWS)
script_whole_places = op(whole_places, ints(1, low=50, high=51))
script_written_diagonal = op(written_diagonal, floats(4, 5), ints(1, low=-2, high=3))
script_window = op(windows, floats(3, 4), dynamic=_ROWS)
script_full = op(full, floats(3, 4), dynamic=_ROWS)
script_scalar_tensor = op(scalars, floats(3, 4), dynamic=_ROWS)
script_out = op(written_to_out, floats(3, 4), dynamic=_ROWS)
script_sized = op(sized, floats(3, 4), dynamic=_ROWS)

# --- numbers beside tensors -------------------------------------------------------------------------------------------


@scripted
def alphas(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factor = float(x.mean())
    y = x.clone()
    y.add_(x, alpha=factor)
    y.sub_(x, alpha=x.size(0))
    return y, torch.rsub(x, x.cos() + 3, alpha=factor), torch.sub(x, 2, alpha=x.size(0)), torch.add(x, 2, alpha=factor)


@scripted
def products(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    factor = float(x.mean())
    square = x.t() @ x
    return (
        torch.addmm(square, square, square, beta=factor, alpha=0.5),
        torch.addmv(square[0], square, square[0], alpha=factor),
        torch.addcmul(x, x, x, value=factor),
        torch.baddbmm(square[None], square[None], square[None], beta=factor, alpha=x.size(0)),
        square.clone().addmm_(square, square, beta=factor),
    )


@scripted
def limits(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    factor = float(x.abs().mean())
    return (
        torch.clamp(x, -factor, factor),
        F.leaky_relu(x, factor),
        F.threshold(x, factor, -factor),
        F.hardtanh(x, -factor, factor),
        F.pad(x, [1, 0], value=factor),
    )


@scripted
def put_in(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    factor = float(x.mean())
    index = torch.zeros([x.size(0), 1], dtype=torch.int64)
    return (
        x.scatter(1, index, factor),
        x.masked_fill(x > factor, factor),
        x.clone().masked_fill_(x > factor, factor),
        torch.where(x > factor, factor, 0.0),
        x.index_fill(1, torch.tensor([1]), factor),
    )


@scripted
def arithmetic(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    factor = float(x.abs().sum()) + 1
    count = int(factor)
    return (
        factor - x,
        factor / (x.abs() + 1),
        factor ** (x * 0.1),
        x.long() // count,
        x.long() / count,
        x.abs() % factor,
    )


@scripted
def quantile(x: Tensor) -> Tensor:
    return torch.quantile(x, float(x.abs().mean()) * 0.1)


script_alpha = op(alphas, floats(3, 4), dynamic=_ROWS)
script_products = op(products, floats(3, 4), dynamic=_ROWS)
script_limits = op(limits, floats(3, 4), dynamic=_ROWS)
script_put_in = op(put_in, floats(3, 4), dynamic=_ROWS)
script_arithmetic = op(arithmetic, floats(3, 4), dynamic=_ROWS)
script_quantile = op(quantile, floats(3, 4))

# --- sizes ------------------------------------------------------------------------------------------------------------


@scripted
def lengths(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    total = torch.zeros_like(x[:1].sum(0))
    for i in range(len(x)):
        total = total + x[i] * i
    rows: list[Tensor] = []
    for row in x:
        rows.append(row * 2)
    return total, x * len(x), torch.stack(rows)


@scripted
def slices(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x[:, : x.size(0)], x[: x.size(1) - 1, 1:], x[-1, : x.size(0)]


@scripted
def slices_by_other_axes(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """A slice ends where the axis ends, also where its bound is a larger size."""
    head = x[:, : x.size(0)]
    y = x.clone()
    y[:, : x.size(0)] = 7.0
    kept = 0
    if bool(x.sum() > 0):
        kept = x[:, x.size(0) :].size(1)
    return (
        torch.zeros(head.size(1)),
        torch.arange(x[:, -x.size(0) :].size(1)),
        y,
        head.transpose(0, 1).reshape(-1),
        torch.ones(x[:, kept:].size(1)),
    )


@scripted
def places(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    place = int(x[:, 0].argmax())
    return x[place], x[place:], x[: place + 1], x.narrow(0, place, 1)


@scripted
def index_put(x: Tensor) -> Tensor:
    y = x.clone()
    if bool(x.sum() > 0):
        y[torch.tensor([0]), torch.tensor([1])] = 5.0
    else:
        y.index_put_([torch.arange(x.size(0))], x[:, :1] * 2)
    return y


@scripted
def parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    first, second = torch.chunk(x, 2, dim=1)
    return first * second, torch.chunk(x, 2)[0], x[:1].expand_as(x), x[0].expand_as(x)


@scripted
def unbound(x: Tensor) -> tuple[Tensor, int, Tensor]:
    """`unbind` of an axis of dynamic size: a list with one tensor for each index."""
    rows = x.unbind(0)
    kept = [row * 2 for row in x.unbind(0)]
    return torch.stack(rows[::-1]), int(x.sum()), torch.cat(kept)


@scripted
def repeats(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (
        x.repeat_interleave(2, dim=0),
        x.repeat_interleave(torch.arange(x.size(0)), dim=0),
        torch.repeat_interleave(x, torch.tensor([1, 2, 0, 3]), dim=1),
    )


@scripted
def size_chosen_by_size(x: Tensor) -> tuple[Tensor, Tensor]:
    """After the branch, only the size of the tensor that it replaced is used."""
    count = x.size(0) if x.size(0) < 4 else 4
    y = x
    if bool(x.sum() > 0):
        y = x[:2]
    return torch.topk(x, count, dim=1)[0], torch.zeros(y.size(0))


class Cells(nn.Module):
    """Recurrent cells and layers in a loop over the steps of the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 4)
        self.layer = nn.GRU(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = torch.zeros(4, dtype=x.dtype), torch.zeros(4, dtype=x.dtype)
        state = torch.zeros(1, 1, 4, dtype=x.dtype)
        outputs: list[Tensor] = []
        for i in range(x.size(0)):
            hidden, cell = self.cell(x[i], (hidden, cell))
            output, state = self.layer(x[i].view(1, 1, -1), state)
            outputs.append(output[0, 0] + hidden)
        return torch.stack(outputs), cell


script_lengths = op(lengths, floats(3, 4), dynamic=_ROWS)
script_slices = op(slices, floats(3, 4), dynamic=_ROWS)
script_slices_by_other_axes = op(
    slices_by_other_axes,
    floats(3, 4),
    dynamic={"x": {0: "rows", 1: "columns"}},
    sizes={"rows": (5, 2, 7), "columns": (3, 6, 2)},
)
script_places = op(places, floats(3, 4), dynamic=_ROWS)
script_index_put = op(index_put, floats(3, 4), dynamic=_ROWS)
script_parts = op(parts, floats(3, 4), dynamic=_ROWS)
script_unbound = op(unbound, floats(3, 4), dynamic=_ROWS)
script_repeats = op(repeats, floats(3, 4), dynamic=_ROWS)
script_size_chosen_by_size = op(size_chosen_by_size, floats(3, 4), dynamic=_ROWS)
script_cells = model(lambda: torch.jit.script(Cells()), floats(3, 4), dynamic=_ROWS, tier="smoke")

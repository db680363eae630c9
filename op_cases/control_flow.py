"""Data-dependent branches and loops: cond, while_loop, scan and map of torch. Each case also runs at other values."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._higher_order_ops import associative_scan, while_loop
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan

from onnx_parity.harness.case import BATCH, floats, ints, op

ROWS = {"x0": {0: "rows"}}

# --- cond -------------------------------------------------------------------------------------------------------------


class Gate(nn.Module):
    """Both branches close over parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        kept: Tensor = torch.cond(x.sum() > 0, lambda x: self.left(x).tanh(), lambda x: self.right(x) * 2, (x,))
        return kept + 1


def several(x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    first, rest = torch.cond(x.mean() > y.mean(), lambda a, b: (a - b, b * 2), lambda a, b: (b.exp(), a.cos()), (x, y))
    return first, {"rest": rest}


def nested(x: Tensor) -> Tensor:
    def inner(x: Tensor) -> Tensor:
        result: Tensor = torch.cond(x[0, 0] > 0, lambda x: x.sin(), lambda x: x * 3, (x,))
        return result

    result: Tensor = torch.cond(x.sum() > 0, inner, lambda x: x.neg(), (x,))
    return result


def by_size(x: Tensor) -> Tensor:
    result: Tensor = torch.cond(x.shape[0] > 4, lambda x: x.sin() + x.shape[0], lambda x: x.cos(), (x,))
    return result


cond = op(Gate, floats(3, 4), dynamic=BATCH)
cond_structures = op(several, floats(3, 4), floats(3, 4))
cond_nested = op(nested, floats(3, 4), dynamic=BATCH)
cond_by_size = op(by_size, floats(3, 4), dynamic=BATCH, sizes={"batch": (1, 4, 5, 9)})
cond_constant_condition = op(
    lambda x: torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x * 2, (x,)), floats(2, 3), dynamic=BATCH
)
cond_ints = op(lambda x: torch.cond(x.max() > 5, lambda x: x + 1, lambda x: x * 2, (x,)), ints(4))

# --- loops ------------------------------------------------------------------------------------------------------------


def doubled(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    count, result = while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2 + i), (torch.tensor(0), x))
    return count, result


def until(x: Tensor) -> Tensor:
    """A loop with a data-dependent number of iterations, whose body has a branch."""

    def step(x: Tensor) -> tuple[Tensor]:
        return (torch.cond(x[0, 0] > x[0, 1], lambda x: x + 1, lambda x: x + 2, (x,)),)

    result: tuple[Tensor] = while_loop(lambda x: x.sum() < 40, step, (x,))
    return result[0]


class Recurrence(nn.Module):
    """A cell with weights, scanned over a sequence of any length, forwards or backwards."""

    def __init__(self, reverse: bool, dim: int) -> None:
        super().__init__()
        self.cell = nn.Linear(7, 3)
        self.reverse, self.dim = reverse, dim

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            state = self.cell(torch.cat([x, state], 1)).tanh()
            return state, state * 2

        start = x.new_zeros(x.shape[1 - self.dim], 3)
        last, every = scan(step, start, x, dim=self.dim, reverse=self.reverse)
        return last, every


loop_while = op(doubled, floats(3, 4), n=ints(high=6))
loop_until = op(until, floats(3, 4), dynamic=BATCH)
scan_steps = op(Recurrence, floats(5, 6, 4), reverse=[False, True], dim=[0, 1], dynamic={"x": {0: "one", 1: "other"}})
scan_sums = op(
    lambda x: scan(lambda total, x: (total + x, total * x), torch.zeros_like(x[0]), x), floats(5, 3), dynamic=BATCH
)
scan_associative = op(
    lambda x, reverse: associative_scan(lambda a, b: a * b, x, 0, reverse=reverse, combine_mode="generic"),
    floats(5, 3),
    reverse=[False, True],
    dynamic=BATCH,
)
mapped = op(lambda x, y: torch_map(lambda x, y: (x * y).sum(0), x, y), floats(4, 2, 3), floats(3), dynamic=ROWS)

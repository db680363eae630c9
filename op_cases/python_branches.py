"""Plain branches of Python on values. Each is declared with an example that takes one side, and one that takes the
other.

What is no operator, such as what a flag or a text becomes, is in
`tests/exporter/recording/python_loops/test_branches_on_values.py`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import floats, ints, op

ROWS = {"x": {0: "rows"}}
SIZES = {"rows": (1, 2, 7)}


def _returned(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 2
    return x - 1


def _chained(x: Tensor) -> Tensor:
    if x.mean() > 1:
        y = x.exp()
    elif x.mean() > 0:
        y = x.sqrt() if (x > 0).all() else x.abs()
    else:
        y = x.sin()
    return y + 1


def _clamped(x: Tensor) -> Tensor:
    if x.isinf().any() or x.isnan().any():
        x = x.nan_to_num(nan=1.0, posinf=9.0, neginf=-9.0)
    return x * 2


def _normalized(x: Tensor) -> Tensor:
    norm = x.norm()
    if norm.item() > 4:
        x = x / norm
    return x


def _written(x: Tensor) -> Tensor:
    y = x.clone()
    if (x > 0).any():
        y[0] = 3
        y *= 2
    return y + x


def _longer(x: Tensor) -> Tensor:
    parts = [x]
    if x.sum() > 0:
        parts.append(x * 2)
    return torch.cat(parts)


def _cut(x: Tensor) -> Tensor:
    kept = x[x[:, 0] > 0]
    return kept.sum(0) if len(kept) > 0 else x[0]


def _repeated(x: Tensor, n: Tensor) -> Tensor:
    times = 1 if int(n) > 2 else 3
    for i in range(times):
        x = x * 0.5 + i
    return x


def _in_each_iteration(x: Tensor) -> Tensor:
    for i in range(4):
        if x[0, 0] * i > 1:
            continue
        x = x + 0.25 if x.sum() < i else x * 0.75
    return x


def _left(x: Tensor) -> Tensor:
    for function in (torch.sin, torch.cos, torch.tanh):
        x = function(x) * 0.5
        if x.abs().max() < 0.3:
            break
    return x


class _Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.first(x) if x.mean() > 0 else self.second(x))


branch_returned = op(_returned, floats(4, 3, low=0.25), dynamic=ROWS, sizes=SIZES)
branch_returned_below = op(_returned, floats(4, 3, high=-0.25), dynamic=ROWS, sizes=SIZES)
branch_chained = op(_chained, floats(4, 3, low=1.25), dynamic=ROWS, sizes=SIZES)
branch_chained_below = op(_chained, floats(4, 3, high=-0.25), dynamic=ROWS, sizes=SIZES)
branch_on_special_values = op(
    _clamped, floats(4, 3, special=(float("nan"), float("inf"), -float("inf"))), dynamic=ROWS, sizes=SIZES
)
branch_on_finite_values = op(_clamped, floats(4, 3), dynamic=ROWS, sizes=SIZES)
branch_on_a_number = op(_normalized, floats(4, 3, low=2.0), dynamic=ROWS, sizes=SIZES)
branch_on_a_small_number = op(_normalized, floats(4, 3, low=0.0, high=0.125), dynamic=ROWS, sizes=SIZES)
branch_with_writes = op(_written, floats(4, 3, low=0.25), dynamic=ROWS, sizes=SIZES)
branch_without_writes = op(_written, floats(4, 3, high=-0.25), dynamic=ROWS, sizes=SIZES)
branch_with_a_longer_list = op(_longer, floats(4, 3, low=0.25), dynamic=ROWS, sizes=SIZES)
branch_on_a_size_of_values = op(_cut, floats(4, 3), dynamic=ROWS, sizes=SIZES)
branch_with_a_number = op(_repeated, floats(4, 3), n=ints(low=3, high=5), dynamic=ROWS, sizes=SIZES)
branch_with_another_number = op(_repeated, floats(4, 3), n=ints(low=0, high=2), dynamic=ROWS, sizes=SIZES)
branch_in_each_iteration = op(_in_each_iteration, floats(4, 3), dynamic=ROWS, sizes=SIZES)
branch_that_leaves_a_loop = op(_left, floats(4, 3), dynamic=ROWS, sizes=SIZES)
branch_of_modules = op(_Heads, floats(4, 3, low=0.25), dynamic=ROWS, sizes=SIZES)

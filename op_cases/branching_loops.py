"""Loops of Python over a dynamic axis whose bodies branch on the number of the iteration, or leave the loop by it.

Those that branch on values, or end by them, are in `tests/exporter/recording/python_loops/`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from onnx_parity.harness.case import floats, op

ROWS = {"x": {0: "rows"}}
FROM_0 = {"rows": (0, 1, 2, 7, 11)}

# --- branches ---------------------------------------------------------------------------------------------------------


def _every_other(x: Tensor) -> Tensor:
    total = torch.zeros(3, dtype=x.dtype)
    for i, row in enumerate(x):
        if i % 2:
            total = total + row
        elif i % 4 == 0:
            total = total * 0.5 - row
    return total


def _first_and_last(x: Tensor) -> Tensor:
    state = torch.zeros(3, dtype=x.dtype)
    for i, row in enumerate(x):
        state = row * 2 if i == 0 else torch.tanh(state + row)
        if i < x.shape[0] - 1:
            state = state * 1.5
    return state


def _filtered(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for n in range(x.shape[0]):
        value = 0.2 * x[n]
        for k in range(1, 3):
            if n - k >= 0:
                value = value + 0.3 * x[n - k] - 0.5 * y[n - k]
        y[n] = value
    return y


def _resets(x: Tensor) -> Tensor:
    part, total, count, is_on = x.new_zeros(3), x.new_zeros(3), 0, True
    for row in x:
        part, count = part + row, count + 1
        if count == 2:
            total = total + part * part if is_on else total - part
            part, count, is_on = x.new_zeros(3), 0, not is_on
    return total + part


def _in_a_function(x: Tensor) -> Tensor:
    def step(state: Tensor, i: int, row: Tensor) -> Tensor:
        if i % 3 == 0 and i > 1:
            return state * 0.5
        return state + row

    state = torch.zeros(3, dtype=x.dtype)
    for i, row in enumerate(x):
        state = step(state, i, row)
    return state


loop_every_other = op(_every_other, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_first_and_last = op(_first_and_last, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_recursive_filter = op(_filtered, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_resets = op(_resets, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_in_a_function = op(_in_a_function, floats(5, 3), dynamic=ROWS, sizes=FROM_0)

# --- ends -------------------------------------------------------------------------------------------------------------


def _left(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] * 2
        if i >= 3:
            break
        y[i] += 1
    return y


def _returned(x: Tensor) -> Tensor:
    total = torch.zeros(3, dtype=x.dtype)
    for i, row in enumerate(x):
        if i * i > len(x):
            return total
        total = total + row
    return total


def _triangle(x: Tensor) -> Tensor:
    n = x.shape[0]
    result = torch.zeros(n, n)
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            result[i, j] = x[i, 0] * x[j, 1]
    return result


def _while_true(x: Tensor) -> tuple[Tensor, int]:
    i, total = 0, torch.zeros(3, dtype=x.dtype)
    while True:
        if not i < x.shape[0]:
            return total, i
        total = total * 0.5 + x[i]
        i += 2 if i % 3 == 0 else 1


def _left_elsewhere(x: Tensor) -> Tensor:
    for i in range(len(x)):
        if i * i > len(x):
            return x[i] * 2
    return x.sum(0)


def _ended_by_else(x: Tensor) -> tuple[Tensor, int]:
    total, place, found = torch.zeros(3, dtype=x.dtype), -1, False
    for i, row in enumerate(x):
        if i == 4:
            found, place = True, i
            break
        total = total + row
    else:
        total = total * 10
    if found:
        total = total - x[0]
    return total, place


@dataclass
class _Moments:
    total: Tensor
    squares: Tensor
    count: int = 0


def _objects(x: Tensor) -> tuple[Tensor, int]:
    moments = _Moments(torch.zeros(3, dtype=x.dtype), torch.zeros(3, dtype=x.dtype))
    for row in x:
        moments = _Moments(moments.total + row, moments.squares + row * row, moments.count + 1)
    return moments.squares - moments.total, moments.count


def _told_by_a_flag(x: Tensor) -> _Moments:
    centred = True
    if x.shape[0] == 1:
        centred = False
    if centred:
        x = x - x.mean(0)
    return _Moments(x.sum(0), (x * x).sum(0))


def _object_of_a_branch(x: Tensor) -> Tensor:
    moments = _told_by_a_flag(x)
    return moments.total + moments.squares


loop_left = op(_left, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_left_by_return = op(_returned, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_triangle = op(_triangle, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_while_true = op(_while_true, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_left_elsewhere = op(_left_elsewhere, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_ended_by_else = op(_ended_by_else, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
loop_with_objects = op(_objects, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
branch_with_objects = op(_object_of_a_branch, floats(5, 3), dynamic=ROWS, sizes={"rows": (1, 2, 7)})

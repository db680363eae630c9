"""Loops of Python over dynamic sizes whose bodies branch on values, or that values end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.tensor([[1.0, -0.2, 0.3], [0.5, 0.1, -2.0], [-1.0, -0.5, -0.1], [0.2, 0.4, 0.1], [0.3, -1.5, 0.7]])


def _of_values(x: Tensor) -> tuple[Tensor, Tensor, int]:
    above, below, count = [torch.zeros(3)], [torch.ones(3)], 0
    for row in x:
        if row.sum() > 0:
            above.append(row)
            count += 1
        elif (row < 0).all():
            below.append(-row)
    return torch.stack(above), torch.stack(below), count


def _greatest(x: Tensor) -> tuple[Tensor, Tensor]:
    best, where = -1e9, 0
    for i in range(x.shape[0]):
        value = x[i].sum().item()
        if value > best:
            best, where = value, i
    return torch.tensor(best), torch.tensor(where)


def _sorted(x: Tensor) -> Tensor:
    values = x[:, 0].clone()
    for i in range(x.shape[0]):
        for j in range(x.shape[0] - 1 - i):
            if values[j] > values[j + 1]:
                before = values[j].clone()
                values[j] = values[j + 1]
                values[j + 1] = before
    return values


def _left_by_values(x: Tensor) -> Tensor:
    results = [torch.zeros(3)]
    for row in x:
        if row.sum() < -0.5:
            break
        results.append(row)
    return torch.stack(results)


def _of_two_conditions(x: Tensor) -> tuple[Tensor, int]:
    i, total = 0, torch.zeros(())
    while i < x.shape[0] and total < 2:
        total = total + x[i].abs().sum()
        i += 1
        if i == 6:
            break
    return total, i


def _bisected(x: Tensor) -> Tensor:
    values = x[:, 0].sort().values
    low, high = 0, x.shape[0]
    while low < high:
        middle = (low + high) // 2
        if values[middle] < 0:
            low = middle + 1
        else:
            high = middle
    return x + low


def _marked(x: Tensor) -> Tensor:
    order = x[:, 0].argsort(descending=True)
    is_kept = torch.ones(x.shape[0], dtype=torch.bool)
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            if is_kept[i] and (x[order[i]] - x[order[j]]).abs().sum() < 2:
                is_kept[j] = False
    return is_kept


def _comprehended(x: Tensor) -> Tensor:
    return torch.stack([row * 2 for row in x if row.sum() > 0] + [x.sum(0)])


def _checked(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for row in x:
        if row.isnan().any():
            raise ValueError("not a number")
        total = total * 0.5 + row
    return total


def _stack(x: Tensor) -> Tensor:
    """A list that one path reads, and another adds to."""
    rows = [torch.zeros(3)]
    for row in x:
        if row.sum() > 0:
            rows.append(row)
        elif len(rows) > 1:
            rows.pop()
    return torch.stack(rows)


def _read_elsewhere(x: Tensor) -> tuple[Tensor, Tensor]:
    rows, total = [torch.zeros(3)], torch.zeros(3)
    for row in x:
        if row[0] > 0:
            rows.append(row)
        else:
            total = total + rows[-1] * len(rows)
    return total, torch.stack(rows)


def _noted(x: Tensor) -> tuple[Tensor, Tensor]:
    """What the refusal of a `break` advises."""
    found, last = False, -1
    for i, row in enumerate(x):
        if not found and row.sum() > 2:
            found, last = True, i
    return torch.where(torch.as_tensor(found), x * 2, x - 1), torch.as_tensor(last)


def _any_and_all(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.as_tensor(any(row.sum() > 2 for row in x)), torch.as_tensor(all(row[0] > -0.8 for row in x))


def _extremes(x: Tensor) -> tuple[Any, ...]:
    longest = max(x, key=lambda row: row.norm())
    number, row = max(enumerate(x), key=lambda pair: pair[1][0])
    return max(row.sum() for row in x), min([row.prod() for row in x]), longest, number * row, min(x[:, 1])


@pytest.mark.parametrize(
    "program",
    [
        _of_values,
        _greatest,
        _sorted,
        _left_by_values,
        _of_two_conditions,
        _bisected,
        _marked,
        _comprehended,
        _checked,
        _stack,
        _read_elsewhere,
        _any_and_all,
        _noted,
    ],
)
def test_followed(program: Callable[..., Any]) -> None:
    made = onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes={"x": {0: "rows"}}, strict=True)
    assert not made.assumptions
    for size in (5, 0, 1, 2, 11):
        torch.manual_seed(size)
        assert_agrees(made, program, torch.randn(size, 3))


def test_the_largest_and_the_smallest_are_followed() -> None:
    """Of no rows there are none, in Python too."""
    made = onnx_parity.export(_extremes, (X,), input_names=["x"], dynamic_axes={"x": {0: "rows"}}, strict=True)
    for size in (5, 1, 2, 11):
        torch.manual_seed(size)
        assert_agrees(made, _extremes, torch.randn(size, 3))


@pytest.mark.slow
def test_more_paths_than_are_recorded_are_refused() -> None:
    def program(x: Tensor) -> Tensor:
        total = x[0] * 0
        for row in x:
            for k in range(8):
                if row[k % 3] > k:
                    total = total + row
        return total

    with pytest.raises(onnx_parity.CaptureError, match="runs on more than 32 paths"):
        onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes={"x": {0: "rows"}})


def _number_within(x: Tensor) -> Any:
    for number in range(10):
        x = x * 1.5
        if x.sum() > 50:
            return number
    return -1


def _number_beside(x: Tensor) -> Any:
    found = 0
    for number in range(10):
        x = x * 1.5
        if x.sum() > 50:
            return x, number, True, found
        found += 2
    return x, 3, False, found


@pytest.mark.parametrize("program", [_number_within, _number_beside])
def test_numbers_come_back_as_numbers(program: Callable[..., Any]) -> None:
    x = torch.rand(4, 3)
    made = onnx_parity.export(program, (x,))
    for each in (x, x * 3, x * 100, -x):
        assert_agrees(made, program, each)

"""Items of lists that loops over dynamic sizes fill, which the program has as one with other tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnx_parity
from tests.exporter.subjects import assert_agrees


def _exported(program: Callable[..., Any]) -> Any:
    return onnx_parity.export(program, (torch.randn(6, 3),), input_names=["x"], dynamic_axes={"x": {0: "rows"}})


def _rows_of_a_comprehension(x: Tensor) -> Tensor:
    rows = [x[place] for place in range(x.shape[0])]
    x.add_(1)
    return torch.stack(rows)


def _rows_of_a_loop(x: Tensor) -> Tensor:
    rows = []
    for row in x:
        rows.append(row)
    x.add_(1)
    return torch.stack(rows)


def _chunks(x: Tensor) -> Tensor:
    chunks = [x[begin : begin + 4] for begin in range(0, x.shape[0], 4)]
    x.add_(1)
    return torch.cat(chunks)


def _some_pieces(x: Tensor) -> Tensor:
    pieces = [*x.split(4)[1:], x[:1]]
    x.add_(1)
    return torch.cat(pieces)


def _pieces_and_more(x: Tensor) -> Tensor:
    pieces = list(x.split(4))
    pieces.append(x[:1])
    x.add_(1)
    return torch.cat(pieces)


def _item_of_a_list(x: Tensor) -> tuple[Tensor, Tensor]:
    prefixes = [x[: place + 1] for place in range(x.shape[0])]
    prefixes[-1].mul_(2)
    return x, torch.cat(prefixes)


def _replaced_item(x: Tensor) -> tuple[Tensor, Tensor]:
    rows = list(x.unbind(0))
    rows[-1] = x[0]
    rows[-1].add_(3)
    return torch.stack(rows), x


def _accumulated(x: Tensor) -> Tensor:
    sums = list(itertools.accumulate(x.unbind(0)))
    x.add_(1)
    return torch.stack(sums)


def _chained(x: Tensor) -> Tensor:
    rows = list(itertools.chain(x.unbind(0), [x[0]]))
    x.add_(1)
    return torch.stack(rows)


class _OfAnAttribute(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.state, rows = x * 1, []
        for place in range(x.shape[0]):
            rows.append(self.state[place])
        self.state.add_(1)
        return torch.stack(rows)


@pytest.mark.parametrize(
    "program",
    [
        _rows_of_a_comprehension, _rows_of_a_loop, _chunks, _some_pieces, _pieces_and_more, _item_of_a_list,
        _replaced_item, _accumulated, _chained, _OfAnAttribute(),
    ],
)  # fmt: skip
def test_a_write_that_would_be_lost_is_refused(program: Callable[..., Any]) -> None:
    with pytest.raises(onnx_parity.CaptureError, match="writes in place"):
        _exported(lambda x: program(x * 1))


def _joined(x: Tensor) -> tuple[Tensor, ...]:
    stacked, joined = torch.stack(x.unbind(0)), torch.cat(x.split(4))
    stacked.add_(1)
    joined.mul_(2)
    return x, stacked, joined


def _written_pieces(x: Tensor) -> tuple[Tensor, ...]:
    pieces = x.split(4)
    pieces[0].add_(1)
    pieces[-1].mul_(3)
    rows = list(x.unbind(0))
    rows[0].sub_(2)
    return torch.cat(pieces), torch.stack(rows), x


def _joined_before(x: Tensor) -> Tensor:
    rows = [x[place] for place in range(x.shape[0])]
    joined = torch.stack(rows)
    x.add_(1)
    return joined


def _own_items(x: Tensor) -> Tensor:
    parts = []
    for place in range(x.shape[0]):
        part = x[: place + 1] * 1
        parts.append(part)
        part.add_(1)
    return torch.cat(parts)


def _item_that_grows(x: Tensor) -> Tensor:
    parts, part = [], x[:1] * 1
    for row in x:
        parts.append(part)
        part = torch.cat([part, row[None]])
    part.add_(1)
    return torch.cat(parts)


@pytest.mark.parametrize("program", [_joined, _written_pieces, _joined_before, _own_items, _item_that_grows])
def test_other_writes_are_right(program: Callable[..., Any]) -> None:
    def on_a_copy(x: Tensor) -> Any:
        return program(x * 1)

    made = _exported(on_a_copy)
    for rows in (1, 2, 4, 7, 9):
        assert_agrees(made, on_a_copy, torch.randn(rows, 3))


def _under_two_names(x: Tensor) -> Tensor:
    rows = list(x.unbind(0))
    other = rows
    for place in range(x.shape[0]):
        rows.append(x[place] + other[-1])
    return torch.stack(other)


def _in_a_dict(x: Tensor) -> Tensor:
    rows = list(x.unbind(0))
    held: dict[str, Any] = {"rows": rows, "all": (rows, x)}
    total = x[0] * 0
    for row in x:
        total = total + row
        rows[0] = rows[0] + total
    rows.append(total)
    return torch.stack(held["rows"] + held["all"][0])


class _InAnAttribute(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.rows = list(x.unbind(0))
        rows = self.rows
        for row in x:
            rows.append(row * 2)
        return torch.stack(self.rows)


def _in_a_branch(x: Tensor) -> Tensor:
    rows = list(x.unbind(0))
    other = rows
    if x.shape[0] > 3:
        rows.append(x[0])
    return torch.stack(other)


def _another_list(x: Tensor) -> tuple[Tensor, Tensor]:
    rows = list(x.unbind(0))
    other = rows
    for row in x:
        rows = [*rows, row]
    return torch.stack(other), torch.stack(rows)


def _none_at_first(x: Tensor) -> Tensor:
    rows: list[Any] = [None] * x.shape[0]
    held = {"rows": rows}
    for place in range(x.shape[0]):
        rows[place] = x[place] * place
    return torch.stack(held["rows"])


@pytest.mark.parametrize(
    "program", [_under_two_names, _in_a_dict, _InAnAttribute(), _in_a_branch, _another_list, _none_at_first]
)
def test_a_list_that_has_several_names_is_one(program: Callable[..., Any]) -> None:
    made = _exported(program)
    for rows in (1, 2, 3, 4, 7):
        assert_agrees(made, program, torch.randn(rows, 3))


def _memo(x: Tensor) -> Tensor:
    memo: list[Any] = [None] * x.shape[0]
    for place in range(x.shape[0]):
        if memo[place // 2] is None:
            memo[place // 2] = x[place]
    return torch.stack(memo[:1])


def _filled_in_part(x: Tensor) -> Tensor:
    rows: list[Any] = [None] * x.shape[0]
    for place in range(0, x.shape[0], 2):
        rows[place] = x[place]
    return torch.stack([row for row in rows if row is not None])


def _asked_for_one(x: Tensor) -> Tensor:
    rows: list[Any] = [None] * x.shape[0]
    rows[0] = x[0]
    return x if rows[-1] is None else x + 1


@pytest.mark.parametrize("program", [_memo, _filled_in_part, _asked_for_one])
def test_what_may_still_be_none_is_not_taken(program: Callable[..., Any]) -> None:
    with pytest.raises(onnx_parity.CaptureError, match="takes an item of a list of None"):
        _exported(program)


def test_numbers_in_lists_keep_their_precision() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        numbers = [0.1] * x.shape[0]
        for place in range(1, x.shape[0]):
            numbers[place] = numbers[place] + 0.2
        return x.double() * numbers[-1], torch.tensor(numbers)

    made = _exported(program)
    for rows in (1, 2, 5):
        x = torch.randn(rows, 3)
        (scaled, numbers), (expected, of_program) = made(x), program(x)
        torch.testing.assert_close(scaled, expected, rtol=1e-15, atol=0.0)
        torch.testing.assert_close(numbers, of_program)


def test_a_list_of_none_takes_tensors_of_one_size() -> None:
    def program(x: Tensor) -> Tensor:
        parts: list[Any] = [None] * x.shape[0]
        for place in range(x.shape[0]):
            parts[place] = x[: place + 1]
        return torch.cat(parts)

    with pytest.raises(onnx_parity.CaptureError, match="into a list of None"):
        _exported(program)

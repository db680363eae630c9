"""Loops of Python over dynamic sizes that are left before their end, and what branches on what they found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnx_parity
from tests.exporter.subjects import assert_agrees
from tests.thinned import one_in

SIZES = (0, 1, 2, 7, 11)


def _found(x: Tensor) -> Tensor:
    found = False
    for row in x:
        if row.sum() > 1:
            found = True
            break
    return x + 1 if found else x - 1


def _place(x: Tensor) -> Tensor:
    found, place = False, -1
    for i, row in enumerate(x):
        if row.sum() > 1:
            found, place = True, i
            break
    if found:
        return x.sum(0) + place
    return x.sum(0) * 2


def _first_of(x: Tensor, least: float) -> int:
    for i in range(x.shape[0]):
        if x[i].sum() > least:
            return i
    return -1


def _of_a_function(x: Tensor) -> Tensor:
    end = _first_of(x, 1.0)
    if end == -1:
        end = x.shape[0]
    part = x[:end] if end > 0 else x
    scaled: Tensor = part * _first_of(x, 0.0)
    return scaled


def _returned_row(x: Tensor) -> Any:
    for row in x:
        if row.sum() > 1:
            return row
    return torch.zeros(3)


def _returned_part(x: Tensor) -> dict[str, Tensor]:
    for i, row in enumerate(x):
        if row.sum() > 1:
            return {"part": x[i:], "row": row}
    return {"part": x[:0], "row": x.sum(0)}


def _for_else(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for row in x:
        if row.sum() > 2:
            break
        total = total + row
    else:
        total = total * 10
    return total


def _while_else(x: Tensor) -> Tensor:
    i = 0
    while i < x.shape[0]:
        if x[i].sum() > 1:
            break
        i += 1
    else:
        return x.sum(0) * 100
    return x[i]


def _while_true(x: Tensor) -> Tensor:
    i = 0
    while True:
        if i >= x.shape[0]:
            return x.sum(0) + i
        if x[i].sum() > 1:
            return x[i]
        i += 1


def _while_with_an_item(x: Tensor) -> Tensor:
    i = 0
    while i < x.shape[0] and x[i].sum() < 1:
        if x[i, 0] > 0.5:
            i += 100
            break
        i += 1
    return x.sum(0) + i


def _within_a_context(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for row in x:
        with torch.no_grad():
            if row.sum() > 2:
                break
            total = total + row
    return total


def _over_a_generator(x: Tensor) -> Tensor:
    def rows() -> Any:
        for i in range(x.shape[0]):
            yield i, x[i] * 2

    total = torch.zeros(3)
    for i, row in rows():
        if row.sum() > 2:
            break
        total = total + row * i
    return total


def _in_the_end(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for row in x:
        try:
            if row.sum() > 2:
                break
        finally:
            total = total + 1
        total = total + row
    return total


def _nested(x: Tensor) -> Tensor:
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            if i != j and (x[i] - x[j]).abs().sum() < 1.5:
                return x[i] + x[j] * 2
    return torch.zeros(3)


def _found_in_each(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for i in range(x.shape[0]):
        found = False
        for j in range(i, x.shape[0]):
            if x[j].sum() > 2:
                found = True
                break
        total = total + 1 if found else total + x[i]
    return total


def _known_around(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for k in range(3):
        if k == 2:
            break
        for row in x:
            if row[k] > 1:
                total = total + row
                break
        else:
            total = total - 1
    return total


def _twice(x: Tensor) -> Tensor:
    one = other = -1
    for i, row in enumerate(x):
        if row.sum() > 1:
            one = i
            break
    for i, row in enumerate(x.flip(0)):
        if row.sum() < -1:
            other = i
            break
    if one < 0:
        return x.sum(0) * 0
    if other < 0:
        return x.sum(0) + one
    return x.sum(0) * one + other


def _some_rows(x: Tensor) -> Tensor:
    rows = [row for row in x if row.sum() > 0]
    return torch.stack(rows) if rows else torch.full((1, 3), 7.0)


def _first_two_rows(x: Tensor) -> Tensor:
    rows = []
    for row in x:
        if row.sum() > 0:
            rows.append(row[None])
    if len(rows) > 2:
        rows = rows[:2]
    if not rows:
        return x.new_zeros(1, 3)
    return torch.cat(rows)


def _mean_of_some(x: Tensor) -> Tensor:
    total, count = torch.zeros(3), 0
    for row in x:
        if row.sum() < 0:
            continue
        if row.max() > 2:
            total = total * 0
            break
        total = total + row
        count += 1
    return total / count if count else total - 1


def _writes_behind(x: Tensor) -> tuple[Tensor, Tensor]:
    made, parts, found = x.clone(), [torch.zeros(3)], False
    for row in x:
        if row.sum() > 1:
            found = True
            break
    if found:
        made += 1
        parts.append(x.sum(0))
    return made, torch.stack(parts)


def _in_a_block(x: Tensor) -> Any:
    with torch.no_grad():
        for row in x:
            if row.sum() > 1:
                return row
        total = x.sum(0)
    return total


def _any_of(x: Tensor) -> Tensor:
    result: Tensor = x + 1 if any(row.sum() > 1 for row in x) else x
    return result


class _Filled(nn.Module):
    """Attributes that a loop fills, and that what follows asks about."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.rows: list[Tensor] = []
        self.total = torch.zeros(3)
        for row in x:
            if row.sum() > 1:
                self.total += row
                break
            self.rows.append(row)
            self.total -= 1
        return torch.stack(self.rows) if self.rows else x[:0], self.total * 1


class _Stepping(nn.Module):
    state: Tensor
    states: list[Tensor]

    def step(self, row: Tensor) -> None:
        self.state = torch.tanh(self.state + row)
        self.states.append(self.state * 2)

    def forward(self, x: Tensor) -> Tensor:
        self.state = torch.zeros(3)
        self.states = []
        for row in x:
            self.step(row)
        return torch.stack(self.states) if self.states else x


def _with_sizes(x: Tensor) -> Tensor:
    size, made = x.shape, x.cumsum(0)
    for i in range(size[0]):
        for k in range(3):
            place = int(x[i, k].abs() * 3)
            if 0 < place < size[1] - 1:
                made[i, k] += (x[i, place + 1] - x[i, place - 1]).sign() * size.numel()
    return made


_PROGRAMS = [
    pytest.param(_with_sizes, marks=pytest.mark.slow),
    _found, _place, _of_a_function, _returned_row, _returned_part, _for_else, _while_else, _while_true,
    _while_with_an_item, _within_a_context, _over_a_generator, _in_the_end, _nested, _found_in_each, _known_around,
    _twice, _some_rows, _first_two_rows, _mean_of_some, _writes_behind, _in_a_block, _any_of, _Filled(), _Stepping(),
]  # fmt: skip


def _exported(program: Callable[..., Any], example: Tensor) -> onnx_parity.ONNXProgram:
    return onnx_parity.export(program, (example,), input_names=["x"], dynamic_axes={"x": {0: "rows"}}, strict=True)


@pytest.mark.parametrize(
    "program", one_in(2, _PROGRAMS), ids=lambda program: getattr(program, "__name__", type(program).__name__)
)
def test_right_for_all_values_and_sizes(program: Callable[..., Any]) -> None:
    generator = torch.Generator().manual_seed(0)
    made = _exported(program, torch.randn(5, 3, generator=generator))
    assert not made.assumptions
    assert "Loop" in {node.op_type for node in made.model.graph}
    for size in SIZES:
        for _ in range(3):
            assert_agrees(made, program, torch.randn(size, 3, generator=generator))
        assert_agrees(made, program, torch.full((size, 3), -1.0))


def _writes_to_a_view(x: Tensor) -> tuple[Tensor, Tensor]:
    made = x.clone()
    part, found = made[:, 0], False
    for row in x:
        if row.sum() > 1:
            found = True
            break
    if found:
        made.mul_(2)
    return made, part


def _none_or_a_row(x: Tensor) -> Tensor:
    best = None
    for row in x:
        if row.sum() > 1:
            best = row
            break
    return x if best is None else x + best


def _known_left(x: Tensor) -> Any:
    for k in range(3):
        for row in x:
            if row[k] > 1:
                return row * (k + 1)
    return x.sum(0)


def _assigning_comprehension(x: Tensor) -> Tensor:
    return torch.stack([(seen := one) * other + seen for one in x for other in x])


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (_assigning_comprehension, "write it as a `for` that appends to a list"),
        (_writes_to_a_view, "writes in place to a tensor that also has another name, or a view"),
        (_none_or_a_row, "a variable is None or a float32 tensor of 1 axes, depending on which branch or iteration"),
        (_known_left, "leaves a loop of known length, or returns from it, by what a loop over a dynamic size"),
    ],
)
def test_refused(program: Callable[..., Any], words: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(onnx_parity.CaptureError) as caught:
        _exported(program, torch.randn(5, 3))
    assert words in str(caught.value)
    assert f"{__file__}:" in str(caught.value)


def test_what_depends_on_no_loop_is_an_assumption() -> None:
    def program(x: Tensor) -> Tensor:
        found = False
        for row in x:
            if row.sum() > 1:
                found = True
                break
        if x[0, 0] > 0:
            return x + found
        return x - found

    with pytest.raises(onnx_parity.FrozenValueError):
        _exported(program, torch.ones(5, 3))

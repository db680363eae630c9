"""Loops of Python over dynamic sizes: what is refused, and with which words. What is followed is in `op_cases/`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.linspace(-1, 1, 15).reshape(5, 3)


def _exported(program: Callable[..., Any]) -> onnx_parity.ONNXProgram:
    made = onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    assert made is not None
    return made


def _assert_follows(program: Callable[..., Any], *sizes: int) -> onnx_parity.ONNXProgram:
    made = _exported(program)
    for size in sizes:
        assert_agrees(made, program, torch.linspace(-1, 1, size * 3).reshape(size, 3))
    return made


def _closure(x: Tensor) -> Tensor:
    total = torch.zeros(3)

    def add(row: Tensor) -> None:
        nonlocal total
        total = total * 0.5 + row

    for row in x:
        add(row)
    return total


def _parts(x: Tensor) -> Tensor:
    parts = [x[0] * 0]
    for row in x:
        parts.append(parts[-1] * 0.5 + row)
    last = parts.pop()
    parts += [last, last]
    return torch.stack([x[0], *parts[1:], x[0]]) * len(parts) + parts[-1] + parts[0]


def _each_second(x: Tensor) -> tuple[Tensor, Tensor]:
    rows = [row * 2 for row in x]
    return torch.stack(rows[1::2]), torch.stack(rows[::-2])


def _rebinds(x: Tensor) -> Tensor:
    rows: list[Tensor] = []
    for row in x:
        rows = [*rows, row * 2] if rows else [row]
    return torch.stack(rows)


def _grows(x: Tensor) -> Tensor:
    whole = x[:0]
    for row in x:
        whole = torch.cat([whole, row[None] * 2])
    return whole


def _two_loops(x: Tensor) -> Tensor:
    rows: list[Tensor] = []
    for row in x:
        rows.append(row * 2)
    for row in reversed(rows):
        rows.append(row + 1)
    return torch.cat(rows)


def _in_place(x: Tensor) -> Tensor:
    x = x * 1
    total = torch.zeros(3)
    for i in range(1, len(x)):
        x[i] += x[i - 1]
        total.add_(x[i]).mul_(0.5)
    return x + total


def _nested_while(x: Tensor) -> Tensor:
    total, i = torch.zeros(3), 0
    while i < x.shape[0]:
        j = 0
        while j <= i:
            total = total + x[j] * i
            j += 1
        i += 1
    return total


def _number(x: Tensor) -> Tensor:
    total, rate = 0.0, 1.0
    for row in x:
        total += rate * row.sum().item()
        rate *= 0.5
    return torch.tensor(total)


class _Kept:
    def __init__(self) -> None:
        self.state = torch.zeros(3)

    def __call__(self, x: Tensor) -> Tensor:
        self.state = x[0] * 0
        for row in x:
            self.state = self.state * 0.5 + row
        return self.state


class _Counts:
    """Counts in an attribute what only the code after the loop reads."""

    def __call__(self, x: Tensor) -> Tensor:
        self.count, total = 0, torch.zeros(3)
        for row in x:
            self.count += 1
            total = total + row
        return total * self.count


def _generator(x: Tensor) -> Tensor:
    def rows() -> Iterator[Tensor]:
        for row in x:
            yield row * 2

    total = torch.zeros(3)
    for row in rows():
        total = total * 0.5 + row
    return total


def _generator_expression(x: Tensor) -> Any:
    return x * sum(row.sum() for row in x) + torch.stack(list(row * 2 for row in x))  # noqa: C400


def _list_of_a_generator(x: Tensor) -> Tensor:
    def rows() -> Iterator[Tensor]:
        for i, row in enumerate(x):
            if i % 2 == 0:
                yield row * i

    return torch.stack(list(rows()))


def _first_by_next(x: Tensor) -> Tensor:
    rows = iter(x)
    total: Tensor = next(rows)
    for row in rows:
        total = total * 0.5 + row
    return total


def _rows_are_written_ahead(x: Tensor) -> Tensor:
    x = x * 1
    for i, row in enumerate(x):
        x[(i + 1) % x.shape[0]] += row
    return x


def _rows_are_written(x: Tensor) -> Tensor:
    rows = x * 1
    table = torch.zeros_like(x)
    for i, row in enumerate(rows.flip(1)):
        row += table[i - 1]
        table[i] = row
    return table


class _Inner:
    def __init__(self) -> None:
        self.inner = _Kept()

    def __call__(self, x: Tensor) -> Tensor:
        self.inner.state = x[0] * 0
        for row in x:
            self.inner.state = self.inner.state * 0.5 + row
        return self.inner.state


@pytest.mark.parametrize("program", [_closure, _parts, _two_loops, _rebinds, _Kept(), _Inner(), _first_by_next])
def test_followed_from_one_row_on(program: Callable[..., Any]) -> None:
    _assert_follows(program, 1, 2, 7)


def _sets_a_flag(x: Tensor) -> Tensor:
    total, state = torch.zeros(3), types.SimpleNamespace(inner=types.SimpleNamespace(is_odd=False))
    for i, row in enumerate(x):
        if i % 2:
            state.inner.is_odd = True
        total = total + row if state.inner.is_odd else total - row
    return total


@pytest.mark.parametrize("program", [_grows, _in_place, _nested_while, _number, _Counts(), _generator, _sets_a_flag])
def test_followed_for_no_row_too(program: Callable[..., Any]) -> None:
    _assert_follows(program, 0, 1, 2, 7)


@pytest.mark.parametrize(
    "program", [_generator_expression, _rows_are_written_ahead, _rows_are_written, _list_of_a_generator]
)
def test_what_a_loop_goes_over(program: Callable[..., Any]) -> None:
    _assert_follows(program, 1, 2, 7)


def test_a_loop_is_as_many_nodes_for_any_example() -> None:
    assert [node.op_type for node in _exported(_closure).model_proto.graph.node].count("Loop") == 1


def test_a_first_iteration_that_differs_is_an_assumption() -> None:
    def program(x: Tensor) -> Tensor:
        total = None
        for row in x:
            total = row if total is None else total * 0.5 + row
        return x.sum(0) * 2 if total is None else total

    assert [each.condition for each in _assert_follows(program, 1, 7).assumptions] == ["rows > 0"]


# --- what is refused --------------------------------------------------------------------------------------------------


def _aliased(x: Tensor) -> Tensor:
    x = x * 1
    other = x.t()
    for i in range(1, len(x)):
        x[i] += other[:, i - 1]
    return x


def _written_or_assigned(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for i, row in enumerate(x):
        if i % 2:
            total += row
        else:
            total = total * 0.5
    return total


def _writes_to_items(x: Tensor) -> Tensor:
    rows, total = [], torch.zeros(3)
    for row in x:
        total += row
        rows.append(total)
    return torch.stack(rows)


def _writes_to_what_another_has(x: Tensor) -> Tensor:
    total, last = torch.zeros(3), torch.ones(3)
    for row in x:
        last = total
        total += row
    total += 1
    return last


def _fills_a_set(x: Tensor) -> Tensor:
    total, seen = torch.zeros(3), set()
    for i, row in enumerate(x):
        if i % 2:
            seen.add("odd")
        total = total + row * len(seen)
    return total


def _left_before_the_last(x: Tensor) -> Tensor | None:
    last = None
    for i, row in enumerate(x):
        if i > 2:
            break
        if i == len(x) - 1:
            last = row
    return last


def _goes_on_after_a_break(x: Tensor) -> tuple[Tensor, Tensor]:
    rows, total, others = iter(x), torch.zeros(3), torch.zeros(3)
    for i, row in enumerate(rows):
        total = total + row
        if i > 1:
            break
    for row in rows:
        others = others + row
    return total, others


def _takes_the_next_within(x: Tensor) -> Tensor:
    rows, total = iter(x), torch.zeros(3)
    for row in rows:
        total = total + row * next(rows, 1)
    return total


def _either_condition(x: Tensor) -> Tensor:
    i, total = 0, torch.zeros(())
    while i < len(x) or total > 100:
        total = total + x[i].sum()
        i += 1
    return total


def _fills_a_set_with_numbers(x: Tensor) -> Tensor:
    """A number of an iteration is no key, and Python's own enumerate would give each of its numbers once."""
    total, seen = torch.zeros(3), set()
    for i, row in enumerate(x):
        if i % 2 == 0:
            seen.add(i % 4)
        total = total + row * len(seen)
    return total


def _adds_as_many_as_values_say(x: Tensor) -> Tensor:
    """As a transducer, which emits up to three tokens for each frame."""
    found, last = [], torch.zeros(3)
    for row in x:
        count = 0
        while count < 3:
            last = last * 0.5 + row
            if last.sum() > 0:
                break
            found.append(last)
            count += 1
    return torch.stack(found)


@pytest.mark.parametrize(
    ("program", "line", "words"),
    [
        (_adds_as_many_as_values_say, 3, "adds 1 items to a list in one iteration and 2 in another"),
        (_writes_to_items, 3, "writes in place to a tensor that another variable, or a list, has too since an earlier"),
        (_writes_to_what_another_has, 2, "is also one that a script was given or returned or a loop has"),
        (_fills_a_set, 2, "keeps what changes from one iteration to the next elsewhere"),
        (_left_before_the_last, 2, "the program leaves a loop over a dynamic size before its end"),
        (_goes_on_after_a_break, 6, "takes items of an iterator over a dynamic size at several places"),
        (_takes_the_next_within, 3, "takes items of an iterator over a dynamic size at several places"),
        (_fills_a_set_with_numbers, 3, "unless they fill a dict or a set"),
        (_either_condition, 2, "and `if ...: break` for another condition of a `while`"),
        (_aliased, 3, "writes in place to a tensor that also has another name"),
        (_written_or_assigned, 2, "writes in place to a tensor in some iterations, and assigns another one"),
    ],
)
def test_refused(program: Callable[..., Any], line: int, words: str) -> None:
    with pytest.raises(onnx_parity.CaptureError) as caught:
        _exported(program)
    assert words in str(caught.value)
    function = program if inspect.isfunction(program) else type(program).__call__
    first = inspect.getsourcelines(function)[1] + line
    places = [f"{__file__}:{first + offset}" for offset in (-1, 0, 1)]
    assert any(place in str(caught.value) for place in places)


def _continues(x: Tensor) -> Tensor:
    total, left = x.sum(0) * 0, x.shape[0] + 1
    for factor in (1, 2):
        if x.shape[0] > 20:
            continue
        total = total + factor
    while left > 1:
        left //= 2
        if x.shape[0] > 30:
            continue
        total = total * 0.5 + left
    return total


def test_a_continue_is_no_test_of_a_while() -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="rows > 20"):
        _assert_follows(_continues, 5, 1, 7)


def test_a_list_of_any_length_is_sliced_with_a_step() -> None:
    _assert_follows(_each_second, 5, 2, 8)

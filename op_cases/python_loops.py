"""Loops of Python over a dynamic axis, which become loops of the model: filters, scans, recurrences, windows, lists."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from onnx_parity.harness.case import floats, ints, model, op

ROWS = {"x": {0: "rows"}}
FROM_0, FROM_1 = {"rows": (0, 1, 7)}, {"rows": (1, 2, 7)}

# --- states -----------------------------------------------------------------------------------------------------------


def _filtered(x: Tensor) -> tuple[Tensor, Tensor]:
    state, results = torch.zeros(x.shape[1]), []
    for i in range(x.shape[0]):
        state = 0.5 * state + x[i]
        results.append(state)
    return torch.stack(results), state


def _best_path(x: Tensor) -> tuple[Tensor, Tensor]:
    """Viterbi's algorithm without its way back."""
    score, back = x[0], []
    for t in range(1, x.size(0)):
        score, index = (score.unsqueeze(1) + x.T @ x + x[t]).max(0)
        back.append(index)
    return score, torch.stack([torch.zeros(x.shape[1], dtype=torch.long), *back])


def _backwards(x: Tensor) -> Tensor:
    state = x.new_zeros(x.shape[1])
    results: list[Tensor] = []
    for i, row in reversed(list(enumerate(x))):
        state = torch.tanh(state + row * i)
        results.insert(0, state)
    return torch.stack(results)


def _of_several(x: Tensor) -> tuple[Tensor, Any]:
    state: dict[str, Any] = {"sum": torch.zeros(x.shape[1], dtype=x.dtype), "count": 0}
    low, high = x.new_zeros(()), (x.new_ones(()),)
    for one, other in zip(x[:-1], x[1:] * 1, strict=True):
        state["sum"] = state["sum"] + one * other
        state["count"] += 2
        low, high = torch.minimum(low, one.min()), (torch.maximum(high[0], other.max()),)
    return state["sum"] * state["count"], (low, high)


def _first_differs(x: Tensor) -> Tensor:
    state = None
    results: list[Tensor] = []
    for i in range(len(x)):
        state = x[i] if state is None else state * 0.5 + x[i]
        results.append(state if i == 0 else state - results[-1])
    return torch.stack(results, 1)


def _while(x: Tensor) -> tuple[Tensor, Tensor]:
    i, count, total = x.shape[0], 0, torch.zeros(x.shape[1], dtype=x.dtype)
    while i > 0:
        i //= 2
        count += 1
        total = total + x[i]
    return total * count, total


filtered = op(_filtered, floats(5, 3), dynamic=ROWS, sizes=FROM_1)
best_path = op(_best_path, floats(5, 3), dynamic=ROWS, sizes=FROM_1)
backwards = op(_backwards, floats(5, 3), dynamic=ROWS, sizes=FROM_1)
of_several = op(_of_several, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
first_differs = op(_first_differs, floats(5, 3), dynamic=ROWS, sizes=FROM_1)
while_halved = op(_while, floats(5, 3), dynamic=ROWS, sizes=FROM_0)


class Stack(nn.Module):
    """Recurrent cells on top of each other, whose states are in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(3, 4), nn.GRUCell(4, 4)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        states, results = [x.new_zeros(2, 4), x.new_zeros(2, 4)], []
        for step in x:
            for number, cell in enumerate(self.cells):
                states[number] = step = cell(step, states[number])
            results.append(step)
        return torch.stack(results), torch.stack(states)


cells = model(Stack, floats(5, 2, 3), dynamic=ROWS, sizes=FROM_1)

# --- lists and tensors that are filled --------------------------------------------------------------------------------


def _written(x: Tensor) -> Tensor:
    table = torch.zeros(x.shape[0] + 1, x.shape[0] + 1)
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            table[i + 1, j + 1] = torch.maximum(table[i, j] + x[i].dot(x[j]), table[i, j + 1])
    return table


def _windowed(x: Tensor) -> Tensor:
    return torch.stack([x[i : i + 2].sum(0) for i in range(x.shape[0] - 1)])


def _pairs(x: Tensor) -> Any:
    found = []
    for one in x:
        for other in x:
            found.append((one, other.sum()))
    return sum(one * other for one, other in found) / len(found)


def _ends_differ(x: Tensor) -> Tensor:
    results = []
    for i in range(x.shape[0]):
        results.append(x[i] + x[i + 1] if i < x.shape[0] - 1 else x[i])
    return torch.cat(results[::-1])


written = op(_written, floats(4, 3), dynamic=ROWS, sizes=FROM_0)
windowed = op(_windowed, floats(5, 3), dynamic=ROWS, sizes={"rows": (2, 7)})
pairs = op(_pairs, floats(3, 2), dynamic=ROWS, sizes=FROM_1)
ends_differ = op(_ends_differ, floats(5, 3), dynamic=ROWS, sizes=FROM_1)
unbound = op(
    lambda x: (torch.stack(x.unbind(0), 1), sum(row * 2 for row in x.unbind(0)), x.unbind(0)[-1] * len(x.unbind(0))),
    floats(5, 3),
    dynamic=ROWS,
    sizes=FROM_1,
)
split_into_rows = op(
    lambda x: (torch.cat([each.cumsum(1) for each in x.split(1)]), torch.cat([row * 2 for row in x.T.split(1, -1)], 1)),
    floats(5, 3),
    dynamic=ROWS,
    sizes=FROM_1,
)
returned = op(lambda x: [row.cumsum(0) for row in x], floats(5, 3), dynamic=ROWS, sizes=FROM_1)

# --- lists of tensors that differ in size, and pieces -----------------------------------------------------------------


def _in_chunks(x: Tensor) -> Tensor:
    chunks = []
    for begin in range(0, x.shape[0], 4):
        chunks.append(x[begin : begin + 4].softmax(-1))
    return torch.cat(chunks) + x


def _with_numbers_of_each(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    found = [(row[row > 0], place) for place, row in enumerate(x)]
    kept = [each for each, _ in found]
    return torch.cat(kept), torch.tensor([len(each) for each in kept]), pad_sequence(kept, batch_first=True)


def _depending_on_path(x: Tensor) -> Tensor:
    parts = [x[:0]]
    for place in range(x.shape[0]):
        if place % 3 != 1:
            parts.append(x[: place + 1] * place if place % 2 else x[place:])
    return torch.cat(parts)


def _growing(x: Tensor) -> Tensor:
    parts = [x[:1]]
    for row in x:
        parts.append(torch.cat([parts[-1], row[None]]))
    return torch.cat(parts[1:] + parts[:1]) + len(parts)


def _unpacked(x: Tensor) -> Tensor:
    one, other = x.split(4)
    return torch.cat([other, one * 2])


def _with_items_replaced(x: Tensor) -> Tensor:
    rows = list(x.unbind(0))
    for place in range(len(rows)):
        rows[place] = rows[place] * place
    rows[-1] = rows[0] + 1
    return torch.stack(rows)


def _given_by_a_generator(x: Tensor) -> Tensor:
    def pieces() -> Iterator[Tensor]:
        for begin in range(0, x.shape[0], 4):
            yield x[begin : begin + 4]

    return torch.cat([piece.softmax(0) for piece in pieces()])


def _taken_by_number(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    prefixes = [x[: place + 1] for place in range(x.shape[0]) if place % 2 == 0]
    rows = [row * len(prefixes) for row in x]
    return prefixes[len(prefixes) - 1], rows[2 - x.shape[0]], torch.cat(prefixes)


def _in_places(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    count, state = len(x), torch.zeros(x.shape[1])
    rows: list[Any] = [None] * count
    pairs: list[Any] = count * [None]
    numbers = [0] * count
    for place in range(count - 1, -1, -1):
        state = state * 0.5 + x[place]
        rows[place], pairs[place], numbers[place] = state, x[place] * place, place * place
    return torch.stack(rows, 1), torch.stack(pairs), torch.tensor(numbers)


in_chunks = op(_in_chunks, floats(6, 3), dynamic=ROWS, sizes={"rows": (1, 4, 7)})
with_numbers_of_each = op(_with_numbers_of_each, floats(5, 3), dynamic=ROWS, sizes=FROM_1)
depending_on_path = op(_depending_on_path, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
taken_by_number = op(_taken_by_number, floats(5, 3), dynamic=ROWS, sizes={"rows": (2, 3, 7)})
in_places = op(_in_places, floats(5, 3), dynamic=ROWS, sizes=FROM_1)
growing = op(_growing, floats(5, 3), dynamic=ROWS, sizes=FROM_0)
pieces = op(
    lambda x: (torch.cat([each.cumsum(0) for each in x.split(4)]), x.split(4)[-1] * len(x.split(4))),
    floats(6, 3),
    dynamic=ROWS,
    sizes={"rows": (0, 1, 4, 13)},
)
pieces_of_columns = op(
    lambda x: (
        torch.cat([a * b.sum() for a, b in zip(x.split(3, 1), reversed(x.split(3, -1)), strict=True)], 1)
        if x.shape[1] % 3 == 0
        else x
    ),
    floats(2, 6),
    dynamic={"x": {1: "columns"}},
    sizes={"columns": (3, 9)},
)
given_by_a_generator = op(_given_by_a_generator, floats(6, 3), dynamic=ROWS, sizes={"rows": (1, 4, 13)})
pieces_of_what_a_mask_keeps = op(
    lambda x: torch.cat([piece.cumsum(0) for piece in x[x[:, 0] > 0].split(2)]),
    floats(6, 3),
    dynamic=ROWS,
    sizes=FROM_0,
)
unpacked_pieces = op(_unpacked, floats(6, 3), dynamic=ROWS, sizes={"rows": (5, 7, 8)})
returned_pieces = op(lambda x: (x.split(4), x.unbind(0)), floats(6, 3), dynamic=ROWS, sizes={"rows": (1, 4, 7)})

# --- functools and itertools ------------------------------------------------------------------------------------------


def _over_all_pairs(x: Tensor) -> Tensor:
    corners = []
    for i, j in itertools.product(range(x.shape[0]), repeat=2):
        corners += [(i + 0.5) / x.shape[0], (j + 0.5) / x.shape[0]]
    return torch.tensor(corners).view(-1, 2)


reduced = op(
    lambda x: (
        functools.reduce(lambda a, b: a * 0.5 + b, x.unbind(0)),
        functools.reduce(torch.maximum, x.unbind(0), torch.zeros(3, dtype=x.dtype)),
        torch.stack(list(itertools.accumulate(x.unbind(0), lambda a, b: a * 0.9 + b))),
    ),
    floats(5, 3),
    dynamic=ROWS,
    sizes=FROM_1,
)
chained = op(
    lambda x: (
        torch.stack(list(itertools.chain(x, [x.sum(0)], x * 2))),
        torch.cat([x[:1] * 0, *[(b - a)[None] for a, b in itertools.pairwise(x)]]),
        torch.stack(list(itertools.islice(x, 0, None, 2))),
    ),
    floats(5, 3),
    dynamic=ROWS,
    sizes=FROM_1,
)
over_all_pairs = op(_over_all_pairs, floats(3, 2), dynamic=ROWS, sizes=FROM_1)
item_replaced = op(_with_items_replaced, floats(4, 3), dynamic=ROWS, sizes=FROM_1)


def _looked_up(x: Tensor) -> tuple[Tensor, Tensor]:
    """An item of a list at a place that an iteration computes, of one that the loop fills, too."""
    scales, made = [torch.tensor(1.0), torch.tensor(2.0), torch.tensor(-1.0)], [x[0]]
    total = torch.zeros_like(x)
    for i in range(x.shape[0]):
        total[i] = x[i] * scales[i % 3]
        made.append(made[i] * 0.5 + made[i // 2])
    return total, torch.stack(made)


item_looked_up = op(_looked_up, floats(5, 3), dynamic=ROWS, sizes=FROM_1)

# --- loops whose length depends on values -----------------------------------------------------------------------------


def _counted(x: Tensor, count: Tensor) -> Tensor:
    for i in range(int(count)):
        x = x * 0.5 + i
    return x


def _of_experts(x: Tensor) -> Tensor:
    """Rows are given to those experts that any row chooses."""
    weights, result = torch.arange(24.0).reshape(4, 2, 3), torch.zeros(x.shape[0], 3)
    chosen = torch.nn.functional.one_hot((x.sum(1).abs() * 2).long() % 4, 4).T
    for (expert,) in chosen.sum(1).nonzero():
        rows = chosen[expert].nonzero()[:, 0]
        result.index_add_(0, rows, x[rows] @ weights[expert])
    return result


counted = op(_counted, floats(3), ints(high=5))
of_experts = op(_of_experts, floats(6, 2), dynamic=ROWS, sizes=FROM_1, dtypes=[torch.float32])

"""Comprehensions that are written down as functions of their own compute what they did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.torch_inside.loops.structured_code import structured

ROWS = [[1, 2], [3, 4, 5], []]


def doubled(rows: list[list[int]]) -> Any:
    return [len(row) * 2 for row in rows if row]


def nested(rows: list[list[int]]) -> Any:
    return [[item + place for item in row] for place, row in enumerate(rows)]


def flat(rows: list[list[int]]) -> Any:
    return [item * len(row) for row in rows if row for item in row if item > 1]


def of_three_loops(rows: list[list[int]]) -> Any:
    return [(a, b, c) for row in rows for a in row for b, c in zip(row, rows, strict=False)]


def beside_variables(rows: list[list[int]]) -> Any:
    row, total = "kept", 10
    made = [total + len(row) for row in rows]
    total += 1
    return made, row, total


def in_a_keyword(rows: list[list[int]]) -> Any:
    return {"made": [row for row in rows][::-1]}  # noqa: C416


def of_a_set(rows: list[list[int]]) -> Any:
    return {len(row) for row in rows}, {place: row for place, row in enumerate(rows)}  # noqa: C416


def assigning(rows: list[list[int]]) -> Any:
    return [last := len(row) for row in rows], last


in_a_lambda = lambda rows: [sum(row) for row in rows]  # noqa: E731

PROGRAMS: list[Callable[[Any], Any]] = [
    doubled, nested, flat, of_three_loops, beside_variables, in_a_keyword, of_a_set, assigning, in_a_lambda
]  # fmt: skip


def written(program: Callable[[Any], Any], called: list[Any]) -> Callable[[Any], Any]:
    """The program with its comprehensions written down otherwise, which notes what they go over."""

    def comprehended(items: Iterable[Any], comprehension: Callable[[Iterator[Any]], list[Any]]) -> list[Any]:
        called.append(items)
        return [made for item in items for made in comprehension(iter([item]))]

    code = structured(program.__code__, lambda *_: (), bool, comprehended, keys=frozenset())
    assert code is not None
    return FunctionType(code, globals())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_they_make_the_same(program: Callable[[Any], Any]) -> None:
    called: list[Any] = []
    assert written(program, called)(ROWS) == program(ROWS)
    assert bool(called) is (program not in (of_a_set, assigning))


def squares(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row * row for row in x])


def of_elements(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.stack([x[i, j] + i for j in range(x.shape[1])]) for i in range(x.shape[0])])


def of_columns(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[i, k] * k for i in range(x.shape[0]) for k in range(2)])


def of_pairs(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([one * other + i for i, one in enumerate(x) for other in x])


def columns_first(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row[k] * k for k in range(2) for row in x])


@pytest.mark.parametrize("program", [squares, of_elements, of_columns, of_pairs, columns_first])
def test_they_are_loops_of_models(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    axes = ({0: torch.export.Dim("rows"), 1: torch.export.Dim("columns", min=2)},)
    exported = onnx_parity.export(program, (torch.randn(3, 4),), dynamic_shapes=axes)
    for sizes in ((1, 4), (5, 2), (3, 7)):
        x = torch.randn(sizes)
        torch.testing.assert_close(exported(x), program(x))

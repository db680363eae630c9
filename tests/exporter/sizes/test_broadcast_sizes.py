"""Dynamic sizes that an operator broadcasts with known ones: they may be 1."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import onnx_parity
from tests.exporter.subjects import assert_agrees


def test_an_axis_is_not_static_where_the_program_broadcasts_a_slice_of_it() -> None:
    with pytest.raises(onnx_parity.DynamicAxisError, match=re.escape("max(0, n - 2) == 4")):
        onnx_parity.export(lambda x: x[1:-1] + torch.ones(4), (torch.ones(6),), dynamic_axes={"x": {0: "n"}})


@pytest.mark.parametrize("function", [torch.add, torch.fmax, lambda x, y: torch.where(x > 0.5, x, y)])
def test_a_dynamic_size_that_meets_a_known_one_may_be_1(function: Any) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = function(x[::2], y)
        return result.reshape(result.shape[0] * 7)

    y = torch.rand(4, 7)
    exported = onnx_parity.export(program, (torch.rand(8, 1), y), input_names=["x", "y"], dynamic_axes={"x": {0: "n"}})
    assert [list(output.shape or ()) for output in exported.model.graph.outputs] == [[28]]
    for length in (8, 7, 2, 1):
        assert_agrees(exported, program, torch.rand(length, 1), y)


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize(
    "function",
    [
        torch.add,
        torch.fmax,
        torch.logaddexp,
        lambda rows, x: x.clone().add_(rows),
        lambda rows, x: x.clone().copy_(rows),
        lambda rows, x: rows.expand_as(x),
        lambda rows, x: rows.expand(2, 1),
        lambda rows, x: torch.broadcast_tensors(rows, x)[0],
        lambda rows, x: torch.addcmul(rows, x, x, value=2),
        lambda rows, x: x.index_put((torch.tensor([0, 1]),), rows),
    ],
)
def test_a_size_that_depends_on_values_and_meets_a_known_one_stays_one(function: Any, length: int) -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        count: Any = n
        return function(torch.zeros(count, 1), x), torch.ones(count).sum(0)

    x = torch.rand(2, 1)
    exported = onnx_parity.export(program, (x, torch.tensor(length)))
    for count in (1, 2):
        assert_agrees(exported, program, x, torch.tensor(count))


def test_a_sum_with_a_size_that_depends_on_values_lies_in_memory_as_torch_s() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count: Any = n
        result = x.t() + torch.zeros(count, 1)
        rows, columns = result.reshape(-1), result.t().view(-1)
        result.mul_(2)
        return rows, columns

    x = torch.rand(3, 2)
    exported = onnx_parity.export(program, (x, torch.tensor(2)))
    for count in (1, 2):
        assert_agrees(exported, program, x, torch.tensor(count))


def test_a_sum_with_a_dynamic_size_that_meets_a_known_one_lies_in_memory_as_torch_s() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result = x.t()[::2] + y.t()
        columns = result.t().reshape(-1)
        result.mul_(2)
        return columns

    x, y = torch.rand(7, 8), torch.rand(7, 4)
    exported = onnx_parity.export(program, (x, y), input_names=["x", "y"], dynamic_axes={"x": {1: "n"}})
    for length in (8, 7, 2):
        assert_agrees(exported, program, torch.rand(7, length), y)

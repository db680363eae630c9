"""Sizes that a program fills up, or cuts, to a multiple are known for all sizes, whichever way they are written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onnx_parity
from tests.exporter.subjects import assert_agrees


def filled_always(x: Tensor) -> Tensor:
    rows = x.shape[0]
    x = F.pad(x, (0, 0, 0, (4 - rows % 4) % 4))
    return x.view(x.shape[0] // 4, 4, 3)


def filled_if_needed(x: Tensor) -> Tensor:
    rows = x.shape[0]
    if rows % 4 != 0:
        x = F.pad(x, (0, 0, 0, 4 - rows % 4))
    return x.view(x.shape[0] // 4, 4, 3)


def joined_if_needed(x: Tensor) -> Tensor:
    rest = x.shape[0] % 4
    if rest:
        x = torch.cat([x, x.new_ones(4 - rest, 3)])
    return x.reshape(-1, 4, 3)[:, ::2]


def cut_if_needed(x: Tensor) -> Tensor:
    rows = x.shape[0]
    rest = rows % 4
    if rest:
        x = x[: rows - rest]
    return x.view(x.shape[0] // 4, 4, 3)


@pytest.mark.parametrize("rows", [7, 8])
@pytest.mark.parametrize("program", [filled_always, filled_if_needed, joined_if_needed, cut_if_needed])
def test_a_filled_up_size_is_one_of_the_axis(program: Callable[[Tensor], Tensor], rows: int) -> None:
    exported = onnx_parity.export(program, (torch.randn(rows, 3),), dynamic_shapes=({0: "n"},), strict=True)
    assert exported.assumptions == ()
    first = exported.model_proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param
    assert "n" in first and "min" not in first and "size" not in first
    for size in (1, 2, 4, 5, 8, 11):
        x = torch.randn(size, 3)
        assert_agrees(exported, program, x)


def test_a_question_about_a_filled_up_size_is_stated_over_the_axis() -> None:
    def program(x: Tensor) -> Any:
        filled = filled_if_needed(x)
        return filled if filled.shape[0] < 5 else (filled, filled)

    with pytest.warns(onnx_parity.TracerWarning, match="branches on a dynamic size"):
        exported = onnx_parity.export(program, (torch.randn(8, 3),), dynamic_shapes=({0: "n"},))
    assert [each.condition for each in exported.assumptions] == ["(n + ((-n) % 4))//4 < 5"]
    with pytest.raises(onnx_parity.AssumptionError):
        exported(torch.randn(17, 3))


def test_a_size_that_is_another_one_on_each_side_has_a_name_for_users() -> None:
    def program(x: Tensor) -> Tensor:
        return x[: x.shape[0] // 2] if x.shape[0] % 3 == 0 else x

    exported = onnx_parity.export(program, (torch.randn(8, 3),), dynamic_shapes=({0: "size_1"},))
    first = exported.model_proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param
    assert first == "size_2"


def test_one_line_that_cannot_be_joined_leaves_the_others_joined() -> None:
    def program(x: Tensor) -> Any:
        if x.shape[0] > 6:
            x = x * 2
        return (x, x) if x.shape[0] % 5 == 0 else x + 1

    with pytest.warns(onnx_parity.TracerWarning, match="n % 5"):
        exported = onnx_parity.export(program, (torch.randn(8, 3),), dynamic_shapes=({0: "n"},))
    assert [each.condition for each in exported.assumptions] == ["n % 5 != 0"]
    for size in (3, 7, 9):
        x = torch.randn(size, 3)
        assert_agrees(exported, program, x)


class _Lazy(OrderedDict[str, Any]):
    """A library's mapping that makes all its values when it is asked for them."""

    def values(self) -> Any:
        raise AssertionError("nobody needs all of these")

    __iter__ = keys = items = values


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.known = nn.Linear(3, 3), _Lazy()

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 2:
            x = self.linear(x)
        return x


def test_a_mapping_of_a_library_is_not_asked_for_what_it_holds() -> None:
    model = Chosen()
    exported = onnx_parity.export(model, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), strict=True)
    for size in (1, 2, 3, 7):
        x = torch.randn(size, 3)
        assert_agrees(exported, model, x)

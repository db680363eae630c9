"""Expansions that what reads them makes itself are left out, and no other ones."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F

import onnx_parity
from tests.exporter.subjects import assert_agrees
from tests.exporter.test_passes import operators


def _twice(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    wide = row.expand(x.shape)
    return torch.where(wide > 0, x * wide, -wide)


def _cast(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    # The smaller results are cast and negated before they meet a tensor of the whole shape.
    return x + (~(row.expand_as(x) > 0)).float()


def _meeting(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    # Each of them has one of the two axes, and only both together have the sizes of the result.
    return x.sum() + row.expand(3, 4) * (row.T[:3].expand(3, 4) - 1)


def _returned(x: torch.Tensor, row: torch.Tensor) -> list[torch.Tensor]:
    wide = row.expand_as(x)
    return [wide.neg(), x + wide]


def _summed(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return x + row.expand_as(x).sum(0)


def _product(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return row.expand(3, 4) @ x.T


def _alone(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return x.sum() + row.expand(3, 4)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("program", "left"),
    [(_twice, 0), (_cast, 0), (_meeting, 0), (_returned, 1), (_summed, 1), (_product, 1), (_alone, 1)],
)
def test_expansions_that_are_left_out(program: Any, left: int, dynamic: bool) -> None:
    x, row = torch.linspace(-1, 1, 12).reshape(3, 4), torch.tensor([[-1.0, 0.5, 2.0, -3.0]])
    axes = {"x": {0: "rows"}} if dynamic and program not in (_meeting, _product, _alone) else None
    exported = onnx_parity.export(program, (x, row), opset_version=18, input_names=["x", "row"], dynamic_axes=axes)
    assert operators(exported)["Expand"] == left
    assert_agrees(exported, program, x, row)
    if axes:
        assert_agrees(exported, program, torch.ones(1, 4), row)
        assert_agrees(exported, program, torch.linspace(-2, 3, 20).reshape(5, 4), row)


def test_sizes_that_are_not_known_to_be_equal_are_expanded() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return x.sum() + row.expand(y.shape[0], 4) * 2

    given = (torch.ones(3, 4), torch.ones(5, 4), torch.ones(1, 4))
    axes = {"x": {0: "rows"}, "y": {0: "others"}}
    exported = onnx_parity.export(program, given, input_names=["x", "y", "row"], dynamic_axes=axes)
    assert operators(exported)["Expand"] == 1
    assert_agrees(exported, program, torch.ones(1, 4), torch.ones(2, 4), torch.ones(1, 4))


def test_a_weight_is_repeated_for_a_fixed_batch() -> None:
    token = torch.nn.Parameter(torch.linspace(-1, 1, 400).reshape(1, 1, 400))
    x = torch.linspace(0, 1, 2400).reshape(2, 3, 400)
    exported = onnx_parity.export(lambda x: torch.cat([token.expand(2, -1, -1), x], 1), (x,))
    assert operators(exported) == {"Concat": 1}
    assert_agrees(exported, lambda x: torch.cat([token.expand(2, -1, -1), x], 1), x)


def _summed_beside(x: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + row.expand(3, 4), row.expand(3, 4).sum(0)


def _padded_beside(x: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.logaddexp(x, row)[1:], F.pad(torch.logaddexp(row, x), (0, 1), mode="replicate")


@pytest.mark.parametrize("program", [_summed_beside, _padded_beside])
def test_an_equal_expansion_that_is_not_left_out_keeps_its_sizes(program: Any) -> None:
    x, row = torch.ones(3, 4), torch.tensor([[-1.0, 0.5, 2.0, -3.0]])
    exported = onnx_parity.export(program, (x, row), opset_version=21, input_names=["x", "row"])
    onnx.shape_inference.infer_shapes(exported.model_proto, strict_mode=True, data_prop=True)
    assert_agrees(exported, program, x, row)

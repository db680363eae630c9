"""Slices of an axis that may be empty: the model has the sizes that PyTorch has, also where they are 0."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import onnx_parity

_SIZES = (5, 0, 1, 2, 7)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, 1:] * 2,
        lambda x: x[:, -1:] * 2,
        lambda x: (x[:, 1:] - x[:, :-1]).sum() / x[:, 1:].shape[1],
        lambda x: x[:, 1:].mean(1),
        lambda x: torch.ones(x[:, -1:].shape),
        lambda x: torch.arange(x[:, :-1].shape[1]),
        lambda x: x.sum() + x[:, :1].shape[1] + x[:, -3:-1].shape[1] + x[:, 1:3].shape[1] + x[:, 2:-1].shape[1],
        lambda x: x[:, :1].repeat(1, x[:, 1:].shape[1], 1),
        lambda x: torch.cat([x[:, :1] + torch.ones(1, 1, 3), x[:, 1:]], 1),
        lambda x: torch.cat([x[:, :1] * 0, x.cumsum(1)[:, :-1]], 1),
        lambda x: torch.where(x[:, :1] > 0, x, x[:, -1:]),
        lambda x: x[:, -1:].expand_as(x) + x,
        lambda x: x[:, -1:] @ x.mT,
        lambda x: F.scaled_dot_product_attention(x[:, :1], x, x),
        lambda x: x.take_along_dim(x[:, :1].long() * 0, 1),
    ],
)
def test_slices_of_an_axis_that_may_be_empty(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnx_parity.export(function, (torch.rand(2, 5, 3),), dynamic_shapes=({1: "n"},))
    assert not program.assumptions
    for size in _SIZES:
        x = torch.rand(2, size, 3)
        torch.testing.assert_close(program(x), function(x), equal_nan=True)


def test_an_axis_of_one_that_is_dropped_is_assumed_not_to_be_empty() -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="branches on a dynamic size"):
        program = onnx_parity.export(lambda x: x[:, -1:].squeeze(1), (torch.rand(2, 5, 3),), dynamic_shapes=({1: "n"},))
    assert [each.condition for each in program.assumptions] == ["min(1, n) == 1"]
    with pytest.raises(onnx_parity.AssumptionError):
        program(torch.rand(2, 0, 3))


def _flattened_images(x: torch.Tensor) -> torch.Tensor:
    v = x[:, :, :1].contiguous(memory_format=torch.channels_last)
    w = v.mT.flatten(2)
    v.add_(1)
    v = (v + 1) * w.sum()
    v.permute(0, 2, 3, 1).flatten().zero_()
    return v


@pytest.mark.slow
def test_a_number_is_added_to_a_slice_that_lies_in_another_order() -> None:
    x = torch.rand(1, 3, 4, 5)
    program = onnx_parity.export(_flattened_images, (x,), dynamic_shapes=({2: "rows", 3: "columns"},), opset_version=16)
    for rows in _SIZES:
        x = torch.rand(1, 3, rows, 4)
        torch.testing.assert_close(program(x), _flattened_images(x))

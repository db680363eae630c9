"""Branches on sizes whose other side is right for all sizes: programs that cut off what they have padded."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import onnx_parity

AXES = {"x": {1: "height", 2: "width"}}


def windows(x: torch.Tensor) -> torch.Tensor:
    batch, height, width, channels = x.shape
    below, right = -height % 4, (4 - width % 4) % 4
    x = F.pad(x, (0, 0, 0, right, 0, below))
    _, padded_height, padded_width, _ = x.shape
    blocks = x.view(batch, padded_height // 4, 4, padded_width // 4, 4, channels)
    x = (blocks - blocks.mean((2, 4), keepdim=True)).view(batch, padded_height, padded_width, channels)
    if right > 0 or below > 0:
        x = x[:, :height, :width].contiguous()
    return x


@pytest.mark.parametrize("sizes", [(8, 12), (8, 11), (6, 12), (6, 11)])
def test_what_is_padded_in_some_sizes_is_cut_off_in_all(sizes: tuple[int, int]) -> None:
    x = torch.randn(1, *sizes, 2)
    exported = onnx_parity.export(windows, (x,), input_names=["x"], dynamic_axes=AXES, verify=True)
    assert exported.assumptions == ()


def test_what_is_something_else_on_the_other_side_is_an_assumption() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 2:
            x = x[:, :-1] > 0
        return x

    with pytest.warns(onnx_parity.TracerWarning):
        exported = onnx_parity.export(halves, (torch.randn(1, 8, 3),), input_names=["x"], dynamic_axes=AXES)
    assert [each.condition for each in exported.assumptions] == ["height % 2 == 0"]


@pytest.mark.parametrize(
    "joined",
    [
        lambda x, y: torch.cat([x, y], 1) if x.shape[0] == y.shape[0] else x,
        lambda x, y: torch.stack([x, y.t()]).sum(0) if x.shape[0] == y.shape[0] else x,
    ],
)
def test_torch_fails_on_the_other_side_with_the_sizes_of_the_example_alone(
    joined: Callable[..., torch.Tensor],
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return joined(x, x.t())

    exported = onnx_parity.export(program, (torch.rand(4, 2),), dynamic_shapes=({0: "n", 1: "m"},), strict=True)
    for sizes in ((4, 2), (3, 3), (1, 1), (2, 5)):
        x = torch.rand(sizes)
        torch.testing.assert_close(exported(x), program(x))


def test_what_torch_checks_itself_is_no_assumption() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] > 2, lambda: "too few")
        return x * 2 if x.shape[1] > 2 else torch.cat([x, x[:, :-1]])

    with warnings.catch_warnings():
        warnings.simplefilter("error", onnx_parity.TracerWarning)
        exported = onnx_parity.export(program, (torch.rand(4, 5),), dynamic_shapes=({0: "n", 1: "m"},))
    assert not exported.assumptions

"""The rotation of queries and keys, as language models write it, becomes RotaryEmbedding where ONNX has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.linspace(-2, 2, 2 * 3 * 5 * 8).reshape(2, 3, 5, 8)


def turned(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def angles(x: torch.Tensor, heads_axis: int = 1) -> torch.Tensor:
    places = torch.arange(x.shape[3 - heads_axis])[None, :, None]
    return places * torch.tensor([1.0, 0.1, 0.01, 0.001])


def rotated(x: torch.Tensor, scale: float = 1.5) -> torch.Tensor:
    both = torch.cat((a := angles(x), a), -1)
    cos, sin = (both.cos() * scale).to(x.dtype).unsqueeze(1), (both.sin() * scale).to(x.dtype).unsqueeze(1)
    return x * cos + turned(x) * sin


def in_another_order(x: torch.Tensor) -> torch.Tensor:
    both = torch.cat((a := angles(x), a), -1)
    return both.sin().unsqueeze(1) * turned(x) + both.cos().unsqueeze(1) * x


def with_other_angles(x: torch.Tensor) -> torch.Tensor:
    both = torch.cat((angles(x), angles(x) * 2), -1)
    return x * both.cos().unsqueeze(1) + turned(x) * both.sin().unsqueeze(1)


def turned_the_other_way(x: torch.Tensor) -> torch.Tensor:
    both = torch.cat((a := angles(x), a), -1)
    return x * both.cos().unsqueeze(1) + torch.cat((x[..., 4:], -x[..., :4]), -1) * both.sin().unsqueeze(1)


def of_parts_of_other_sizes(x: torch.Tensor) -> torch.Tensor:
    both = torch.cat((a := angles(x), a), -1)
    return x * both.cos().unsqueeze(1) + torch.cat((-x[..., 3:], x[..., :3]), -1) * both.sin().unsqueeze(1)


def with_heads_behind(x: torch.Tensor) -> torch.Tensor:
    both = torch.cat((a := angles(x, heads_axis=2), a), -1)
    return x * both.cos().unsqueeze(2) + turned(x) * both.sin().unsqueeze(2)


def of_four_axes(x: torch.Tensor) -> torch.Tensor:
    both = torch.cat((a := angles(x), a), -1)[:, None]
    return x * both.cos() + turned(x) * both.sin()


def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    both = torch.cat((a := angles(x), a), -1)
    cos, sin = both.cos().unsqueeze(1), both.sin().unsqueeze(1)
    y = x[:, :1]
    return x * cos + turned(x) * sin, y * cos + turned(y) * sin


@pytest.mark.parametrize(
    ("program", "count"),
    [
        (rotated, 1),
        (in_another_order, 1),
        (twice, 2),
        (with_other_angles, 0),
        (turned_the_other_way, 0),
        (of_parts_of_other_sizes, 0),
        (with_heads_behind, 0),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
@pytest.mark.parametrize("axes", [None, {"x": {0: "batch", 2: "length"}}], ids=["static", "dynamic"])
def test_what_is_fused(program: Callable[[torch.Tensor], Any], count: int, axes: Any) -> None:
    capture = onnx_parity.capture_program(program, (X,), input_names=["x"], dynamic_axes=axes)
    exported = capture.lower(23)
    assert [node.op_type for node in exported.model.graph].count("RotaryEmbedding") == count
    for x in (X, -X, *((X[:1], X[:, :, :2]) if axes else ())):
        assert_agrees(exported, program, x)
    assert not any(node.op_type == "RotaryEmbedding" for node in capture.lower(22).model.graph)


@pytest.mark.parametrize(("axes", "count"), [(None, 1), ({"x": {2: "length"}}, 0)], ids=["static", "dynamic"])
def test_angles_of_four_axes_are_fused_if_they_are_known(axes: Any, count: int) -> None:
    exported = onnx_parity.export(of_four_axes, (X,), input_names=["x"], dynamic_axes=axes, opset_version=23)
    assert [node.op_type for node in exported.model.graph].count("RotaryEmbedding") == count
    assert_agrees(exported, of_four_axes, X)


def test_angles_that_are_a_weight_are_not_fused() -> None:
    class Rotated(torch.nn.Module):
        cos: torch.Tensor
        sin: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            both = torch.cat((a := angles(X), a), -1)[:, None]
            self.register_buffer("cos", both.cos())
            self.register_buffer("sin", both.sin())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.cos + turned(x) * self.sin

    exported = onnx_parity.export(Rotated(), (X,), opset_version=23)
    assert "RotaryEmbedding" not in {node.op_type for node in exported.model.graph}


def test_halves() -> None:
    exported = onnx_parity.export(rotated, (X.half(),), opset_version=24)
    assert "RotaryEmbedding" in {node.op_type for node in exported.model.graph}
    torch.testing.assert_close(exported(X.half()), rotated(X.half()), rtol=2e-3, atol=4e-3)

"""Root mean square norms, as language models write them, become RMSNormalization where ONNX has it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.linspace(-2, 3, 2 * 3 * 8).reshape(2, 3, 8)
WEIGHT = nn.Parameter(torch.linspace(0.5, 1.5, 8))


def of_llama(x: torch.Tensor) -> torch.Tensor:
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return WEIGHT.to(x.dtype) * wide.to(x.dtype)


def of_gemma(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * (1 + WEIGHT)


def with_a_quotient(x: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-3) * WEIGHT


def of_a_matrix(x: torch.Tensor) -> torch.Tensor:
    return of_gemma(x.flatten(0, 1))


def over_another_axis(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * WEIGHT


def of_another_tensor(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * (x + 1)).mean(-1, keepdim=True) + 1e-5) * WEIGHT


def with_a_scale_for_each_row(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * WEIGHT[:3, None]


def without_a_scale(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * 3.0


def of_a_variance(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5) * WEIGHT


@pytest.mark.parametrize(
    ("program", "count"),
    [
        (of_llama, 1),
        (of_gemma, 1),
        (with_a_quotient, 1),
        (of_a_matrix, 1),
        (over_another_axis, 0),
        (of_another_tensor, 0),
        (with_a_scale_for_each_row, 0),
        (without_a_scale, 0),
        (of_a_variance, 0),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_what_is_fused(program: Callable[[torch.Tensor], torch.Tensor], count: int) -> None:
    capture = onnx_parity.capture_program(program, (X,), input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    exported = capture.lower(23)
    assert [node.op_type for node in exported.model.graph].count("RMSNormalization") == count
    for x in (X, -X, X[:1] * 1e-3):
        assert_agrees(exported, program, x)
    assert not any(node.op_type == "RMSNormalization" for node in capture.lower(22).model.graph)


def test_halves_are_normalized_in_float32() -> None:
    exported = onnx_parity.export(of_llama, (X.half(),), opset_version=23)
    assert [node.op_type for node in exported.model.graph].count("RMSNormalization") == 1
    x = X.half() * 300  # Its squares are too large for float16.
    torch.testing.assert_close(exported(x), of_llama(x), rtol=2e-3, atol=1e-3)

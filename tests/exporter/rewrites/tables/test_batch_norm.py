"""Batch norms that become a part of the layer before them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.rewrites.tables.batch_norm import BATCH_NORM
from tests.exporter.rewrites.models import assert_rewritten, assert_stays
from tests.exporter.subjects import assert_agrees, images

_NORM = "float[2] scale = {2, 3}, float[2] shift = {1, 2}, float[2] mean = {0.5, 1}, float[2] var = {3, 8}"


def normed(layer: str, weight: str, sizes: str, more: str = "", results: str = "") -> str:
    return f"""(float[{sizes}] x) => (float[{sizes}] y{results}) <{weight}, {_NORM}> {{
        a = {layer}
        y = BatchNormalization <epsilon = 1.0> (a, scale, shift, mean, var)
        {more}
    }}"""


_KERNEL = "float[2,2,1,1] w = {1, 2, 3, 4}"
_CONVOLVED = normed("Conv <kernel_shape = [1, 1]> (x, w)", _KERNEL, "1,2,3,3")


def test_a_convolution_is_scaled() -> None:
    assert_rewritten(
        BATCH_NORM,
        _CONVOLVED,
        """(float[1,2,3,3] x) => (float[1,2,3,3] y) <float[2,2,1,1] w = {1, 2, 3, 4}, float[2] shift = {0.5, 1}> {
            y = Conv <kernel_shape = [1, 1]> (x, w, shift)
        }""",
        weights=["w"],
    )


def test_a_linear_layer_is_scaled() -> None:
    assert_rewritten(
        BATCH_NORM,
        normed("Gemm <transB = 1> (x, w, b)", "float[2,2] w = {1, 2, 3, 4}, float[2] b = {1, 1}", "N,2"),
        """(float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2] shift = {1.5, 2}> {
            y = Gemm <transB = 1> (x, w, shift)
        }""",
        weights=["w"],
    )


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (_CONVOLVED.replace("Conv <kernel_shape = [1, 1]> (x, w)", "Neg (x)"), "it does not follow a convolution"),
        (normed("Gemm (x, w)", "float[2,2] w = {1, 2, 3, 4}", "N,2"), "it does not follow a convolution or a linear"),
        (
            normed("Conv (x, w)", _KERNEL, "1,2,3,3", "v = Neg (a)", ", float[1,2,3,3] v"),
            "the layer's result is read elsewhere too",
        ),
        (
            normed("Conv (x, w)", _KERNEL, "1,2,3,3", "v = Conv (x, w)", ", float[1,2,3,3] v"),
            "another layer has the same weight",
        ),
        (normed("Conv (x, w2)", _KERNEL, "1,2,3,3").replace("a =", "w2 = Neg (w) a ="), "a parameter is not known"),
    ],
)
def test_norms_that_stay(text: str, because: str) -> None:
    assert_stays(BATCH_NORM, text, because, weights=["w"])


def test_weights_in_files_are_not_scaled() -> None:
    assert_stays(BATCH_NORM, _CONVOLVED, "weights stay in their files", weights=["w"], keeps_weights=True)


def norm(channels: int, **options: Any) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(channels, **options)
    assert layer.running_mean is not None and layer.running_var is not None
    layer.running_mean.uniform_(-1, 1)
    layer.running_var.uniform_(0.5, 2)
    if layer.affine:
        nn.init.uniform_(layer.weight, 0.5, 2)
        nn.init.uniform_(layer.bias, -1, 1)
    return layer.eval()


class SharedNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1), norm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(self.b(self.norm(self.a(x))))
        return result


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv2d(3, 4, 3), norm(4)),
        nn.Sequential(nn.Conv2d(3, 6, 3, groups=3, dilation=2, bias=False), norm(6, affine=False)),
        SharedNorm(),
    ],
    ids=["bias", "groups", "shared norm"],
)
def test_networks_of_torch(model: nn.Module, opset: int) -> None:
    program = onnx_parity.export(model.eval(), (images(),), opset_version=opset)
    assert "BatchNormalization" not in {node.op_type for node in program.model.graph}
    assert_agrees(program, model, images())

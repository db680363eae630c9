"""Graphs are written as onnxruntime's fusions expect them, which a session's optimized model shows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onnx_parity

X = torch.linspace(-2, 2, 2 * 5 * 64).reshape(2, 5, 64)


class NormOfLlama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 2, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        normalized: torch.Tensor = self.weight * (wide * torch.rsqrt(variance + 1e-6)).to(x.dtype)
        return normalized


def gelu_of_gpt2(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


@pytest.mark.parametrize(
    ("layer", "fused"),
    [
        (NormOfLlama(), "SimplifiedLayerNormalization"),
        (nn.RMSNorm(64), "SimplifiedLayerNormalization"),
        (gelu_of_gpt2, "FastGelu"),
        (nn.GELU(approximate="tanh"), "FastGelu"),
        (nn.GELU(), "Gelu"),
    ],
    ids=["norm of Llama", "RMSNorm", "GELU of GPT-2", "approximate GELU", "GELU"],
)
@pytest.mark.parametrize("axes", [None, {"x": {0: "batch", 1: "length"}}], ids=["static", "dynamic"])
def test_what_onnxruntime_fuses(layer: Any, fused: str, axes: Any, tmp_path: Path) -> None:
    # onnxruntime does not fuse what gives an output of the model.
    exported = onnx_parity.export(
        lambda x: layer(x.relu()).relu(), (X,), input_names=["x"], dynamic_axes=axes, opset_version=18
    )
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(exported.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert fused in {node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node}

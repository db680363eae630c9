"""Convolutions of each channel over the tokens up to each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onnx_parity
from onnx_parity.exporter.rewrites.tables.causal_convolutions import CAUSAL_CONVOLUTIONS
from tests.exporter.rewrites.models import assert_stays

CHANNELS, KERNEL = 6, 4


class Convolution(nn.Module):
    """As transformers' models with a state have it: for a prompt, or with the tokens before as a state."""

    def __init__(self, with_state: bool) -> None:
        super().__init__()
        self.conv = nn.Conv1d(CHANNELS, CHANNELS, KERNEL, groups=CHANNELS, padding=0 if with_state else KERNEL - 1)

    def forward(self, x: Tensor, state: Tensor | None = None) -> Any:
        if state is None:
            return F.silu(self.conv(x)[..., : x.shape[-1]])
        seen = torch.cat([state, x], -1)
        return F.silu(self.conv(seen)), seen[..., 1 - KERNEL :]


@pytest.mark.parametrize("with_state", [False, True])
def test_a_causal_convolution(with_state: bool) -> None:
    inputs = [torch.randn(2, CHANNELS, 7), torch.randn(2, CHANNELS, KERNEL - 1)][: 1 + with_state]
    axes = [{0: "batch", 2: "tokens"}, {0: "batch"}][: 1 + with_state]
    program = onnx_parity.export(
        Convolution(with_state).eval(), tuple(inputs), dynamic_shapes=axes, opset_version=27, verify=True
    )
    kinds = [node.op_type for node in program.model.graph]
    assert kinds == (["Concat", "CausalConvWithState", "Slice"] if with_state else ["CausalConvWithState"])


def text(kernel: str = "6,1,4", pads: str = "3, 0", more: str = "", group: int = 6, kind: str = "float") -> str:
    return f"""({kind}[2,6,9] x, {kind}[{kernel}] w) => ({kind}[2,6,n] y) {{
        y = Conv <group = {group}, pads = [{pads}]{more}> (x, w)
    }}"""


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (text(pads="2, 1"), "it does not see the tokens before each of as many"),
        (text(kernel="6,6,4", group=1), "it mixes channels"),
        (text(more=", dilations = [2]", pads="6, 0"), "it has steps or gaps, or chooses its padding itself"),
        (text(kind="double"), "CausalConvWithState does not take its dtype"),
    ],
)
def test_other_convolutions_stay(model: str, reason: str) -> None:
    assert_stays(CAUSAL_CONVOLUTIONS, model, reason, opset=27)

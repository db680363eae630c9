"""Modules of training for quantization, which average the limits of what they see until observers are disabled."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.ao.quantization as ao

import onnx_parity


@pytest.mark.parametrize("channels", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_modules_that_observe_what_they_quantize(channels: bool, symmetric: bool) -> None:
    kind = f"per_{'channel' if channels else 'tensor'}_{'symmetric' if symmetric else 'affine'}"
    observer = ao.MovingAveragePerChannelMinMaxObserver if channels else ao.MovingAverageMinMaxObserver
    quantizer = ao.FusedMovingAvgObsFakeQuantize(observer, 0, 127, dtype=torch.quint8, qscheme=getattr(torch, kind))
    x = torch.linspace(-2, 3, 12).reshape(3, 4)
    quantizer(x / 2)
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=r"min_val, .*max_val"):
        program = onnx_parity.export(quantizer, (x,), dynamic_shapes=({1: "columns"},))
    for seen in (x, x[:, :1], torch.zeros(3, 2), -x.repeat(1, 2)):
        torch.testing.assert_close(program(seen), copy.deepcopy(quantizer)(seen))

"""What an export holds while it runs is released when it has ended."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

import onnx_parity
from onnx_parity.exporter.recording.recorder import Recorder


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Hardswish(), nn.Flatten())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y.softmax(1) + y.mean(1, keepdim=True)


class DataDependent(Plain):
    """Its results have as many elements as are positive. torch asks its own cached functions about such sizes."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x).flatten()
        found = y[y > 0]
        return found[found.argsort()][: x.shape[0] * 3] * found.new_ones(found.shape[0])[: x.shape[0] * 3]


@pytest.mark.parametrize("kind", [Plain, DataDependent])
@pytest.mark.parametrize("dynamic_axes", [{}, {"x": {0: "batch", 2: "height"}}], ids=["static", "dynamic"])
def test_nothing_is_left_of_a_capture_that_nobody_refers_to(
    kind: type[Plain], dynamic_axes: dict[str, dict[int, str]]
) -> None:
    module = kind().eval()
    weights = [weakref.ref(each) for each in module.parameters()]
    gc.collect()
    earlier = _recorders()
    captured = onnx_parity.capture_program(
        module, (torch.randn(2, 3, 8, 8),), input_names=["x"], dynamic_axes=dynamic_axes
    )
    captured.lower(18).serialize()
    del module, captured
    gc.collect()
    assert [each() for each in weights] == [None] * len(weights)
    assert _recorders() == earlier


def _recorders() -> int:
    return sum(type(each) is Recorder for each in gc.get_objects())

"""Parameters that a program makes anew on the other side of a branch are the module's own again after an export."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import onnx_parity


class Positions(nn.Module):
    """Makes its table anew where that is too short, as the embeddings of FSMT do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(9, 3), requires_grad=False)

    def make(self, count: int) -> None:
        self.weight = nn.Parameter(torch.ones(count, 3).to(self.weight.dtype), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > self.weight.size(0):
            self.make(x.shape[1])
        return x * self.weight[: x.shape[1]].sum(1)


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_a_parameter_that_is_made_anew_is_put_back() -> None:
    module = Positions()
    own = module.weight
    exported = onnx_parity.export(module, (torch.rand(2, 4),), dynamic_axes={"x": {1: "places"}})
    assert module.weight is own
    for places in (1, 7):
        x = torch.rand(2, places)
        torch.testing.assert_close(exported(x), module(x))

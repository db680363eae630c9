"""Programs of one to five operators, and a script."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["PROGRAMS", "Scripted"]


class _Function(nn.Module):
    """A function of tensors as a module, which both exporters of torch.onnx take."""

    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Tensor:
        result: Tensor = self.function(*tensors)  # type: ignore[operator]
        return result


class Scripted(nn.Module):
    """A program with a loop and a branch, which a script keeps."""

    def forward(self, x: Tensor) -> Tensor:
        for step in range(x.size(0)):
            if bool(x.sum() > 0):  # noqa: SIM108  A script keeps a branch of statements.
                x = x - step
            else:
                x = torch.relu(x) + 1
        return x


_X, _W, _IMAGE = torch.randn(3, 4), torch.randn(4, 5), torch.randn(2, 3, 8, 8)

#: Programs and their inputs, whose first axis may have any size in the first of them.
PROGRAMS: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "relu": (_Function(torch.relu), (_X,)),
    "mm": (_Function(torch.mm), (_X, _W)),
    "add": (_Function(lambda x: x + 1), (_X,)),
    "softmax": (_Function(lambda x: F.softmax(x, -1)), (_X,)),
    "linear": (nn.Linear(4, 5), (_X,)),
    "two linear": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (_X,)),
    "norm": (nn.LayerNorm(4), (_X,)),
    "convolution": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), (_IMAGE,)),
    "mean of squares": (_Function(lambda x: (x * x).mean(1).sqrt()), (_X,)),
    "split": (_Function(lambda x: torch.cat(x.chunk(2, 1)[::-1], 1).tanh()), (_X,)),
    "transposed": (_Function(lambda x: x.flatten(1).t() @ x.flatten(1)), (_IMAGE,)),
    "embedding": (nn.Embedding(10, 4), (torch.tensor([[1, 2], [3, 4]]),)),
}

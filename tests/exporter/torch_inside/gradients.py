"""Programs that ask for gradients, each with what is wrong without the change to an entry of autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd.functional import jacobian

__all__ = ["OF_GRADIENTS"]


class _Force(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return torch.autograd.grad((self.weight * x).sin().sum(), self.weight, create_graph=True)[0]


@torch.enable_grad()
def _backward(x: torch.Tensor) -> torch.Tensor | None:
    x = x.clone().requires_grad_()
    (x**2).sum().backward()
    return x.grad


@torch.enable_grad()
def _retain(x: torch.Tensor) -> torch.Tensor | None:
    y = x.clone().requires_grad_() * 2
    y.retain_grad()
    y.square().sum().backward()
    return y.grad


#: By the entry: a program, and the error without the change.
OF_GRADIENTS: dict[str, tuple[Callable[..., Any], str]] = {
    "torch.autograd.grad": (_Force(), "does not depend on what they are asked for"),
    "torch.autograd.backward": (_backward, "called inside a functorch transform"),
    "torch.Tensor.retain_grad": (_retain, "inside of a function being transformed"),
    "torch.autograd.functional.jacobian": (lambda x: jacobian(torch.sin, x), "is fixed by the program"),
    "torch._functorch.eager_transforms._chunked_standard_basis_for_": (
        torch.func.jacrev(lambda x: (x, x.sin())), "is fixed by the program"
    ),
}  # fmt: skip

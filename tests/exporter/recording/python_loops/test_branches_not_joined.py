"""Plain branches of Python on values whose sides cannot be joined: assumptions of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnx_parity


def of_other_dtypes(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x
    return x.long()


def of_other_structures(x: Tensor) -> Any:
    if x.sum() > 0:
        return x
    return x, x


def with_a_gradient(x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    y = (x**2).sum()
    if x.sum() > 0:
        y = y * 2
    return torch.autograd.grad(y, x)[0]


TOTAL = 0
SEEN: list[int] = []


def with_a_global(x: Tensor) -> Tensor:
    global TOTAL  # noqa: PLW0603
    TOTAL = 0
    if x.sum() > 0:
        TOTAL += 1
    return x * (2 + TOTAL)


def with_a_global_list(x: Tensor) -> Tensor:
    SEEN.clear()
    if x.sum() > 0:
        SEEN.append(1)
    return x * (2 + len(SEEN))


class OfTheClass:
    total = 0

    def __call__(self, x: Tensor) -> Tensor:
        OfTheClass.total = 0
        if x.sum() > 0:
            OfTheClass.total = 1
        return x * (1 + self.total)


def written_through_another_name(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1
    z = y.view(-1)
    if x.sum() > 0:
        z = z[:4]
        z.mul_(3)
    return y, z.sum()


@pytest.mark.parametrize(
    "program",
    [
        of_other_dtypes,
        of_other_structures,
        with_a_gradient,
        with_a_global,
        with_a_global_list,
        OfTheClass(),
        written_through_another_name,
    ],
)
def test_what_no_branch_of_a_model_joins_is_an_assumption(program: Callable[[Tensor], Any]) -> None:
    x = torch.ones(3, 4)
    with pytest.warns(onnx_parity.TracerWarning, match="turned a tensor into a Python value") as caught:
        made = onnx_parity.export(program, (x,))
    assert len(caught) == len(made.assumptions) == 1
    torch.testing.assert_close(made(x), program(x.clone()))
    with pytest.raises(onnx_parity.AssumptionError):
        made(-x)

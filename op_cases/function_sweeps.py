"""Programs that call a function which is itself swept over: `op(of_one, floats(3, 4), f=[torch.sin, torch.cos])`."""

from __future__ import annotations

from collections.abc import Callable

import torch


def of_one(x: torch.Tensor, f: Callable[[torch.Tensor], object]) -> object:
    return f(x)


def twice(x: torch.Tensor, f: Callable[[torch.Tensor], object]) -> object:
    """The second call of an operator in a program is lowered after the first."""
    return f(x), f(x.flip(0))


def of_two(x: torch.Tensor, y: object, f: Callable[[torch.Tensor, object], object]) -> object:
    return f(x, y)

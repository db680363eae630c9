"""Programs that call a function which is itself swept over: `op(of_one, floats(3, 4), f=[torch.sin, torch.cos])`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import torch

from onnx_parity.harness.case import Maker, given


def of_one(x: torch.Tensor, f: Callable[[torch.Tensor], object]) -> object:
    return f(x)


def twice(x: torch.Tensor, f: Callable[[torch.Tensor], object]) -> object:
    """The second call of an operator in a program is lowered after the first."""
    return f(x), f(x.flip(-1))


def again(program: Callable[..., object]) -> Callable[..., object]:
    """A program of tensors, which also runs on them with all their axes turned."""

    @wraps(program)
    def both(*tensors: torch.Tensor) -> object:
        return program(*tensors), program(*(each.flip(tuple(range(each.dim()))) for each in tensors))

    return both


def of_two(x: torch.Tensor, y: object, f: Callable[[torch.Tensor, object], object]) -> object:
    return f(x, y)


def edges(*values: float) -> Maker:
    """Numbers that functions treat otherwise than those beside them: more than 30 elements, and an axis of size 1,
    because few other cases have such numbers in tensors of these sizes."""
    return given([[*values] * (30 // len(values) + 1)])

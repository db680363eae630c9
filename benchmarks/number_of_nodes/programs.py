"""Programs of any number of parts of one kind: steps of a loop, writes, inputs, outputs, weights, modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["KINDS", "Program"]

X = torch.ones(3, 4)


@dataclass(frozen=True)
class Program:
    """A program and its arguments. The first axis of each may be dynamic."""

    function: Callable[..., object]
    args: tuple[Tensor, ...] = (X,)


class _Weights(nn.Module):
    def __init__(self, number: int, *, are_combined: bool) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(4)) for _ in range(number))
        self.are_combined = are_combined

    def forward(self, x: Tensor) -> Tensor:
        if self.are_combined:
            combined = torch.ones(4)
            for weight in self.weights:
                combined = torch.tanh(combined * weight)
            return x + combined
        for weight in self.weights:
            x = torch.relu(x + weight)
        return x


def _tree(leaves: int) -> nn.Module:
    """Modules of two modules each. (A chain of modules in modules is as long as Python's stack allows.)"""
    if leaves < 2:
        return nn.Linear(4, 4)
    return nn.Sequential(_tree(leaves // 2), _tree(leaves - leaves // 2))


def _loop(number: int) -> Program:
    def function(x: Tensor) -> Tensor:
        for step in range(number):
            x = x * 1.01 + step
        return x

    return Program(function)


def _writes(number: int) -> Program:
    def function(x: Tensor) -> Tensor:
        y = torch.zeros(number, 4)
        for step in range(number):
            y[step] = x[0] * step
        return y

    return Program(function)


def _recurrence(number: int) -> Program:
    def function(x: Tensor) -> Tensor:
        y = torch.zeros(4, number)
        y[:, 0] = x[0]
        for step in range(1, number):
            y[:, step] = y[:, step - 1] * 0.5 + y[:, 0]
        return y

    return Program(function)


def _joins(number: int) -> Program:
    def function(x: Tensor) -> Tensor:
        y = x
        for step in range(number):
            y = torch.cat([y, x * step])
        return y

    return Program(function)


def _inputs(number: int) -> Program:
    def function(*inputs: Tensor) -> Tensor:
        total = inputs[0]
        for each in inputs[1:]:
            total = total + each
        return total

    return Program(function, (X,) * number)


def _outputs(number: int) -> Program:
    return Program(lambda x: [x + step for step in range(number)])


def _branches(number: int) -> Program:
    def function(x: Tensor) -> Tensor:
        for _ in range(number):
            x = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return x

    return Program(function)


KINDS: dict[str, Callable[[int], Program]] = {
    "steps of a loop": _loop,
    "writes to rows": _writes,
    "writes that read earlier ones": _recurrence,
    "joins of what was joined": _joins,
    "branches": _branches,
    "inputs": _inputs,
    "outputs": _outputs,
    "weights": lambda number: Program(_Weights(number, are_combined=False)),
    "weights that are combined": lambda number: Program(_Weights(number, are_combined=True)),
    "modules in a row": lambda number: Program(nn.Sequential(*(nn.Linear(4, 4) for _ in range(number)))),
    "modules in modules": lambda number: Program(_tree(number)),
}

"""Loops of Python that a value of a tensor ends, of a `while`, or of a `for` over a known number of items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.tensor([[1.0, -0.2, 0.3], [0.5, 9.0, -2.0]])


def _halved(x: Tensor) -> Tensor:
    while x.abs().max() > 1:
        x = x / 2
    return x


def _until(x: Tensor) -> tuple[Tensor, int]:
    count = 0
    while True:
        x = x / 2
        count += 1
        if x.abs().sum() < 1:
            break
    return x, count


def _written(x: Tensor) -> tuple[Tensor, Tensor]:
    y, count = x.clone(), torch.zeros(())
    while (y > 1).any().item():
        y.mul_(0.5)
        count += 1
    return y, count


def _collected(x: Tensor) -> Tensor:
    parts = [x]
    while not bool((x.abs() < 1).all()) and len(parts) < 9:
        x = x / 2
        parts.append(x)
    return torch.stack(parts)


def _broken(x: Tensor) -> tuple[Tensor, int]:
    number = 0
    for number in range(2, 20, 3):
        x = x * 1.5 + number
        if x.abs().max() > 40:
            break
    else:
        x = x - 100
    return x, number


def _returned(x: Tensor) -> Tensor:
    for number in range(6):
        x = x * 1.5
        if x.abs().max() > 40:
            return x * number
    return x - 1


def _converged(x: Tensor) -> Tensor:
    root, target = x.abs() + 1, x.abs() + 2
    for _ in range(50):
        further = 0.5 * (root + target / root)
        if torch.allclose(further, root, atol=1e-5):
            return further
        root = further
    return root


def _propagated(x: Tensor) -> Tensor:
    """The least number in each row, which is found step by step."""
    while True:
        less = torch.minimum(x, x.roll(1, 1))
        if torch.equal(less, x):
            break
        x = less
    return x


def _nested(x: Tensor) -> Tensor:
    for _ in range(4):
        for k in range(5):
            if x.abs().max() > 20:
                break
            x = x * 1.3 + k
        if x.sum() > 90:
            break
    return x


class _Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.step, self.scores = nn.GRUCell(3, 3), nn.Linear(3, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tokens, done = torch.full((x.shape[0], 8), 9), torch.zeros(x.shape[0], dtype=torch.bool)
        state, score = x, torch.zeros(x.shape[0])
        for place in range(8):
            state = self.step(x, state)
            best, token = self.scores(state).log_softmax(-1).max(-1)
            tokens[:, place] = torch.where(done, 9, token)
            score = score + best * ~done
            done = done | (token == 2)
            if done.all():
                break
        return tokens, score


PROGRAMS = [_halved, _until, _written, _collected, _broken, _returned, _converged, _propagated, _nested, _Decoder()]


@pytest.mark.parametrize("program", PROGRAMS)
def test_they_are_loops_of_the_model(program: Callable[..., Any]) -> None:
    made = onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    assert not made.assumptions
    for size, scale in ((2, 1), (1, 0.1), (3, 10), (7, 100)):
        torch.manual_seed(size)
        assert_agrees(made, program, torch.randn(size, 3) * scale)


@pytest.mark.parametrize("program", [_halved, _broken])
def test_so_are_they_with_static_sizes(program: Callable[..., Any]) -> None:
    made = onnx_parity.export(program, (X,))
    assert not made.assumptions
    for scale in (1, 0.01, 100):
        assert_agrees(made, program, X * scale)


def test_what_is_only_asked_in_them_is_no_end() -> None:
    """`any` asks of each item, and ends with the first that is true."""

    def program(x: Tensor) -> Tensor:
        while any([x.max() > 1, x.min() < -1]):
            x = x / 2
        return x

    with pytest.warns(onnx_parity.TracerWarning):
        made = onnx_parity.export(program, (X,))
    assert made.assumptions
    assert_agrees(made, program, X * 1.01)


def test_loops_over_modules_end_in_branches() -> None:
    class Program(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

        def forward(self, x: Tensor) -> Tensor:
            for number in range(3):
                x = self.layers[number](x)
                if x.abs().max() < 0.5:
                    break
            return x

    torch.manual_seed(0)
    program = Program()
    made = onnx_parity.export(program, (X,), strict=True)
    assert [node.op_type for node in made.model_proto.graph.node].count("If") == 1
    for scale in (0, 0.1, 0.5, 1, 2, 10):
        assert_agrees(made, program, X * scale)

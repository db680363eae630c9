"""Python's own functions, such as `int` and `len`, as programs call them with dynamic sizes."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onnx_parity
from onnx_parity.exporter.capture.sizes.python_functions import calls_with_sizes
from onnx_parity.exporter.errors import ProgramFailedError
from tests.exporter.subjects import assert_agrees


def scaled(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    return F.interpolate(x[None, None], size=(int(rows * 1.5), int(columns / 2)))


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, max(0, 6 - x.shape[1]), 0, -len(x) % 4))


def kept(x: torch.Tensor) -> torch.Tensor:
    return x[: min(len(x), 3), : min(x.shape)] / float(max([*x.shape, 5]))


def pair(size: Any) -> tuple[Any, Any]:
    return (size, size) if isinstance(size, int) else size


def pooled(x: torch.Tensor) -> torch.Tensor:
    return F.adaptive_avg_pool2d(x[None], pair(1)) + x.new_ones(pair(len(x)))


def inside(x: torch.Tensor) -> torch.Tensor:
    """In a lambda, a comprehension and a method."""
    halved: Callable[[int], int] = lambda size: int(size / 2)  # noqa: E731
    return x.new_ones([max(halved(size), 2) for size in x.shape]) * float(math.sqrt(len(x)))


def powers(x: torch.Tensor) -> torch.Tensor:
    """Room for a Fourier transform."""
    length = int(2 ** math.ceil(math.log2(max(len(x), 2))))
    return F.pad(x, (0, 0, 0, length - len(x))) * float(3 ** x.shape[1] + abs(len(x) - 6))


def kinds(x: torch.Tensor) -> torch.Tensor:
    rows, columns = divmod(x.numel(), 3)
    assert type(rows) is int and isinstance(math.sqrt(rows), float) and isinstance(rows > 0, (bool, str))
    assert not isinstance(rows, (str, float)) and isinstance(rows, torch.SymInt | int)
    return x * rows + columns


@pytest.mark.parametrize("program", [scaled, padded, kept, pooled, inside, powers, kinds])
def test_sizes_stay_dynamic(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    code = program.__code__ if isinstance(program, FunctionType) else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported = onnx_parity.export(
            program, (torch.rand(4, 5),), input_names=["x"], dynamic_axes={"x": {0: "rows", 1: "columns"}}, verify=True
        )
    assert code is not None and program.__code__ is code
    for sizes in ((3, 4), (7, 9), (2, 16)):
        assert_agrees(exported, program, torch.rand(sizes))


class Halving(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[: self.first_half(x)]

    def first_half(self, x: torch.Tensor) -> int:
        return int(len(x) * 0.5)


def test_of_methods() -> None:
    exported = onnx_parity.export(Halving(), (torch.rand(4),), input_names=["x"], dynamic_axes={"x": [0]})
    assert_agrees(exported, Halving(), torch.rand(9))


def test_own_functions_of_these_names_are_called() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * len([1, 2, 3])

    names: dict[str, Any] = {}
    own = FunctionType(program.__code__, names)
    for expected in (3, 6):
        exported = onnx_parity.export(own, (torch.rand(4),), input_names=["x"], dynamic_axes={"x": [0]})
        assert exported(torch.ones(2)).tolist() == [expected] * 2
        names["len"] = lambda values: 2 * values.__len__()


def many_names() -> FunctionType:
    """A function with more names and constants than fit into one byte."""
    lines = [f"    total += x.shape[0] * {number}.5 + int(names.n{number} * x.shape[0] / 2)" for number in range(300)]
    source = "\n".join(["def program(x):", "    total = 0", *lines, "    return x * total"])
    scope: dict[str, Any] = {"names": type("Names", (), {f"n{number}": number for number in range(300)})}
    exec(source, scope)
    made = scope["program"]
    assert isinstance(made, FunctionType)
    return made


def test_of_a_function_with_many_names() -> None:
    program = many_names()
    exported = onnx_parity.export(program, (torch.rand(4),), input_names=["x"], dynamic_axes={"x": [0]})
    assert_agrees(exported, program, torch.rand(5))


def test_code_is_exchanged_until_the_last_recording_ends() -> None:
    def program(x: torch.Tensor) -> int:
        return int(x.shape[0])

    assert isinstance(program, FunctionType)
    own, functions = program.__code__, [program]
    entered, leave = threading.Event(), threading.Event()

    def elsewhere() -> None:
        with calls_with_sizes(functions):
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=elsewhere)
    with calls_with_sizes(functions * 2):
        ours = program.__code__
        assert ours is not own and ours.co_code != own.co_code
        other.start()
        assert entered.wait(10)
    assert program.__code__ is ours
    assert program(torch.ones(3)) == 3
    leave.set()
    other.join()
    assert program.__code__ is own


def test_code_is_put_back_after_a_failure() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        raise ValueError(int(x.shape[0] / 2))

    own = program.__code__
    with pytest.raises(ProgramFailedError, match="ValueError"):
        onnx_parity.export(program, (torch.rand(4),), input_names=["x"], dynamic_axes={"x": [0]})
    assert program.__code__ is own

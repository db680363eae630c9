"""Python's own functions, such as `int` and `len`, as programs call them with dynamic sizes."""

from __future__ import annotations

import enum
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
from onnx_parity.exporter.errors import ProgramFailedError
from onnx_parity.exporter.sizes.python_functions import CALLS_WITH_SIZES
from onnx_parity.exporter.torch_inside.code_objects import names_in
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


def rounded_as_by_python(x: torch.Tensor) -> torch.Tensor:
    """Factors and terms that must not be merged, because each operation rounds."""
    rows = len(x)
    numbers = [
        int(rows * 0.1 + rows * 0.7),
        int(rows * 0.7 * 10),
        int((float(rows) - 1) * 0.7),
        math.floor(rows * 0.1 * 3),
    ]
    return torch.tensor(numbers) + x.sum().long() * 0 + (int(rows) & 3)


class Kind(enum.IntEnum):
    SMALL = 4


def compared_with_a_member(x: torch.Tensor) -> torch.Tensor:
    return x * (len(x) * Kind.SMALL + max(Kind.SMALL, 5))


@pytest.mark.parametrize(
    "program", [scaled, padded, kept, pooled, inside, powers, kinds, rounded_as_by_python, compared_with_a_member]
)
def test_sizes_stay_dynamic(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    code = program.__code__ if isinstance(program, FunctionType) else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported = onnx_parity.export(
            program, (torch.rand(4, 5),), input_names=["x"], dynamic_axes={"x": {0: "rows", 1: "columns"}}, verify=True
        )
    assert code is not None and program.__code__ is code
    for sizes in ((3, 4), (7, 9), (2, 16), (10, 4), (11, 3)):
        assert_agrees(exported, program, torch.rand(sizes))


class Merging(nn.Module):
    """A module with the pairs of a tokenizer, which are many."""

    def __init__(self) -> None:
        super().__init__()
        self.merges = [(str(number), "e") for number in range(30_000)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[: int(len(x) / 2)]


def test_of_a_module_that_holds_much() -> None:
    exported = onnx_parity.export(Merging(), (torch.rand(4),), input_names=["x"], dynamic_axes={"x": [0]})
    assert_agrees(exported, Merging(), torch.rand(9))


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


@pytest.mark.slow
def test_of_a_function_with_many_names() -> None:
    program = many_names()
    exported = onnx_parity.export(program, (torch.rand(4),), input_names=["x"], dynamic_axes={"x": [0]})
    assert_agrees(exported, program, torch.rand(5))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * len(str(len(x))),
        lambda x: x * len(f"{int(x.shape[0])}"),
        lambda x: x * len(f"{float(x.shape[0]):.2f}"),
        lambda x: x * dict(enumerate([0.5] * 20))[len(x)],
    ],
)
def test_texts_and_hashes_are_those_of_numbers(program: Any) -> None:
    with pytest.raises(onnx_parity.DynamicAxisError, match=r"the program needs (n|ToFloat\(n\)) to be 4"):
        onnx_parity.export(program, (torch.ones(4),), input_names=["x"], dynamic_axes={"x": {0: "n"}})


@pytest.mark.parametrize(
    "program",
    [lambda x: x * {4: 1.0}[len(x)], lambda x: x * len(str(len(x))), lambda x: x * float(x.shape[0]).hex().count("p")],
)
def test_an_axis_that_needs_a_plain_number_is_static_where_it_may_be(program: Any) -> None:
    automatic = {"x": {0: torch.export.Dim.AUTO}}
    exported = onnx_parity.export(program, (torch.ones(4),), input_names=["x"], dynamic_shapes=automatic)
    assert_agrees(exported, program, torch.rand(4))
    assert exported.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 4


def test_floor_division_of_real_numbers_is_refused() -> None:
    with pytest.raises(onnx_parity.CaptureError, match=r"use math.floor\(a / b\)"):
        onnx_parity.export(
            lambda x: x * (float(len(x)) // 0.1), (torch.ones(4),), input_names=["x"], dynamic_axes={"x": [0]}
        )


def test_classes_that_are_made_belong_to_their_file() -> None:
    made = []

    def program(x: torch.Tensor) -> torch.Tensor:
        made.append(type("Made", (), {}).__module__)
        return x * len(x)

    assert isinstance(program, FunctionType)
    with CALLS_WITH_SIZES.within([(program, names_in(program.__code__))]):
        program(torch.ones(1))
    assert made == [__name__]


def test_code_is_exchanged_until_the_last_recording_ends() -> None:
    def program(x: torch.Tensor) -> int:
        return int(x.shape[0])

    assert isinstance(program, FunctionType)
    own, functions = program.__code__, [(program, names_in(program.__code__))]
    entered, leave = threading.Event(), threading.Event()

    def elsewhere() -> None:
        with CALLS_WITH_SIZES.within(functions):
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=elsewhere)
    with CALLS_WITH_SIZES.within(functions * 2):
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

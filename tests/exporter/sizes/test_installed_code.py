"""Dynamic sizes in functions of installed libraries, which call `int`, `len` and others of Python's functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.torch_inside.code_objects import code_of
from tests.exporter.subjects import assert_agrees, installed

_HELPERS = '''
import math
from dataclasses import dataclass

def pair(size):
    return (size, size) if isinstance(size, int) else size

def normalized(grid, height, width):
    """Of a library for geometry."""
    scale = [float(width - 1) / 2 + 1.0, float(height - 1) / 2 + 1.0]
    return grid * grid.new_tensor(scale).sum()

@dataclass
class Steps:
    size: int

    def __post_init__(self):
        self.half = int(self.size / 2)

class Planner:
    """Of a library for contractions."""

    def __init__(self, shape):
        self.shape = [int(size) for size in shape]

    def cost(self):
        total = 1
        for i in range(len(self.shape)):
            total *= int(self.shape[i])
        return total
'''

_LIBRARY = """
import math
import torch
from . import helpers
from .helpers import Planner, Steps

TABLE = {"crop": lambda x, size: x[: int(size)]}

def resized(x, size=8):
    height, width = x.shape[-2:]
    short, long = min(height, width), max(height, width)
    new = int(size * long / short)
    return torch.nn.functional.interpolate(x[None, None], size=(new, size))[0, 0]

def grid(x):
    return helpers.normalized(x, x.shape[-2], x.shape[-1])

def batched(x, batch_size=None):
    batch_size = x.shape[0] if batch_size is None else batch_size
    if not isinstance(batch_size, int) or batch_size < 0:
        raise TypeError("batch_size is to be an int")
    return x.new_ones(helpers.pair(batch_size)).sum() + x

def framed(waveform):
    return waveform[: len(waveform) // 2 + math.ceil(len(waveform) / 3)]

def planned(x):
    return x * Planner(x.shape).cost() + Steps(x.shape[0]).half

def counted(x):
    blocks, rest = divmod(x.numel(), 4)
    numbers = [sum(x.shape), abs(x.shape[0] - 5), round(x.shape[0] / 3), blocks, rest, max([*x.shape, 4])]
    return x.new_tensor([*map(float, numbers)]).sum() + x

def described(x):
    if x.dim() != 2:
        raise ValueError(f"got {x.shape}, of {x.shape[0]} rows: {str(x.shape)}")
    return x * x.shape[0]

def cropped(x):
    return TABLE["crop"](x, x.shape[0] / 2)

def made(size):
    def inner(x):
        return x[: int(x.shape[0] * size)]
    return inner

def repeated(x):
    for row in [*x]:
        x = x + row
    return x

class Layer(torch.nn.Module):
    def forward(self, x):
        return x.reshape(*self.sizes(x))

    def sizes(self, x):
        return [int(size) for size in x.shape[1:]] + [x.size(0)]
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package that is installed beside torch."""
    with installed("library_of_sizes", {"__init__": _LIBRARY, "helpers": _HELPERS}, tmp_path, monkeypatch) as package:
        yield package


NAMES = ["grid", "batched", "framed", "planned", "counted", "described", "cropped"]
SIZES = [(4, 5), (1, 1), (7, 5), (2, 11)]


def _assert_dynamic(program: Callable[[torch.Tensor], torch.Tensor], sizes: list[tuple[int, int]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported = onnx_parity.export(
            program, (torch.rand(4, 5),), input_names=["x"], dynamic_axes={"x": {0: "rows", 1: "columns"}}
        )
    for each in sizes:
        assert_agrees(exported, program, torch.rand(each))


@pytest.mark.parametrize("name", NAMES)
def test_of_a_function_that_the_program_calls(name: str, library: ModuleType) -> None:
    function = getattr(library, name)
    code = code_of(function)
    _assert_dynamic(lambda x: function(x) * 2, [*SIZES, (0, 3)])
    assert code_of(function) is code


@pytest.mark.parametrize("name", NAMES)
def test_of_a_function_that_is_found_while_the_program_runs(name: str, library: ModuleType) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        called: torch.Tensor = vars(library)[name](x)
        return called

    _assert_dynamic(program, SIZES)


def test_the_shorter_edge_is_resized(library: ModuleType) -> None:
    _assert_dynamic(library.resized, [(4, 5), (5, 4), (7, 13), (1, 2)])


def test_of_a_function_that_a_library_made(library: ModuleType) -> None:
    _assert_dynamic(library.made(0.5), [*SIZES, (0, 3)])


def test_of_a_module_of_a_library(library: ModuleType) -> None:
    _assert_dynamic(nn.Sequential(nn.ReLU(), library.Layer()), SIZES)


def test_the_advice_where_a_library_fixes_an_axis(library: ModuleType) -> None:
    with pytest.raises(onnx_parity.DynamicAxisError) as caught:
        onnx_parity.export(library.repeated, (torch.rand(4, 5),), input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    assert str(caught.value) == (
        "1 loop over a dynamic axis cannot become one of the model as it is written:\n"
        f"  - over 'rows' at {library.__file__}:49\n"
        "Write it in your own code in another way, or leave the axes out of dynamic_axes.\n"
        "`for i in range(x.shape[0])`, `for row in x` and a `while` with one condition, or several that `and` joins, "
        "become loops of the model, which run for any size, unless they fill a dict or a set, or look up the number of "
        "an iteration in one; so do the loops of a function with @torch.jit.script. Use lists and tensors, and `if "
        "...: break` for another condition of a `while`."
    )


def test_of_a_library_that_the_program_imports(library: ModuleType) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        from library_of_sizes.helpers import Planner  # type: ignore[import-not-found]

        result: torch.Tensor = x * Planner(x.shape).cost()
        return result

    _assert_dynamic(program, SIZES)


@pytest.mark.parametrize("target", ["site-packages", "target"])
def test_of_a_library_that_expects_sizes_to_be_no_keys(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
import functools

def _plan(size, more):
    return size * more + 1

_planned = functools.lru_cache(_plan)

def scaled(x):
    try:
        return x * _planned(x.shape[0], 2)
    except TypeError:
        return x * _plan(x.shape[0], 2)
"""
    name = "library_that_caches"
    with installed(name, {"__init__": source}, tmp_path, monkeypatch, target) as library:
        _assert_dynamic(library.scaled, [*SIZES, (0, 3), (7, 13)])

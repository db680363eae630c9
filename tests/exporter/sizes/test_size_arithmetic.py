"""Arithmetic and questions of programs over dynamic sizes, as the exported models answer them for other sizes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import onnx_parity
from tests.fresh import run_after_torch
from tests.thinned import one_in

_ROOT = Path(__file__).parents[3]
_AXES = {"x": {0: "n", 1: "m"}}
_SHAPES = [(5, 7), (2, 3), (9, 4), (12, 2), (3, 30)]


class _Calling(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def exported(function: Callable[[torch.Tensor], Any], shape: tuple[int, ...] = (5, 7)) -> onnx_parity.ONNXProgram:
    return onnx_parity.export(_Calling(function), (torch.rand(shape),), input_names=["x"], dynamic_axes=_AXES)


def same_for(program: onnx_parity.ONNXProgram, function: Callable[[torch.Tensor], Any], *shapes: Any) -> None:
    for shape in shapes:
        x = torch.rand(shape)
        torch.testing.assert_close(program(x), function(x), check_dtype=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[: (x.shape[0] << 1) >> 2],
        lambda x: torch.full((2,), 1 << (x.shape[0] // 3)),
        lambda x: x[: x.shape[0] >> (x.shape[1] % 2)],
        lambda x: torch.full((2,), x.shape[0] << 0),
        lambda x: x * (x.shape[0] * 0.1 + x.shape[0] * 0.7),
        lambda x: x * torch.sym_ite(x.shape[0] > x.shape[1], x.shape[0], x.shape[1]),
        lambda x: x * torch.sym_ite(x.shape[0] * 0.5 > x.shape[1] * 0.3, 2, 3),
        lambda x: x * torch.sym_ite(x.shape[0] / x.shape[1] <= 0.7, 2, 3),
        lambda x: x * (x.shape[0] % -3) + (-x.shape[1]) // 4,
        lambda x: F.pad(x, (0, (x.shape[1] | 1) - x.shape[1], 0, ((x.shape[0] + 7) & ~7) - x.shape[0])),
        lambda x: x * (x.shape[0] ^ 5) + (6 & x.shape[1]) * (-3 | x.shape[1]),
        lambda x: x.reshape(-1, 1)[: (x.shape[0] + x.shape[1]) * (x.shape[0] + 1) // (x.shape[0] + x.shape[1])],
        lambda x: torch.cat([x, x[1:]]).reshape(2 * x.shape[0] - 1, -1),
        lambda x: x.transpose(0, 1)[None].expand(3, -1, -1).reshape(3, -1, x.shape[0]),
    ],
)
def test_computed_sizes(function: Callable[[torch.Tensor], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnx_parity.TracerWarning)
        program = exported(function)
    same_for(program, function, *_SHAPES)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 if x.shape[0] > 0 else x * 3,
        lambda x: x.relu() if x.shape[0] > 0 else x,
        lambda x: x * 2 if x.numel() > 0 else x,
        lambda x: x * 2 if x.shape[1] >= 1 else x * 3,
        lambda x: x * 2 if x.shape[0] < math.inf else x,
        lambda x: x * 2 if x.shape[0] != math.inf else x,
    ],
)
def test_questions_that_do_not_matter_are_no_branches(function: Callable[[torch.Tensor], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnx_parity.TracerWarning)
        program = exported(function)
    same_for(program, function, *_SHAPES, (0, 7), (5, 0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.full((2,), x.shape[0] if x.shape[0] > 0 else x.shape[1]),
        lambda x: x * 2 if -3 / x.shape[0] < -0.2 else x * 3,
        lambda x: x * 2 if 3 / -x.shape[0] < -0.2 else x * 3,
        lambda x: x * 2 if x.shape[0] * math.inf == math.inf else x,
        lambda x: x * 2 if x.shape[0] == 5.0 else x,
    ],
)
def test_questions_that_matter_are_branches(function: Callable[[torch.Tensor], Any]) -> None:
    program = exported(function)
    assert not program.assumptions
    assert "If" in {node.op_type for node in program.model_proto.graph.node}
    same_for(program, function, (5, 7), (20, 3), (1, 2))


def test_numbers_that_are_read_are_compared_as_floats() -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        factor: int = torch.sym_ite(x[0, 0].item() < x[0, 1].item(), 2, 3)
        return x * factor

    program = exported(chosen)
    for first in ([0.3, 0.7], [0.7, 0.3], [0.5, 0.5], [math.nan, 0.5]):
        x = torch.tensor([first, [5.0, 1.0]])
        assert torch.equal(program(x).nan_to_num(9.0), chosen(x).nan_to_num(9.0))


def test_ranges_of_numbers_that_are_read() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        number = int((x[:, 0].argmax() * 2).item())
        torch.ops.aten.sym_constrain_range(number, min=0, max=1000)
        return x * number

    program = exported(scaled)
    same_for(program, scaled, *_SHAPES)


def test_declared_ranges() -> None:
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if 2 ** x.shape[0] >= 4 else x

    with warnings.catch_warnings():
        warnings.simplefilter("error", onnx_parity.TracerWarning)
        onnx_parity.export(_Calling(halved), (torch.rand(4, 3),), dynamic_shapes=({0: Dim("n", min=2)},))


def test_division_by_zero_is_the_programs_error() -> None:
    with pytest.raises(onnx_parity.ExportError, match="ZeroDivisionError"):
        exported(lambda x: x[: x.shape[0] // 0])


#: Other threads import what the exporter has a placeholder for, or export too.
_BY_THREADS = """
import sys, threading, torch, onnx_parity, warnings
warnings.simplefilter("ignore")
sys.setswitchinterval(1e-4)
failures = []

class Half(torch.nn.Module):
    def forward(self, x):
        return x[: x.shape[0] // 2]

def export():
    try:
        for _ in range(3):
            onnx_parity.export(Half(), (torch.ones(4, 3),), input_names=["x"], dynamic_axes={"x": [0]})
    except BaseException as error:
        failures.append(repr(error))

def use():
    try:
        import sympy  # First: Python itself fails now and then where a package and a module of it are imported at once.
        import sympy.core.numbers
        from torch.fx.experimental.symbolic_shapes import ShapeEnv, guard_or_false
        assert sympy.core.numbers.Integer is sympy.Integer and sympy.__version__ and isinstance(ShapeEnv, type)
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=target, daemon=True) for target in (export, export, export, use, export)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
    assert not thread.is_alive()
assert not failures, failures
"""
#: The program itself uses sympy.
_BY_THE_PROGRAM = """
import sys, torch, onnx_parity

class Asking(torch.nn.Module):
    def forward(self, x):
        import importlib.util
        import sympy
        assert importlib.util.find_spec("sympy") is not None
        return x[: x.shape[0] // 2] * (2 if hasattr(sympy, "__version__") else 3) * int(sympy.Integer(4))

x = torch.ones(4, 3)
program = onnx_parity.export(Asking(), (x,), input_names=["x"], dynamic_axes={"x": [0]})
assert torch.equal(program(x), Asking()(x))
import sympy
assert sympy.__spec__.loader is sympy.__loader__ and type(sympy).__name__ == "module"
"""


@pytest.mark.parametrize("program", one_in(2, [_BY_THREADS, _BY_THE_PROGRAM]), ids=["threads", "the program"])
def test_sympy_is_there_for_others(program: str) -> None:
    done = run_after_torch(program)
    assert done.returncode == 0, done.stderr[-2000:]

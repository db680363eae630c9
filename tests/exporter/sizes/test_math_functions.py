"""Functions of `math` and numpy at dynamic sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from math import gcd as divisor
from math import log2 as logarithm
from math import sqrt as root
from operator import index as plain_index
from typing import Any

import numpy as np
import pytest
import torch

import onnx_parity
from onnx_parity.exporter.errors import ProgramFailedError
from tests.exporter.subjects import assert_agrees

#: Python's functions, called in ways that their types do not allow.
functions: Any = math


@pytest.mark.parametrize("rows", [2, 8, 1000])
def test_functions_of_math_are_computed_from_dynamic_sizes(rows: int) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        scaled = x / math.sqrt(n) + math.log(n) * math.exp(-n) + math.pow(n, -0.5)
        return torch.cat([scaled, x.new_full((math.floor(math.log2(n)), 4), math.log2(n))])

    exported = onnx_parity.export(program, (torch.ones(3, 4),), dynamic_axes={"x": {0: "rows"}})
    assert_agrees(exported, program, torch.linspace(-1, 1, rows * 4).reshape(rows, 4))


@pytest.mark.parametrize("rows", [1, 7, 999, 1000, 1001])
@pytest.mark.parametrize("module", [math, np])
def test_functions_of_math_and_numpy(module: Any, rows: int) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        scaled = x / module.sqrt(n) + module.log(n) * module.exp(-n) + module.sin(n) * module.cos(n) + module.tanh(n)
        return torch.cat([scaled, x.new_full((math.floor(module.log10(n)) + 1, 2), module.log10(n) + module.log2(n))])

    exported = onnx_parity.export(program, (torch.ones(3, 2),), dynamic_axes={"x": {0: "rows"}})
    assert_agrees(exported, program, torch.linspace(-1, 1, rows * 2).reshape(rows, 2))


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_logarithms_to_a_base_and_magnitudes(rows: int) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        return x[: int(abs(n / 2 - 3))] * math.log(n, 3) + math.log(10, n + 1) * math.fabs(n - 3)

    exported = onnx_parity.export(program, (torch.ones(3, 2),), dynamic_axes={"x": {0: "rows"}})
    assert_agrees(exported, program, torch.linspace(-1, 1, rows * 2).reshape(rows, 2))


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_functions_of_numpy_on_several_numbers(rows: int) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        n = x.shape[0]
        scaled = x * np.max([n, 2]) + np.min((n, 3)) * np.clip(n, 2, 4) + np.round(n / 3) + np.log1p(n) + math.log1p(n)
        plain = float(np.max(np.ones(2)) + np.round(0.5) + np.clip(3, 0, 1))
        return torch.add(scaled, plain), x.to(torch.int64) * np.round(n)

    exported = onnx_parity.export(program, (torch.ones(4, 2),), dynamic_axes={"x": {0: "rows"}})
    assert_agrees(exported, program, torch.linspace(-1, 1, rows * 2).reshape(rows, 2))


def test_functions_of_math_are_pythons_own_in_scripts() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * math.sqrt(float(x.size(0))) + math.pow(2.0, 3.0)

    def compiles(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.jit.script(scaled)(x)
        return result

    x = torch.linspace(-1, 1, 5)
    assert_agrees(onnx_parity.export(compiles, (x,)), scaled, x)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda n: functions.sqrt(x=n), r"sqrt\(\) takes no keyword arguments"),
        (lambda n: functions.pow(n, "a"), "must be real number, not str"),
        (lambda n: functions.sqrt(n - 10), "math domain error|expected a nonnegative input"),
    ],
)
def test_functions_of_math_that_are_called_wrongly(wrong: Callable[[Any], Any], error: str) -> None:
    with pytest.raises(ProgramFailedError, match=error):
        onnx_parity.export(lambda x: x * wrong(x.shape[0]), (torch.ones(3, 4),), dynamic_axes={"x": {0: "rows"}})


def test_a_rounded_quotient_of_logarithms_is_refused() -> None:
    def halvings(x: torch.Tensor) -> torch.Tensor:
        return x * math.ceil(math.log(x.shape[0]) / math.log(2))

    with pytest.raises(onnx_parity.UnsupportedOperatorsError, match=re.escape("Use math.log2")):
        onnx_parity.export(halvings, (torch.ones(3, 4),), dynamic_axes={"x": {0: "rows"}})


def test_functions_that_a_file_imports_by_another_name() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        def factor(size: int) -> float:
            return root(size) + divisor(size, 6)

        return x * factor(x.shape[0])

    def program(x: torch.Tensor) -> torch.Tensor:
        return inner(x) + root(x.shape[1]) + logarithm(x.shape[1] + 1) + plain_index(x.shape[1])

    axes = {"x": {0: "rows", 1: "columns"}}
    exported = onnx_parity.export(program, (torch.ones(3, 8),), input_names=["x"], dynamic_axes=axes, strict=True)
    for shape in ((3, 8), (1, 1), (0, 5), (12, 7)):
        torch.testing.assert_close(exported(torch.ones(shape)), program(torch.ones(shape)))


def test_divisors_and_roots_of_sizes() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        divisors = math.gcd(n, 12) + math.gcd(360, n) * 100 + math.gcd(n, 7 * (2**31 - 1)) * 1000
        return x * divisors + math.isqrt(n)

    exported = onnx_parity.export(program, (torch.ones(4),), dynamic_axes={"x": {0: "n"}})
    assert not exported.assumptions
    for size in (0, 1, 2, 6, 7, 8, 9, 15, 16, 360, 719):
        torch.testing.assert_close(exported(torch.ones(size)), program(torch.ones(size)))


def test_a_view_that_a_program_tries_is_refused_without_names_of_symbols() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            return x.t().view(-1)
        except RuntimeError:
            return x.reshape(-1)

    with pytest.raises(onnx_parity.CaptureError, match="branch on the sizes with `if`") as refused:
        onnx_parity.export(program, (torch.ones(4, 3),), dynamic_axes={"x": {0: "n", 1: "m"}})
    assert not re.search(r"\bs\d", str(refused.value))

"""What a program reaches in ways that are not plain to see is restored after an export too."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity

_longest = 0
_kept: torch.Tensor | None = None


def _length(size: int) -> int:
    """The size, which is a symbol while a program with dynamic axes is recorded."""
    global _longest  # noqa: PLW0603
    _longest = size
    return _longest


class NamesItsMethod(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kind = "length"

    def add_length(self, x: torch.Tensor) -> torch.Tensor:
        return x + _length(x.shape[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(self, f"add_{self.kind}")(x)
        return result


class HoldsManyObjects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.data = {"splits": {"train": [{"id": [number]} for number in range(25_000)]}}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global _kept, _longest  # noqa: PLW0603
        if _kept is None:
            _kept = x[0] * 1
        _longest = x.shape[1]
        return x + _kept


@pytest.fixture(autouse=True)
def fresh() -> None:
    global _longest, _kept
    _longest, _kept = 0, None


@pytest.mark.parametrize("program", [NamesItsMethod(), HoldsManyObjects()], ids=lambda program: type(program).__name__)
def test_a_global_holds_a_plain_number_again(program: nn.Module) -> None:
    x = torch.ones(2, 3)
    onnx_parity.export(program, (x,), input_names=["x"], dynamic_axes={"x": {1: "n"}}, verify=True)
    assert type(_longest) is int and _kept is None
    program(x)
    assert _longest == 3


def test_a_module_that_the_program_imports_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package_of_tests"
    package.mkdir()
    (package / "__init__.py").write_text("SCALE = 2.0\n")
    (package / "layers.py").write_text("def tripled(x):\n    return x * 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    source = """
import torch
import package_of_tests
kept = {}
def scale(x):
    return x * package_of_tests.SCALE
class Inner(torch.nn.Module):
    def forward(self, x):
        import package_of_tests.layers
        if "ones" not in kept:
            kept["ones"] = x[0] * 0 + 1
        return package_of_tests.layers.tripled(x) + kept["ones"]
class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
    def forward(self, x):
        return scale(self.inner(x))
"""
    (tmp_path / "program_of_tests.py").write_text(source)
    module: Any = import_module("program_of_tests")
    program, x = module.Outer(), torch.ones(2, 3)
    onnx_parity.export(program, (x,), verify=True)
    assert not module.kept
    torch.testing.assert_close(program(x), torch.full((2, 3), 8.0))


_graph: list[Any] = []


def test_objects_that_refer_to_each_other_are_looked_into_once() -> None:
    layer: list[Any] = []
    for _ in range(6):  # With 40 ways from each object to the next, there are 40**6 in all.
        layer = [list(layer) for _ in range(40)]

    def program(x: torch.Tensor) -> torch.Tensor:
        _graph[:] = layer
        return x + x.shape[0]

    onnx_parity.export(program, (torch.ones(2),), dynamic_shapes=({0: "n"},), verify=True)
    assert len(_graph) == 40

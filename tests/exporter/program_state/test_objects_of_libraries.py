"""Objects of installed classes that a program fills while it runs are restored as its own are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from tests.exporter.subjects import assert_agrees, installed

_LIBRARY = """
import torch

class Distribution:
    __slots__ = ("kept", "__dict__")

    def __init__(self):
        self.kept = self.normal = None

    def of(self, mean):
        self.kept = mean + 1
        self.normal = torch.distributions.Normal(mean, torch.ones_like(mean), validate_args=False)
        return self

    def sum(self):
        return self.normal.mean + self.normal.stddev + self.kept

class OnlyOneOfTorch:
    def of(self, mean):
        self.normal = torch.distributions.Normal(mean, torch.ones_like(mean), validate_args=False)
        return self

    def sum(self):
        return self.normal.mean + self.normal.stddev

class Memo:
    pass

memo = Memo()

def remembered(x):
    if not hasattr(memo, "x"):
        memo.x = x + 1
    return memo.x
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    with installed("library_of_objects", {"__init__": _LIBRARY}, tmp_path, monkeypatch) as package:
        yield package


class Policy(nn.Module):
    def __init__(self, distribution: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.distribution = distribution

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.distribution.of(self.linear(x)).sum()
        return result


class HasDistribution(nn.Module):
    """torch's own objects compute some attributes when they are first asked for them."""

    def __init__(self) -> None:
        super().__init__()
        self.normal = torch.distributions.MultivariateNormal(
            torch.zeros(3), covariance_matrix=torch.eye(3), validate_args=False
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.normal.precision_matrix


AXES = [None, {"x": {0: "rows"}}]


@pytest.mark.parametrize("axes", AXES)
def test_an_object_that_a_module_holds(axes: dict[str, dict[int, str]] | None, library: ModuleType) -> None:
    policy, x = Policy(library.Distribution()), torch.rand(2, 3)
    exported = onnx_parity.export(policy, (x,), input_names=["x"], dynamic_axes=axes)
    assert policy.distribution.kept is None and policy.distribution.normal is None
    assert_agrees(exported, policy, torch.rand(2 if axes is None else 7, 3))


def test_an_object_that_holds_only_one_of_torch(library: ModuleType) -> None:
    policy, x = Policy(library.OnlyOneOfTorch()), torch.rand(2, 3)
    exported = onnx_parity.export(policy, (x,), input_names=["x"])
    assert not vars(policy.distribution)
    assert_agrees(exported, policy, x)


@pytest.mark.parametrize("axes", AXES)
def test_an_object_of_torch(axes: dict[str, dict[int, str]] | None) -> None:
    program, x = HasDistribution(), torch.rand(2, 3)
    before = set(vars(program.normal))
    exported = onnx_parity.export(program, (x,), input_names=["x"], dynamic_axes=axes)
    assert set(vars(program.normal)) == before
    assert_agrees(exported, program, torch.rand(2 if axes is None else 7, 3))


def test_an_object_in_a_file_of_a_library(library: ModuleType) -> None:
    x = torch.rand(2, 3)
    exported = onnx_parity.export(lambda x: library.remembered(x) * 2, (x,), input_names=["x"])
    assert not hasattr(library.memo, "x")
    assert_agrees(exported, lambda x: (x + 1) * 2, x)

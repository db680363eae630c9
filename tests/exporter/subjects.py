"""Small programs that several tests export, and their comparison with PyTorch."""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.program_state.python_state import is_installed

__all__ = ["Classifier", "Counter", "FooModel", "assert_agrees", "images", "installed"]


def images(batch: int = 2, size: int = 8) -> torch.Tensor:
    return torch.linspace(-1, 1, batch * 3 * size * size).reshape(batch, 3, size, size)


class Classifier(nn.Module):
    """Convolutions with and without a norm behind, a residual, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        )
        self.more = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 4)
        with torch.no_grad():
            norm = self.features[1]
            assert isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None and norm.running_var is not None
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        x = self.features(input)
        x = x + self.more(x)
        logits: torch.Tensor = self.head(x.mean((2, 3)))
        return logits


class Counter(nn.Module):
    """Counts its calls in a buffer."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


def assert_agrees(program: onnx_parity.ONNXProgram, model: Callable[..., Any], *args: Any) -> None:
    """The program gives in onnxruntime what the model gives in torch."""
    with torch.no_grad():
        expected = model(*copy.deepcopy(args))
    torch.testing.assert_close(program(*args), expected, rtol=1e-4, atol=1e-5, equal_nan=True)


@contextmanager
def installed(
    name: str,
    files: Mapping[str, str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str = "site-packages",
) -> Iterator[ModuleType]:
    """A package of these files, which is imported from a folder that packages are installed into."""
    package = folder / target / name
    package.mkdir(parents=True)
    (package.parent / f"{name}-1.0.dist-info").mkdir()
    for file, source in files.items():
        (package / f"{file}.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(package.parent)
    is_installed.cache_clear()
    try:
        yield importlib.import_module(name)
    finally:
        for module in [each for each in sys.modules if each.partition(".")[0] == name]:
            del sys.modules[module]


class FooModel(nn.Module):
    """The custom operator of the documentation, which the fixture `custom_operator` defines."""

    def __init__(self, attr1: float, attr2: int) -> None:
        super().__init__()
        self.attr1 = attr1
        self.attr2 = attr2

    def forward(self, input1: torch.Tensor, input2: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.custom_ops.foo_forward(input1, input2, self.attr1, self.attr2)
        return result

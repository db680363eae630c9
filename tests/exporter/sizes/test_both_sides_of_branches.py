"""Branches of installed libraries on dynamic sizes, of which a model has both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import onnx_parity
from tests.exporter.subjects import assert_agrees, installed
from tests.thinned import one_in

_MASKS = """
import torch

class Masked(torch.nn.Module):
    resolution = (8, 8)

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", self.made(8, 8))

    def made(self, height, width):
        mask = torch.zeros(height, width)
        mask[-2:] = 1.0
        mask[:, -2:] = 2.0
        return mask.view(height // 4, 4, width // 4, 4).transpose(1, 2).reshape(-1, 16)

    def forward(self, x):
        batch, height, width = x.shape
        windows = x.view(batch, height // 4, 4, width // 4, 4).transpose(2, 3).reshape(-1, 16)
        mask = self.mask if self.resolution == (height, width) else self.made(height, width)
        return (windows.view(-1, mask.shape[0], 16) + mask).flatten(1)

def early(x):
    if x.shape[1] == 8 and x.shape[2] == 8:
        return x * 2
    return x + x.shape[1]

class Kept:
    def __init__(self):
        self.grid, self.sizes = torch.zeros(8, 8), (8, 8)

    def __call__(self, x):
        if self.sizes != tuple(x.shape[1:]):
            self.grid, self.sizes = x.new_ones(x.shape[1:]) * x.shape[1], tuple(x.shape[1:])
        return x + self.grid
"""

_BRANCHES = """
import math
import torch
import torch.nn.functional as F
from torch import nn

def limited(x):
    if x.shape[1] > 8:
        x = x[:, :8]
    return x * x.shape[1]

def of_three_kinds(x):
    n = x.shape[1]
    if n > 8:
        y = x.sum(1)
    elif n > 3:
        y = x.mean(1)
    else:
        y = x.prod(1)
    return y

def padded(x, k=4):
    r = x.shape[1] % k
    if r != 0:
        x = F.pad(x, (0, 0, 0, k - r))
        is_padded = True
    else:
        is_padded = False
    return is_padded, x

def windowed(x):
    n = x.shape[1]
    is_padded, y = padded(x)
    y = y.unflatten(1, (-1, 4)).cumsum(2).flatten(1, 2)
    if is_padded:
        y = y[:, :n]
    return y

def masked(x, mask=None):
    n = x.shape[1]
    is_padded, y = padded(x)
    if is_padded:
        mask = torch.ones(x.shape[:2], dtype=torch.bool)
        _, m = padded(mask.unsqueeze(-1))
        mask = m.squeeze(-1)
    y = y.unflatten(1, (-1, 4))
    if mask is not None:
        y = y.masked_fill(~mask.unflatten(1, (-1, 4)).unsqueeze(-1), 5.0)
    return y.amax(2)

class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.cache = 8, torch.arange(8.0)
    def forward(self, x):
        n = x.shape[1]
        if n > self.seen:
            self.seen = n
            self.cache = torch.arange(n, dtype=torch.float32)
        return x + self.cache[:n].unsqueeze(1)

class SharedPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = Positions()
    def forward(self, x):
        return self.r(self.r(x).cumsum(1)) * self.r.seen

class KeptGrid(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = None
        self.res = None
    def make(self, x):
        if self.grid is None or self.res != x.shape[1:]:
            self.grid = [torch.linspace(0, 1, x.shape[1] + 1)[:-1], torch.arange(x.shape[2])]
            self.res = x.shape[1:]
        return self.grid
    def forward(self, x):
        a, b = self.make(x)
        c, d = self.make(x * 2)
        return x + a.unsqueeze(1) + b + c.unsqueeze(1) * d

class InverseInside(nn.Module):
    def forward(self, x):
        n = x.shape[1]
        pad = math.ceil(n / 4) * 4 - n
        needs = pad > 0
        if needs:
            x = F.pad(x, (0, 0, 0, pad))
        x = x.unflatten(1, (-1, 4))
        def inverse(y):
            y = y.flatten(1, 2)
            if needs:
                y = y[:, :-pad]
            return y
        return inverse(x.softmax(2))

def two_results(x):
    if x.shape[1] > 5:
        return x, x.sum()
    return x * 2, x.mean()

def number_of_rows(x):
    k = 3 if x.shape[1] > 6 else x.shape[1]
    return x[:, :k].sum(1) + k

def first_none(x):
    y = None
    if x.shape[1] > 6:
        y = x.sum(1)
    if y is None:
        y = x.amin(1) if x.shape[1] else x.sum(1)
    return y

def written(x):
    y = x.clone()
    if x.shape[1] > 6:
        y[:, 0] = 0
        y += 1
    return y * 2

def longer_list(x):
    parts = [x]
    if x.shape[1] > 6:
        parts.append(x * 2)
    return torch.cat(parts, 1)

def nested(x):
    if x.shape[0] > 2:
        if x.shape[1] > 6:
            x = x + 1
        else:
            x = x - 1
        x = x * 3
    elif x.shape[1] % 2 == 0:
        x = x / 2
    return x

def joined_conditions(x):
    if x.shape[0] > 2 and x.shape[1] > 6 or x.shape[1] == 2:
        return x.cumsum(1)
    return x.flip(1)

def before_a_loop(x):
    if x.shape[1] > 6:
        x = x[:, 1:]
    out = []
    for i in range(x.shape[1]):
        out.append(x[:, i] * i)
    return torch.stack(out, 1) if out else x

class KeptNumber(nn.Module):
    def __init__(self):
        super().__init__(); self.calls = 0; self.last = 4
    def forward(self, x):
        if x.shape[0] != self.last:
            self.last = x.shape[0]
            x = x + 1
        return x * self.last

class KeptTwice(nn.Module):
    def __init__(self):
        super().__init__(); self.c = KeptNumber()
    def forward(self, x):
        return self.c(self.c(x))

class KeptText(nn.Module):
    def __init__(self):
        super().__init__(); self.mode = "a"
    def forward(self, x):
        if x.shape[1] > 6:
            self.mode = "b"
        return x * 2 if self.mode == "b" else x * 3

class KeptInDict(nn.Module):
    def __init__(self):
        super().__init__(); self.kept = {"m": torch.ones(4), "n": 4}
    def forward(self, x):
        if x.shape[1] > self.kept["n"]:
            self.kept["m"] = torch.ones(x.shape[1]) * 2
            self.kept["n"] = x.shape[1]
        return x * self.kept["m"][: x.shape[1]].unsqueeze(1) + self.kept["n"]

class Inside:
    pass

class KeptDeep(nn.Module):
    def __init__(self):
        super().__init__(); self.o = Inside(); self.o.p = Inside(); self.o.p.n = 4
    def forward(self, x):
        if x.shape[1] > self.o.p.n:
            self.o.p.n = x.shape[1]
        return x * self.o.p.n

def two_dtypes(x):
    if x.shape[1] > 5:
        return x.sum(1)
    return x[:, :1].long().sum(1)

def whole_number(x):
    m = x.shape[1] / 4
    if m.is_integer(): return x + 1
    return x - 1

def rounded_up(x):
    return x[:, : math.ceil(x.shape[1] / 3)] * math.floor(x.shape[1] / 2)
"""

#: What is kept is as it was before each call of the program.
FOLLOWED = [
    "limited",
    "of_three_kinds",
    "windowed",
    "masked",
    "Positions",
    "SharedPositions",
    "KeptGrid",
    "InverseInside",
    "two_results",
    "number_of_rows",
    "first_none",
    "written",
    "longer_list",
    "nested",
    "joined_conditions",
    "before_a_loop",
    "KeptNumber",
    "KeptTwice",
    "KeptInDict",
    "KeptDeep",
    "whole_number",
    "rounded_up",
]
SIZES = [(rows, columns) for rows in (4, 0, 1, 2, 3) for columns in (4, 0, 1, 2, 6, 7, 13)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with (
        pytest.MonkeyPatch.context() as patched,
        installed("library_of_branches", {"__init__": _BRANCHES}, tmp_path_factory.mktemp("of"), patched) as found,
    ):
        yield found


class _Fresh:
    """A program that finds what it keeps as it was at first."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __call__(self, x: torch.Tensor) -> Any:
        return deepcopy(self._made)(x)


def _made(library: ModuleType, name: str) -> Any:
    found = getattr(library, name)
    return found() if isinstance(found, type) else found


class _Of(torch.nn.Module):
    """A program of the user's that calls one of a library."""

    def __init__(self, called: Any) -> None:
        super().__init__()
        self.called = called

    def forward(self, x: torch.Tensor) -> Any:
        return self.called(x)


def _exported(program: Callable[..., Any], columns: int) -> onnx_parity.ONNXProgram:
    dynamic = {"x": {0: "rows", 1: "columns"}}
    return onnx_parity.export(program, (torch.rand(4, columns, 3),), input_names=["x"], dynamic_axes=dynamic)


@pytest.mark.parametrize("name", one_in(2, FOLLOWED))
def test_both_sides_are_recorded(name: str, library: ModuleType) -> None:
    program = _made(library, name)
    exported = _exported(_Of(program), 4)
    assert not exported.assumptions
    for rows, columns in SIZES:
        x = torch.rand(rows, columns, 3)
        assert_agrees(exported, _Fresh(_made(library, name)), x)


@pytest.mark.parametrize(("name", "condition"), [("KeptText", "columns <= 6"), ("two_dtypes", "columns <= 5")])
def test_what_cannot_be_joined_is_assumed(name: str, condition: str, library: ModuleType) -> None:
    """A text that differs, and tensors of several dtypes, cannot depend on sizes."""
    program = _made(library, name)
    with pytest.warns(onnx_parity.TracerWarning, match="branches on a dynamic size"):
        exported = _exported(_Of(program), 4)
    assert [each.condition for each in exported.assumptions] == [condition]
    assert getattr(program, "mode", "a") == "a"


@pytest.mark.slow
def test_branches_on_the_size_of_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic = {"x": {0: "batch", 1: "height", 2: "width"}}
    with installed("library_of_masks", {"__init__": _MASKS}, tmp_path, monkeypatch) as library:
        for program in (library.Masked(), lambda x: library.early(x) + 1, library.Kept()):
            made = onnx_parity.export(
                program, (torch.rand(2, 8, 8),), input_names=["x"], dynamic_axes=dynamic, strict=True
            )
            assert not made.assumptions
            for size in ((1, 8, 8), (2, 8, 12), (3, 16, 8), (0, 8, 8), (0, 4, 4), (7, 20, 12), (1, 4, 4)):
                assert_agrees(made, _Fresh(program), torch.rand(size))

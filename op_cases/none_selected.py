"""Operators on the elements that a condition selects, which may be none, one or many."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.harness.case import floats, op

_ROWS = {"x": {0: "rows"}}


def counted(x: torch.Tensor) -> Any:
    return x.unique(return_counts=True), x.round().unique(return_inverse=True, return_counts=True)


def counted_in_order(x: torch.Tensor) -> Any:
    return x.round().unique_consecutive(return_inverse=True, return_counts=True)


def middle(x: torch.Tensor) -> Any:
    return x.median(), x.nanmedian(), x.long().median()


def rolled(x: torch.Tensor) -> Any:
    return x.roll(1), x.roll(-2, 0), x[:, None].repeat(1, 2).roll((1, 1), (0, 1))


def found(x: torch.Tensor) -> Any:
    tests = torch.arange(3)
    return torch.isin(x.long(), tests), torch.isin(tests, x.long(), invert=True)


def farthest(x: torch.Tensor) -> Any:
    return torch.cdist(x[None], x[None] + 1, math.inf), torch.pdist(x.repeat(3, 1), math.inf)


def _of_selected(x: torch.Tensor, f: Callable[[torch.Tensor], Any]) -> Any:
    return f(x[x > -math.inf])


of_none_or_more = op(
    _of_selected,
    floats(4),
    f=[counted, counted_in_order, middle, rolled, found, farthest],
    dynamic=_ROWS,
    sizes={"rows": [0, 1, 6]},
)

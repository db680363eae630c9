"""Cumulative operators: cumsum, cumprod, cummax, cummin, logcumsumexp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.dtypes import extremes
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.recording.fakes.metadata import are_contiguous
from onnx_parity.exporter.registry.in_place import DYNAMIC, copy_back
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import Contiguous, result_of


@lowering("aten::cumsum")
def cumsum(g: Graph, self: Value, dim: int, dtype: object = None) -> Value:
    x = g.cast(self, g.out.dtype)
    return x if x.rank == 0 else g.cumulative("Sum", x, dim % x.rank)


@lowering("aten::cumprod")
def cumprod(g: Graph, self: Value, dim: int, dtype: object = None) -> Value:
    x = g.cast(self, g.out.dtype)
    return x if x.rank == 0 else g.cumulative("Prod", x, dim % x.rank)


@lowering("onnx_parity::complex_cumprod")
def complex_cumprod(g: Graph, real: Value, imag: Value, dim: int) -> Sequence[Value]:
    def product(earlier: Sequence[Value], here: Sequence[Value]) -> Sequence[Value]:
        (a, b), (c, d) = here, earlier
        products = [g.op("Mul", *pair) for pair in ((a, c), (b, d), (a, d), (b, c))]
        return [g.op("Sub", *products[:2]), g.op("Add", *products[2:])]

    return g.scan_by_doubling([real, imag], [1, 0], dim % real.rank, product)


@lowering("aten::cummax", "aten::cummin")
def cummax_or_cummin(g: Graph, self: Value, dim: int) -> tuple[Value, Value]:
    """The maximum or minimum so far, and the index of the last equal one; NaN from the first NaN on"""
    if self.rank == 0:
        return self, g.const(0, torch.int64)
    axis = dim % self.rank
    largest = g.operator == "aten::cummax"
    x = g.cast(self, torch.int32) if self.dtype is torch.bool else self
    indices = g.expand(g.along(self.sizes[axis], axis, self.rank), self.sizes)
    low, high = extremes(x.dtype)

    def join(earlier: Sequence[Value], here: Sequence[Value]) -> Sequence[Value]:
        before, now = earlier[0], here[0]
        is_better = g.greater_or_equal(now, before) if largest else g.less_or_equal(now, before)
        if x.dtype.is_floating_point:
            is_better = g.op("Or", g.is_nan(now), g.op("And", is_better, g.op("Not", g.is_nan(before))))
        return [g.where(is_better, new, old) for new, old in zip(here, earlier, strict=True)]

    values, found = g.scan_by_doubling([x, indices], [low if largest else high, 0], axis, join)
    return g.cast(values, self.dtype), found


@lowering("aten::logcumsumexp")
def logcumsumexp(g: Graph, self: Value, dim: int) -> Value:
    x = g.accumulating(self)
    if x.rank == 0:
        return self
    [total] = g.scan_by_doubling(
        [x], [-math.inf], dim % x.rank, lambda earlier, here: [_added_logs(g, earlier[0], here[0])]
    )
    return g.cast(total, self.dtype)


def _added_logs(g: Graph, a: Value, b: Value) -> Value:
    """log(exp(a) + exp(b)), which is m + log(1 + exp(n - m)) where m is the larger of the two and n the smaller"""
    larger = g.extreme("Max", a, b)
    grown = g.op("Add", larger, g.log_of_one_plus(g.op("Exp", g.op("Neg", g.op("Abs", g.op("Sub", a, b))))))
    return g.where(g.is_infinite(larger), larger, grown)


copy_back("cumprod_", "cumsum_", to=DYNAMIC)
# --- results ----------------------------------------------------------------------------------------------------------


@result_of("aten::cumprod", "aten::cumsum", why="torch's fake kernel takes 5 ms for each call with dynamic sizes")
def cumulated(self: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    if not -self.ndim <= dim < self.ndim or not are_contiguous(self):
        return NotImplemented
    is_counted = dtype is None and not self.dtype.is_floating_point and not self.dtype.is_complex
    return Contiguous(torch.int64 if is_counted else dtype or self.dtype, tuple(self.shape))


@result_of(
    "aten::cummax",
    "aten::cummin",
    why="torch asks whether there are no elements, or one, which is not known if it depends on values",
    static=False,
)
def extremes_so_far(self: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return self.new_empty(self.shape), self.new_empty(self.shape, dtype=torch.int64)

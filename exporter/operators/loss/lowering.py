"""Losses that torch decomposes wrongly; all others are recorded as the operators that they consist of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import Contiguous, result_of


@lowering("aten::multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(g: Graph, self: Value, target: Value, reduction: int) -> list[Value]:
    """The mean over classes of max(0, 1 - x[y] + x[i]), for labels y before the first -1 and other classes i

    torch 2.13's decomposition also counts labels after the -1.
    """
    if self.rank == 0:
        loss, is_target = multilabel_margin_loss_forward(g, g.reshape(self, [1]), g.reshape(target, [1]), 0)
        return [g.reshape(loss, []), g.reshape(is_target, [])]
    classes = self.sizes[-1]
    last = self.rank - 1
    order = g.along(classes, last, self.rank)
    absent = g.const(-1, torch.int64)
    end = g.where(g.equal(target, absent), order, g.scalar(classes, torch.int64))
    is_label = g.less(order, g.reduce("Min", end, [last], True))
    label = g.where(is_label, target, absent)
    # (..., label, class): whether the label is that class; and (..., class): whether any label is.
    is_class = g.equal(g.unsqueeze(label, [self.rank]), g.along(classes, self.rank, self.rank + 1))
    is_any = g.reduce("Max", g.cast(is_class, torch.float32), [last], False)
    index = g.where(is_label, target, g.const(0, torch.int64))
    own = g.gather_elements(self, index, last)
    margin = g.op("Add", g.op("Sub", 1, g.unsqueeze(own, [self.rank])), g.unsqueeze(self, [last]))
    counted = g.op(
        "And", g.unsqueeze(is_label, [self.rank]), g.op("Not", g.cast(g.unsqueeze(is_any, [last]), torch.bool))
    )
    lost = g.where(counted, g.op("Relu", margin), g.const(0, self.dtype))
    loss = g.op("Div", g.reduce("Sum", lost, [last, self.rank], False), g.scalar(classes, self.dtype))
    if reduction and self.rank > 1:
        loss = g.reduce("Mean" if reduction == 1 else "Sum", loss, [0], False)
    return [loss, g.cast(is_any, self.dtype)]


@result_of("aten::multilabel_margin_loss_forward", why="torch's decomposition gives the loss of one vector an axis")
def multilabel_margin_loss_of_one(self: torch.Tensor, target: torch.Tensor, reduction: int) -> Any:
    if reduction or self.ndim != 1 or target.ndim != 1:
        return NotImplemented
    return Contiguous(self.dtype, ()), Contiguous(self.dtype, tuple(target.shape))


@lowering("onnx_parity::ctc_steps")
def ctc_steps(g: Graph, first: Value, emitted: Value, skips: Value, lengths: Value) -> Value:
    """A Loop over the steps after the first, as `recorded.py` defines it"""
    batch, places = first.sizes
    none = g.const(-math.inf, first.dtype)
    impossible = g.full([batch, 2], -math.inf, first.dtype)

    def step(number: Value, carried: list[Value]) -> Sequence[Value]:
        (alpha,) = carried
        place = g.op("Add", number, g.const(1, torch.int64))
        shifted = shaped(g.op("Concat", impossible, alpha, axis_i=1), [batch, places + 2])
        one, two = (shaped(g.slice(shifted, [1], [start], [places + start]), [batch, places]) for start in (1, 0))
        reached = [alpha, one, g.where(skips, two, none)]
        greatest = g.extreme("Max", g.extreme("Max", *reached[:2]), reached[2])
        finite = g.where(g.equal(greatest, none), g.const(0, first.dtype), greatest)
        powers = [g.op("Exp", g.op("Sub", each, finite)) for each in reached]
        total = g.op("Add", g.op("Log", g.op("Add", g.op("Add", *powers[:2]), powers[2])), finite)
        following = g.op("Add", total, shaped(g.op("Gather", emitted, place, axis_i=1), [batch, places]))
        goes_on = g.unsqueeze(g.greater(lengths, place), [1])
        alpha = shaped(g.where(goes_on, following, alpha), [batch, places])
        return [alpha, alpha]

    _, alphas = g.repeat(g.out.shape[0], [first], step)
    return alphas

"""Losses that torch decomposes wrongly; all others are recorded as the operators that they consist of."""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


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

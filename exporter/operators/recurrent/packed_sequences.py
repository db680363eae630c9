"""Packed sequences: the first steps of all sequences of a batch, then the second steps, and so on, without padding.

`batch_sizes` has the number of sequences that have each step. The sequences are sorted by length, the longest first, so
these are always the first ones. ONNX's recurrent operators take padded sequences and their lengths instead.
"""

from __future__ import annotations

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering

__all__ = ["Padding", "padded", "repacked"]


@lowering("aten::_pack_padded_sequence")
def pack_padded_sequence(g: Graph, input: Value, lengths: Value, batch_first: bool) -> list[Value]:
    x = g.transpose(input, [1, 0, *range(2, input.rank)]) if batch_first else input
    steps = input.sizes[1 if batch_first else 0]
    has_step = g.less(g.along(steps, 0, 2), g.unsqueeze(lengths, [0]))
    counts = g.reduce("Sum", g.cast(has_step, torch.int64), [1], False)
    batch_sizes = _kept(g, counts, g.greater(counts, g.const(0, torch.int64)))
    return [_kept(g, _flat(g, x, input.rank), _flat(g, has_step, 1)), batch_sizes]


@lowering("aten::_pad_packed_sequence")
def pad_packed_sequence(
    g: Graph, data: Value, batch_sizes: Value, batch_first: bool, padding_value: float, total_length: int
) -> list[Value]:
    if total_length > 0:
        # No sequence has the further steps.
        further = g.op("Sub", g.const([total_length], torch.int64), g.op("Shape", batch_sizes))
        none = g.op("ConstantOfShape", further, value_t=torch.zeros(1, dtype=torch.int64))
        batch_sizes = g.op("Concat", batch_sizes, none, axis_i=0)
    padding = Padding(g, batch_sizes)
    y = padded(g, data, padding)
    has_step = g.unsqueeze(padding.has_step, list(range(2, data.rank + 1)))
    y = g.op("Where", has_step, y, g.const(padding_value, data.dtype))
    return [g.transpose(y, [1, 0, *range(2, data.rank + 1)]) if batch_first else y, padding.lengths]


class Padding:
    """How packed sequences become a padded batch (step, sequence), computed from `batch_sizes`."""

    def __init__(self, g: Graph, batch_sizes: Value) -> None:
        batch = g.unsqueeze(g.iota_below(g.slice(batch_sizes, [0], [0], [1])), [0])
        sizes = g.unsqueeze(batch_sizes, [1])
        #: (step, sequence): whether the sequence has the step.
        self.has_step = g.less(batch, sizes)
        flags = g.cast(self.has_step, torch.int64)
        self.lengths = g.reduce("Sum", flags, [0], False)
        step = g.iota_below(g.op("Shape", batch_sizes))
        is_before = g.less(g.unsqueeze(step, [0]), g.unsqueeze(step, [1]))
        before = g.op("Mul", g.cast(is_before, torch.int64), g.unsqueeze(batch_sizes, [0]))
        starts = g.reduce("Sum", before, [1], False)
        #: (step, sequence): the index in the packed data, and 0 where the sequence does not have the step.
        self.indices = g.op("Mul", g.op("Add", g.unsqueeze(starts, [1]), batch), flags)


def padded(g: Graph, data: Value, padding: Padding) -> Value:
    """(step, sequence, ...), with values of other steps as padding."""
    return g.op("Gather", data, padding.indices, axis_i=0)


def repacked(g: Graph, x: Value, padding: Padding, rank: int) -> Value:
    """Padded data (step, sequence, ...) packed again."""
    return _kept(g, _flat(g, x, rank), _flat(g, padding.has_step, 2))


def _flat(g: Graph, x: Value, rank: int) -> Value:
    """The first two axes, steps and sequences, flattened to one."""
    return g.op("Reshape", x, g.const([-1], torch.int64)) if rank <= 2 else _joined(g, x, rank)


def _joined(g: Graph, x: Value, rank: int) -> Value:
    rest = g.slice(g.op("Shape", x), [0], [2], [rank])
    return g.op("Reshape", x, g.op("Concat", g.const([-1], torch.int64), rest, axis_i=0))


def _kept(g: Graph, x: Value, keep: Value) -> Value:
    return g.op("Compress", x, keep, axis_i=0)

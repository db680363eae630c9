"""Tensors that have the same memory for some values of the inputs, but not in the model.

A script may return a tensor as it was given or a new one, depending on values. The model computes what it returns as a
value of its own, so a write in place to one of the two, after the script, would not be seen in the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from onnx_parity.exporter.capture.graph.graph import Node, Origin, Value

__all__ = ["Apart", "Held", "written_apart"]


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A tensor of the program when a script returned: how often its memory had been written to, and its value."""

    tensor: torch.Tensor
    writes: int
    value: Value

    @classmethod
    def of(cls, tensor: torch.Tensor, value: Value) -> Held:
        return cls(tensor, torch._functionalize_mutation_counter(tensor), value)

    @property
    def is_written(self) -> bool:
        return torch._functionalize_mutation_counter(self.tensor) > self.writes


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """Tensors that may be one, the number of nodes when they had been returned, and the line of the call."""

    tensors: Sequence[Held]
    start: int
    origin: Origin


def written_apart(groups: Iterable[Apart], nodes: Sequence[Node], outputs: Iterable[Value]) -> Apart | None:
    """A group of which one tensor was written to, and another is read since then."""
    outputs = set(outputs)
    for group in groups:
        for one, other in itertools.permutations(group.tensors, 2):
            if one.is_written and (
                other.value in outputs or any(_reads(node, other, one) for node in nodes[group.start :])
            ):
                return group
    return None


def _reads(node: Node, tensor: Held, written: Held) -> bool:
    """Whether a node reads a tensor, after the other one has been written to as far as it tells."""
    inputs = set(node.inputs())
    return tensor.value in inputs and written.value not in inputs

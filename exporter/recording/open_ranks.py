"""Tensors whose number of axes depends on sizes or values: results of `squeeze` and of branches."""

from __future__ import annotations

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.block_primitives import IF
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import Node, Value
from onnx_parity.exporter.graph.list_primitives import INSERT, LIST
from onnx_parity.exporter.graph.origin import OriginFinder

__all__ = ["TAKING_ANY_RANK", "OpenRanks"]

#: Primitives that take a tensor of any number of axes.
TAKING_ANY_RANK = frozenset({IF, LIST, INSERT})
#: Operators that take a tensor of any number of axes, and whose lowerings do not ask for it.
_OF_EACH_ELEMENT = frozenset(
    getattr(getattr(torch.ops.aten, name), overload)
    for names, overloads in (
        ("abs clone detach alias _to_copy neg relu sigmoid tanh exp log sqrt erf sin cos floor ceil round", "default"),
        ("sign reciprocal rsqrt logical_not leaky_relu hardtanh clamp softplus elu hardsigmoid silu gelu", "default"),
        ("add sub mul div", "Tensor Scalar"),
        ("eq ne lt le gt ge", "Scalar Tensor"),
        ("pow", "Tensor_Scalar"),
    )
    for name in names.split()
    for overload in overloads.split()
)


class OpenRanks:
    """The values of a recording whose number of axes is open, each with the first value that has the same number."""

    def __init__(self, origins: OriginFinder) -> None:
        self._origins = origins
        self._ranks: dict[Value, Value] = {}

    def __bool__(self) -> bool:
        return bool(self._ranks)

    def add(self, value: Value, like: Value | None = None) -> None:
        self._ranks[value] = like or value

    def of_result(self, node: Node) -> Value | None:
        """The value that has the same number of axes as the result of an operator; None if that is known.

        Only operators on each element by itself take such a tensor.
        """
        ranks = {id(rank): rank for value in node.inputs() if (rank := self._ranks.get(value)) is not None}
        if not ranks:
            return None
        others = [value for value in node.inputs() if value.shape and value not in self._ranks]
        if len(ranks) > 1 or others or node.op not in _OF_EACH_ELEMENT:
            self.refuse(next(value for value in node.inputs() if value in self._ranks))
        (rank,) = ranks.values()
        return rank

    def refuse(self, value: Value) -> None:
        """Ask for the example's number of axes if that of a tensor is open."""
        rank = self._ranks.get(value)
        if rank is None:
            return
        made = rank.node.origin.placed if rank.node is not None else ""
        refusal = CaptureError(
            f"the number of axes of a tensor{made} depends on sizes or values, and the program uses the tensor"
            f"{self._origins.find().placed} in a way that needs to know it: return it, or compute only what is done to "
            "each element by itself, or give it the same number of axes in every case"
        )
        raise Reconsider(Decision.RANKS_OF_EXAMPLE, refusal=refusal)

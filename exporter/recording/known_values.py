"""Values that depend on literals alone, such as the mask of a shifted window: torch computes them at the export.

A mask that a program fills window by window takes a hundred nodes, and as a constant none. Operators without inputs,
such as `arange`, are left to the runtime, unless another known value depends on them. What depends on weights too is
computed only if ONNX cannot express it, because the weights may be replaced after the export.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Graph, Holds, Node, Value, Varying, operator_name
from onnx_parity.exporter.recording.evaluate import TensorInterpreter, nodes_behind, outside_of_recording
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of

__all__ = ["KnownValues", "OnTheCpu", "is_repeatable", "results_of_weights"]

#: The maximum number of bytes of a value. Larger ones would make the file larger than their nodes make it.
_MOST_BYTES = 2**18
#: The maximum number of bytes of a literal that a value may depend on.
_LARGEST_LITERAL = 1024
#: Operators that read no values of their tensor, only its dtype and its sizes.
_FILLS = frozenset(
    f"aten::{name}" for name in ("new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like")
)


class KnownValues:
    """The known values of a program. They are computed once, for the first opset that the program is lowered to."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._computed: dict[Value, torch.Tensor] = {}
        self._interpreter = OnTheCpu()

    def tensors(self, stays: Callable[[OpOverload], bool]) -> Mapping[Value, torch.Tensor]:
        """The tensors of the known values. An operator that `stays`, as one with a user's lowering does, is kept."""
        known: dict[Value, torch.Tensor] = {}
        created: dict[Value, Node] = {}
        for node in self._graph.live_nodes():
            inputs = [] if operator_name(node.op) in _FILLS else list(node.inputs())
            if not all(value in known or value in created or _is_literal(value) for value in inputs):
                continue
            if not isinstance(node.op, OpOverload) or not _can_be_known(node, node.op) or stays(node.op):
                continue
            if inputs:
                self._compute(node, inputs, known, created)
            else:
                created |= dict.fromkeys(filter(None, node.outputs), node)
        return known

    def _compute(
        self, node: Node, inputs: list[Value], known: dict[Value, torch.Tensor], created: Mapping[Value, Node]
    ) -> None:
        waiting = [created[value] for value in inputs if value in created]
        with outside_of_recording(), torch.no_grad():
            for each in (*waiting, node):
                if each.outputs[0] not in self._computed:
                    try:
                        self._interpreter.step(each, self._computed)
                    except (RuntimeError, IndexError):
                        return  # torch has no such kernel on the CPU, or the call is wrong for these values.
        known |= {output: self._computed[output] for output in node.outputs if output is not None}


class OnTheCpu(TensorInterpreter):
    """Computes on the CPU what a program has on any device, which may be absent, or `meta`."""

    def __init__(self) -> None:
        super().__init__(_no_number)

    def value(self, value: Value, scope: Mapping[Value, torch.Tensor]) -> torch.Tensor:
        if value in scope or value.constant is not None:
            known: torch.Tensor = super().value(value, scope)
            return known
        # What an operator fills has the dtype of this tensor, and perhaps its sizes.
        sizes = [size if isinstance(size, int) else 1 for size in value.shape]
        return torch.zeros((), dtype=value.dtype).expand(sizes)

    def literal(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.cpu()

    def _real(self, argument: Any, scope: Mapping[Value, Any]) -> Any:
        return torch.device("cpu") if isinstance(argument, torch.device) else super()._real(argument, scope)


def results_of_weights(node: Node) -> tuple[list[torch.Tensor], list[Value]] | None:
    """The results of an operator, and the constants that they are computed from, if they depend on nothing else."""
    nodes = list({id(each): each for value in node.inputs() for each in nodes_behind(value, {})}.values())
    constants = [value for each in (*nodes, node) for value in each.inputs() if value.node is None]
    if any(value.constant is None or value.constant.is_meta for value in constants):
        return None
    if not all(isinstance(each.op, OpOverload) and is_repeatable(each, each.op) for each in (*nodes, node)):
        return None
    scope: dict[Value, Any] = {}
    with outside_of_recording(), torch.no_grad():
        try:
            OnTheCpu().run([*nodes, node], scope)
        except (RuntimeError, IndexError):
            return None
    return [scope[output] for output in node.outputs if output is not None], constants


def _is_literal(value: Value) -> bool:
    """Whether a value is a small constant of the program's code.

    A weight is not one: it may be replaced after the export. A large one would be stored beside what depends on it.
    """
    tensor = value.constant
    return tensor is not None and not value.name and not tensor.is_meta and tensor.nbytes <= _LARGEST_LITERAL


def is_repeatable(node: Node, op: OpOverload) -> bool:
    """Whether each call of an operator gives the same tensors, whose sizes are known."""
    if op.namespace != "aten" or torch.Tag.nondeterministic_seeded in op.tags or "empty" in schema_of(op).name:
        return False
    if any(isinstance(size, Varying) for size in node.sizes()):
        return False
    return all(output is not None and output.holds is Holds.TENSOR for output in node.outputs)


def _can_be_known(node: Node, op: OpOverload) -> bool:
    """Whether each call of an operator gives the same tensors, which have few elements and are all returned."""
    return is_repeatable(node, op) and all(
        math.prod(map(int, output.shape)) * output.dtype.itemsize <= _MOST_BYTES
        for output in node.outputs
        if output is not None
    )


def _no_number(number: Varying, _scope: Mapping[Value, Any]) -> int:
    raise AssertionError(f"{number} is symbolic, and only operators without symbolic numbers are computed")

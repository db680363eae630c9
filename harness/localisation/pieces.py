"""Pieces of a recorded program: some of its nodes, as a program of their own that torch runs and any exporter takes.

Knows the ATen graph and torch. Nothing here depends on who exports a piece, so that peers are searched as well as
this project's exporter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from exporter.capture.graph import Graph, Node, Primitive, Value

#: The tensors of a run, by the value of the graph that each is.
Tensors = Mapping[Value, torch.Tensor]


class CannotCutError(Exception):
    """The program has parts that are no sequence of operators. The message says which and where."""


@dataclass(frozen=True, eq=False)
class Recording:
    """A recorded program, cut where one likes."""

    graph: Graph
    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, graph: Graph) -> Recording:
        nodes = tuple(graph.live_nodes())
        for node in nodes:
            if isinstance(node.op, Primitive):
                raise CannotCutError(
                    f"the program has a branch or a loop, {node.op.name} at {node.origin.where}, which is not taken "
                    "apart. Localise a case that is one of its bodies."
                )
        return cls(graph, nodes)

    def needs(self, node: Node) -> Iterator[Value]:
        """The values that a node takes, those included whose sizes are among its arguments; weights are its own."""
        for value in node.inputs():
            if value.constant is None:
                yield value
        for size in node.arguments.values():
            for item in size if isinstance(size, (list, tuple)) else (size,):
                if isinstance(item, torch.SymInt):
                    for symbol in item.node.expr.free_symbols:
                        yield self.graph.symbol_sources[str(symbol)][0]

    def taken(self, nodes: Sequence[Node]) -> tuple[Value, ...]:
        """The values that these nodes need and do not make."""
        made = {output for node in nodes for output in node.outputs}
        return tuple(dict.fromkeys(value for node in nodes for value in self.needs(node) if value not in made))

    def read(self) -> frozenset[Value]:
        """The values that some node or an output of the program needs."""
        return frozenset((*(value for node in self.nodes for value in self.needs(node)), *self.graph.outputs))

    def run(self, node: Node, tensors: Tensors) -> Iterator[tuple[Value, torch.Tensor]]:
        """Run a node with torch."""
        assert isinstance(node.op, OpOverload)
        arguments = {name: self._filled(argument, tensors) for name, argument in node.arguments.items()}
        try:
            result = node.op(**arguments)
        except RuntimeError:
            # A kernel may lay its result out in another way than its fake did, and then a view does not fit it.
            if not any(map(_is_strided, arguments.values())):
                raise
            result = node.op(**tree_map_only(torch.Tensor, torch.Tensor.contiguous, arguments))
        for output, tensor in zip(node.outputs, _leaves(result), strict=True):
            if output is not None:
                yield output, tensor

    def _filled(self, argument: Any, tensors: Tensors) -> Any:
        if isinstance(argument, Value):
            return argument.constant if argument.constant is not None else tensors[argument]
        if isinstance(argument, (list, tuple)):
            return [self._filled(item, tensors) for item in argument]
        if isinstance(argument, torch.SymInt):
            return self.size(argument, tensors)
        return argument

    def size(self, size: torch.SymInt, tensors: Tensors) -> Any:
        """A size that varies, as it is in this run."""
        known = {}
        for symbol in size.node.expr.free_symbols:
            value, axis = self.graph.symbol_sources[str(symbol)]
            known[symbol] = tensors[value].item() if axis is None else tensors[value].shape[axis]
        return sympy_interp(PythonReferenceAnalysis, known, size.node.expr)


class Piece(torch.nn.Module):
    """Some nodes of a recording, in order, as a program: from the values that they need to those that are asked for."""

    def __init__(self, recording: Recording, nodes: Sequence[Node], outputs: Sequence[Value]) -> None:
        super().__init__()
        self.recording = recording
        self.nodes = tuple(nodes)
        self.taken = recording.taken(nodes)
        self.outputs = tuple(outputs)
        weights = (value for node in nodes for value in node.inputs() if value.constant is not None)
        for number, value in enumerate(dict.fromkeys(weights)):
            # An exporter knows a weight by the module that has it.
            self.register_buffer(f"w{number}", value.constant)

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(f"x{number}" for number in range(len(self.taken)))

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        tensors = dict(zip(self.taken, given, strict=True))
        for node in self.nodes:
            tensors.update(self.recording.run(node, tensors))
        return tuple(tensors[value] for value in self.outputs)


@torch.no_grad()
def follow(recording: Recording, inputs: Sequence[torch.Tensor]) -> Iterator[tuple[Node, dict[Value, torch.Tensor]]]:
    """Run a recording with torch, node by node, each with all values that it or a later node still needs."""
    last = last_uses(recording)
    tensors = {item.value: tensor for item, tensor in zip(recording.graph.inputs, inputs, strict=True)}
    for number, node in enumerate(recording.nodes):
        tensors.update(recording.run(node, tensors))
        yield node, tensors
        for value in [value for value in tensors if last.get(value, number) <= number]:
            del tensors[value]


def last_uses(recording: Recording) -> dict[Value, int]:
    """Of each value, the number of the node that needs it last; outputs of the program are needed to its end."""
    last = {value: number for number, node in enumerate(recording.nodes) for value in recording.needs(node)}
    return last | dict.fromkeys(recording.graph.outputs, len(recording.nodes))


def _is_strided(argument: object) -> bool:
    return isinstance(argument, torch.Tensor) and not argument.is_contiguous()


def _leaves(result: Any) -> Iterable[Any]:
    return result if isinstance(result, (list, tuple)) else (result,)

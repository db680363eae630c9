"""Pieces of a recorded program: some of its operators, as a program that torch can run and any exporter can export.

A piece is run with the cell's exporter, opset and runtime, so cells of other exporters can be searched in the same way.
It is exported at the example's sizes, with dynamic axes if the sizes differ for the inputs of the failure. A size that
the exporter fixed is therefore detected. This module depends on the ATen graph and torch, and not on the exporter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Node, Value
from onnx_parity.exporter.recording.evaluate import call
from onnx_parity.exporter.tracing.symbolic_number import SymbolicNumber

#: The tensors of a run, by the values of the recording.
Tensors = Mapping[Value, torch.Tensor]

#: The errors that torch's operators raise for arguments that they do not accept.
CANNOT_RUN = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


@dataclass(frozen=True, eq=False)
class Recording:
    """The operators that a program runs for given inputs, in order, without branches and loops."""

    inputs: tuple[Value, ...]
    #: Values that are known before the first node, such as the numbers of a loop's iterations.
    given: Tensors
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    #: The values that decide which branches are taken, and how often loops run.
    decisions: tuple[Value, ...]
    #: For operators in a branch or a loop, a description of it.
    within: Mapping[Node, str]
    #: The branches and loops that the program ran through.
    blocks: tuple[str, ...]

    def starting(self, inputs: Sequence[torch.Tensor]) -> dict[Value, torch.Tensor]:
        """The values that exist before the first operator."""
        return dict(zip(self.inputs, inputs, strict=True)) | dict(self.given)

    def taken(self, nodes: Sequence[Node]) -> tuple[Value, ...]:
        """The values that these nodes need and do not compute."""
        made = {output for node in nodes for output in node.outputs}
        return tuple(dict.fromkeys(value for node in nodes for value in needs(node) if value not in made))

    def read(self) -> frozenset[Value]:
        """The values that are inputs of a node, outputs of the program, or decisions."""
        return frozenset((*(value for node in self.nodes for value in needs(node)), *self.outputs, *self.decisions))

    def last_uses(self) -> dict[Value, int]:
        """For each value, the number of the last node that needs it. Outputs of the program are needed to its end."""
        last = {value: number for number, node in enumerate(self.nodes) for value in needs(node)}
        return last | dict.fromkeys(self.outputs, len(self.nodes))

    def place(self, node: Node) -> str:
        """The position of an operator: the user's line, the module, and the branches and iterations around it."""
        turn = self.within.get(node, "")
        return ", ".join(part for part in (node.origin.full, turn) if part)


class Piece(torch.nn.Module):
    """Some nodes of a recording as a program from the values that they need to the values that are requested."""

    def __init__(self, recording: Recording, nodes: Sequence[Node], outputs: Sequence[Value]) -> None:
        super().__init__()
        self.recording = recording
        self.nodes = tuple(nodes)
        self.taken = recording.taken(nodes)
        self.outputs = tuple(outputs)
        weights = (value for node in nodes for value in node.inputs() if value.constant is not None)
        for number, value in enumerate(dict.fromkeys(weights)):
            # Registered in the module, so that an exporter recognizes it as a weight.
            self.register_buffer(f"w{number}", value.constant)

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(f"x{number}" for number in range(len(self.taken)))

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        tensors = dict(zip(self.taken, given, strict=True))
        for node in self.nodes:
            tensors.update(run(node, tensors))
        return tuple(tensors[value] for value in self.outputs)


def needs(node: Node) -> Iterator[Value]:
    """The values that a node needs, including those whose sizes are among its arguments, and without weights."""
    for value in node.inputs():
        if value.constant is None:
            yield value
    for argument in node.arguments.values():
        for item in argument if isinstance(argument, (list, tuple)) else (argument,):
            if isinstance(item, SymbolicNumber):
                yield from (source.value for _, source in item.sources)


def run(node: Node, tensors: Tensors) -> Iterator[tuple[Value, torch.Tensor]]:
    """Run a node with torch."""
    return call(node, {name: _fill(argument, tensors) for name, argument in node.arguments.items()})


def _fill(argument: Any, tensors: Tensors) -> Any:
    if isinstance(argument, Value):
        return argument.constant if argument.constant is not None else tensors[argument]
    if isinstance(argument, (list, tuple)):
        return [_fill(item, tensors) for item in argument]
    if isinstance(argument, SymbolicNumber):
        return argument.of(tensors)
    return argument


@torch.no_grad()
def follow(
    recording: Recording, inputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor]
) -> Iterator[tuple[dict[Value, torch.Tensor], dict[Value, torch.Tensor]]]:
    """Run a recording with torch, node by node, on two sets of inputs; after each, all values that a later one needs.

    The recording is that of the first inputs. If the program takes other branches for the other inputs, their values
    may not fit an operator of this recording. The values of the first inputs are then used instead.
    """
    last = recording.last_uses()
    tensors, aside = recording.starting(inputs), recording.starting(others)
    yield tensors, aside
    for number, node in enumerate(recording.nodes):
        tensors.update(run(node, tensors))
        aside.update(run_or_borrow(node, aside, tensors))
        yield tensors, aside
        for value in [value for value in tensors if last.get(value, number) <= number]:
            del tensors[value], aside[value]


def run_or_borrow(node: Node, tensors: Tensors, others: Tensors) -> dict[Value, torch.Tensor]:
    """Run a node with torch. If it does not accept these values, return the other values of its outputs."""
    try:
        return dict(run(node, tensors))
    except CANNOT_RUN:
        return {output: others[output] for output in node.outputs if output is not None}

"""Checks a call of an exported program against the assumptions of its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnx_parity.exporter.arrays import in_pairs
from onnx_parity.exporter.errors import AssumptionError
from onnx_parity.exporter.expressions.expression import Expression
from onnx_parity.exporter.expressions.multiples import with_bases
from onnx_parity.exporter.graph.assumptions import Assumption
from onnx_parity.exporter.graph.graph import Graph, Value, Varying
from onnx_parity.exporter.recording.evaluate import TensorInterpreter, nodes_behind, outside_of_recording
from onnx_parity.exporter.recording.fakes.input_layouts import lies_like
from onnx_parity.exporter.request.marked_inputs import Given
from onnx_parity.exporter.tracing.symbolic_number import SymbolicNumber

__all__ = ["Computed", "broken_assumption", "check_assumptions"]


def check_assumptions(
    assumptions: Sequence[Assumption], inputs: Sequence[ir.Value], feeds: Mapping[str, Given], graph: Graph
) -> None:
    """Raise `AssumptionError` if an assumption does not hold for these values of the model's inputs."""
    broken = broken_assumption(assumptions, inputs, feeds, graph)
    if broken is not None:
        sizes = _sizes(inputs, feeds)
        names = [] if broken.of_sizes is None else sorted(str(symbol) for symbol in broken.of_sizes.free_symbols)
        found = "".join(f", and {name!r} is {sizes[name]}" for name in names)
        raise AssumptionError(
            f"the model does not compute what the program does for these arguments: it assumes {broken.condition}"
            f"{broken.origin.in_brackets}{found}; otherwise {broken.otherwise}\n"
            "Export a model for such arguments, with an example of them; program.assumptions has all conditions."
        )


def broken_assumption(
    assumptions: Sequence[Assumption], inputs: Sequence[ir.Value], feeds: Mapping[str, Given], graph: Graph
) -> Assumption | None:
    """An assumption that does not hold for these values of the model's inputs.

    Values that the program decided by are computed as it was recorded.
    """
    sizes = _sizes(inputs, feeds)
    # What is read may not be there for other sizes.
    for each in sorted(assumptions, key=lambda each: each.of_sizes is None):
        if each.of_sizes is not None:
            holds = each.holds_for(sizes) is not False
        elif each.of_layout is not None:
            given, known = feeds[inputs[each.of_layout.number].name or ""], each.of_layout
            holds = not isinstance(given, torch.Tensor) or lies_like(known.example, given, exactly=known.exactly)
        else:
            holds = _are_as_expected(each, [feeds[value.name or ""] for value in inputs], graph)
        if not holds:
            return each
    return None


def _sizes(inputs: Sequence[ir.Value], feeds: Mapping[str, Given]) -> dict[str, int]:
    """The sizes of the named axes of tensors, and those of which they are multiples."""
    sizes: dict[str, int] = {}
    for value in inputs:
        given = feeds[value.name or ""]
        if isinstance(given, torch.Tensor) and value.shape is not None:
            for wanted, size in zip(value.shape, in_pairs(given).shape, strict=False):
                if isinstance(wanted, ir.SymbolicDim) and wanted.value:
                    sizes[wanted.value] = size
    return with_bases(sizes)


def _are_as_expected(assumption: Assumption, feeds: Sequence[Given], graph: Graph) -> bool:
    """Whether the program reads the same values as for the example, or such as meet the condition. Those of lists and
    optionals are not looked at."""
    tensors = [each for each in feeds if isinstance(each, torch.Tensor)]
    if len(tensors) < len(feeds):
        return True
    computed = Computed(tensors, graph)
    if assumption.of_values is not None:
        return computed.holds(assumption.of_values)
    for value, expected in zip(assumption.values, assumption.expected, strict=True):
        now = computed.value(value)
        if now.shape != expected.shape or not torch.equal(now, expected):
            return False
    return True


class Computed:
    """What a program computes of some inputs, as it was recorded."""

    def __init__(self, inputs: Sequence[torch.Tensor], graph: Graph) -> None:
        self._graph = graph
        pairs = zip(graph.inputs, inputs, strict=False)
        self._known: dict[Any, Any] = {item.value: in_pairs(given) for item, given in pairs}
        self._interpreter = TensorInterpreter(self._number_in)

    def value(self, value: Value) -> torch.Tensor:
        with outside_of_recording(), torch.no_grad():
            self._compute(value)
            tensor: torch.Tensor = self._interpreter.value(value, self._known)
            return tensor

    def holds(self, question: Expression) -> bool:
        """Whether a condition on numbers holds."""
        condition = self._number_of(question)
        with outside_of_recording(), torch.no_grad():
            for _, source in condition.sources:
                self._compute(source.value)
            return bool(condition.of(self._known))

    def _compute(self, value: Value) -> None:
        self._interpreter.run(nodes_behind(value, self._known), self._known)

    def _number_of(self, expression: Expression) -> SymbolicNumber:
        sources = self._graph.symbol_sources
        return SymbolicNumber(expression, tuple((each, sources[str(each)]) for each in expression.free_symbols))

    def _number_in(self, size: Varying, tensors: Mapping[Any, Any]) -> Any:
        number = self._number_of(size.node.expr)
        # What is inside of a branch or a loop has been computed there before it is read.
        for _, source in number.sources:
            if source.value not in tensors:
                self._compute(source.value)
        return number.of({**self._known, **tensors})

"""The values inside a model that the recorded program has too, and what they are in torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from onnx_parity.exporter.capture.graph.graph import Graph, Node, Primitive, Value
from onnx_parity.exporter.capture.record.values_read import outside_of_recording
from onnx_parity.exporter.dtypes import TO_ONNX

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram

__all__ = ["computed", "shared_values"]


def shared_values(program: ONNXProgram) -> dict[str, Value]:
    """By name: of each operator of the program, the one value that leaves what was written for it."""
    by_operator: dict[int, list[Any]] = {}
    operators: dict[int, Node] = {}
    for node in program.model.graph:
        operator = _operator(node)
        if isinstance(operator, Node) and not isinstance(operator.op, Primitive):
            operators[id(operator)] = operator
            leaving = [
                value
                for value in node.outputs
                if value.is_graph_output() or any(_operator(use.node) is not operator for use in value.uses())
            ]
            by_operator.setdefault(id(operator), []).extend(leaving)
    shared: dict[str, Value] = {}
    for key, values in by_operator.items():
        outputs = operators[key].outputs
        if len(outputs) == len(values) == 1 and outputs[0] is not None and _fits(values[0], outputs[0]):
            shared[values[0].name] = outputs[0]
    return shared


def _fits(value: ir.Value, recorded: Value) -> bool:
    rank = None if value.shape is None else len(value.shape)
    return bool(value.name) and TO_ONNX.get(recorded.dtype) is value.dtype and rank == len(recorded.shape)


def _operator(node: Any) -> Any:
    """The operator of the program that a node ends; where one was folded into it, that."""
    return node.meta.get("ends") or node.meta.get("origin")


def computed(graph: Graph, inputs: Sequence[torch.Tensor]) -> dict[Value, torch.Tensor]:
    """The values of the recorded program, computed in torch. Values that depend on branches and loops are left out."""
    known: dict[Value, Any] = {item.value: tensor for item, tensor in zip(graph.inputs, inputs, strict=True)}
    with outside_of_recording(), torch.no_grad():
        for node in graph.live_nodes():
            if isinstance(node.op, Primitive) or not all(_is_known(value, known) for value in node.inputs()):
                continue
            sizes = _sizes(graph, known)
            if any(str(symbol) not in sizes for size in node.sizes() for symbol in _symbols(size)):
                continue
            arguments = {name: _real(argument, known, sizes) for name, argument in node.arguments.items()}
            result = node.op(**arguments)
            results = result if isinstance(result, (list, tuple)) else (result,)
            known |= {
                output: tensor for output, tensor in zip(node.outputs, results, strict=True) if output is not None
            }
    return known


def _is_known(value: Value, known: Mapping[Value, Any]) -> bool:
    return value.constant is not None or value in known


def _sizes(graph: Graph, known: Mapping[Value, Any]) -> dict[str, int | float]:
    """Dynamic sizes, and numbers read from tensors, as far as they are known by now."""
    return {
        name: known[value].item() if axis is None else known[value].shape[axis]
        for name, (value, axis) in graph.symbol_sources.items()
        if value in known
    }


def _symbols(size: Any) -> set[Any]:
    return set() if isinstance(size, int) else size.node.expr.free_symbols


def _real(argument: Any, known: Mapping[Value, Any], sizes: Mapping[str, int | float]) -> Any:
    if isinstance(argument, Value):
        return known[argument] if argument.constant is None else argument.constant
    if isinstance(argument, list):
        return [_real(item, known, sizes) for item in argument]
    if isinstance(argument, (torch.SymInt, torch.SymFloat)):
        from sympy import sympify

        number = argument.node.expr.xreplace({symbol: sympify(sizes[str(symbol)]) for symbol in _symbols(argument)})
        return int(number) if isinstance(argument, torch.SymInt) else float(number)
    return argument

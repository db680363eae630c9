"""The values inside a model that the recorded program also has, and their values in torch.

The values that both share are the outputs of the nodes that were written for one operator of the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.graph.graph import Graph, Node, Primitive, Value, Varying
from onnx_parity.exporter.recording.evaluate import TensorInterpreter, outside_of_recording
from onnx_parity.exporter.tracing.symbolic_number import SymbolicNumber
from onnx_parity.exporter.verification.float64 import in_dtype

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram

__all__ = ["computed", "shared_values"]


def shared_values(program: ONNXProgram) -> dict[str, Value]:
    """The recorded values by the names of their counterparts in the model.

    An operator contributes its output if exactly one value of the nodes written for it is read by other nodes.
    """
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
    """The operator of the program whose result a node computes; if another was folded into the node, that one."""
    return node.meta.get("ends") or node.meta.get("origin")


def computed(
    graph: Graph, inputs: Sequence[torch.Tensor], dtype: torch.dtype | None = None
) -> dict[Value, torch.Tensor]:
    """The values of the recorded program, computed in torch, in this floating dtype if one is given.

    Values that depend on branches and loops are left out.
    """
    known: dict[Value, Any] = {item.value: tensor for item, tensor in zip(graph.inputs, inputs, strict=True)}

    def number(size: Varying, tensors: Mapping[Value, Any]) -> Any:
        sources = tuple((symbol, graph.symbol_sources[str(symbol)]) for symbol in size.node.expr.free_symbols)
        return SymbolicNumber(size.node.expr, sources).of(tensors)

    interpreter = TensorInterpreter(number)
    with outside_of_recording(), torch.no_grad(), nullcontext() if dtype is None else in_dtype(dtype):
        for node in graph.live_nodes():
            if not isinstance(node.op, Primitive) and _can_run(node, graph, known):
                interpreter.step(node, known)
    return known


def _can_run(node: Node, graph: Graph, known: Mapping[Value, Any]) -> bool:
    """Whether all inputs of an operator are known, and all symbols in its sizes."""
    if not all(value.constant is not None or value in known for value in node.inputs()):
        return False
    sizes = (size for size in node.sizes() if not isinstance(size, int))
    symbols = (str(symbol) for size in sizes for symbol in size.node.expr.free_symbols)
    return all(name in graph.symbol_sources and graph.symbol_sources[name].value in known for name in symbols)

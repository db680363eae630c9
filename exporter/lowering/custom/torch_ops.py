"""Adds an operator of torch to the ONNX graph unchanged, to be executed by torch or by the user's own runtime."""

from __future__ import annotations

from collections.abc import Callable

from onnx_parity.exporter.fallback.encoding import ATEN_DOMAIN, ATEN_OP, encoded, header
from onnx_parity.exporter.graph.graph import Node, operator_name
from onnx_parity.exporter.graph.graph import Value as AtenValue
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = ["as_aten", "as_recorded"]


def as_aten(g: Graph, node: Node, lowered: Callable[[AtenValue], Value]) -> tuple[Value | None, ...]:
    """A node `org.pytorch.aten::ATen` with the name of the operator as an attribute."""
    return _emit(g, node, lowered, ATEN_DOMAIN, ATEN_OP, with_operator=True)


def as_recorded(g: Graph, node: Node, lowered: Callable[[AtenValue], Value]) -> tuple[Value | None, ...]:
    """A node with the operator's own name, and its namespace as the domain: `aten::add`, `my_ops::foo`."""
    namespace, _, name = operator_name(node.op).partition("::")
    return _emit(g, node, lowered, namespace, name, with_operator=False)


def _emit(
    g: Graph,
    node: Node,
    lowered: Callable[[AtenValue], Value],
    domain: str,
    op_type: str,
    *,
    with_operator: bool,
) -> tuple[Value | None, ...]:
    assert isinstance(node.op, OpOverload)
    inputs, attributes = encoded(node, lowered, g.ints)
    dtypes = [output.dtype for output in node.outputs if output is not None]
    results = iter(
        g.typed_op(domain, op_type, inputs, header(node.op, with_operator=with_operator) | attributes, dtypes)
    )
    return tuple(None if output is None else next(results) for output in node.outputs)

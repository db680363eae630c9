"""The printed graph: one line a statement, with types, attributes, the module and the source line it came from."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from exporter.capture.graph import Node

__all__ = ["printed"]

_NAMES = {
    ir.DataType.FLOAT: "Float",
    ir.DataType.DOUBLE: "Double",
    ir.DataType.FLOAT16: "Half",
    ir.DataType.BFLOAT16: "BFloat16",
    ir.DataType.INT64: "Long",
    ir.DataType.INT32: "Int",
    ir.DataType.INT16: "Short",
    ir.DataType.INT8: "Char",
    ir.DataType.UINT8: "Byte",
    ir.DataType.BOOL: "Bool",
    ir.DataType.COMPLEX64: "ComplexFloat",
    ir.DataType.COMPLEX128: "ComplexDouble",
    ir.DataType.STRING: "String",
}


def printed(model: ir.Model) -> str:
    return "\n".join(_lines(model))


def _lines(model: ir.Model) -> Iterator[str]:
    graph = model.graph
    opsets = ", ".join(f"{domain or 'onnx'} {version}" for domain, version in graph.opset_imports.items())
    yield f"# opset {opsets}; IR version {model.ir_version}"
    ends = [*graph.inputs, *(v for v in graph.initializers.values() if v not in set(graph.inputs))]
    for number, value in enumerate(ends):
        head = "graph(" if number == 0 else "      "
        tail = ") {" if number == len(ends) - 1 else ","
        yield f"{head}{_typed(value)}{tail}"
    if not ends:
        yield "graph() {"
    for node in graph:
        yield from _statement(node, "  ")
    yield f"  return ({', '.join(f'%{value.name}' for value in graph.outputs)})"
    yield "}"


def _typed(value: ir.Value) -> str:
    dtype = "Tensor" if value.dtype is None else _NAMES.get(value.dtype, value.dtype.name)
    # A rank that is not known is not the rank of a scalar, which prints as Float().
    sizes = "" if value.shape is None else f"({', '.join(str(size) for size in value.shape)})"
    return f"%{value.name} : {dtype}{sizes}"


def _statement(node: ir.Node, indent: str) -> Iterator[str]:
    results = ", ".join(_typed(output) for output in node.outputs)
    plain = [each for each in node.attributes.items() if each[1].type is not ir.AttributeType.GRAPH]
    attributes = ", ".join(f"{name}={_attribute(attribute)}" for name, attribute in plain)
    operands = ", ".join("" if value is None else f"%{value.name}" for value in node.inputs)
    domain = node.domain or "onnx"
    text = f"{indent}{results} = {domain}::{node.op_type}{f'[{attributes}]' if attributes else ''}({operands})"
    origin = node.meta.get("origin")
    if isinstance(origin, Node):
        if origin.origin.module:
            text += f", scope: {origin.origin.module}"
        if origin.origin.where:
            text += f" # {origin.origin.where}"
    yield text
    for name, attribute in node.attributes.items():
        if attribute.type is ir.AttributeType.GRAPH:
            yield from _body(name, attribute.as_graph(), f"{indent}  ")


def _body(name: str, graph: ir.Graph, indent: str) -> Iterator[str]:
    """The body of a branch or of a loop."""
    yield f"{indent}{name}({', '.join(map(_typed, graph.inputs))}):"
    for node in graph:
        yield from _statement(node, f"{indent}  ")
    yield f"{indent}  -> ({', '.join(f'%{value.name}' for value in graph.outputs)})"


def _attribute(attribute: ir.Attr) -> str:
    if attribute.type is ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        values = tensor.numpy().tolist() if tensor.size <= 8 else "..."
        return f"{tensor.dtype.name}{list(tensor.shape.numpy())}{{{values}}}"
    value = attribute.value
    return str(list(value)) if isinstance(value, tuple) else str(value)

"""The printed graph: one line for each node, with types, attributes, and the module and source line of its origin.

Also as HTML, beside what else is to be known of a model: what notebooks show, and the page of `ONNXProgram.show`.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec
import onnx_ir as ir
import torch

from onnx_parity.exporter.files.write import size_of_weights
from onnx_parity.exporter.graph.assumptions import Assumption
from onnx_parity.exporter.graph.graph import Node

__all__ = ["Scopes", "attribute_text", "html_summary", "printed", "typed", "write_page"]

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

_STYLE = (
    ":root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; "
    "margin: 2rem auto; padding: 0 1rem } table { border-spacing: 0; margin: .5rem 0 } "
    "td { padding: .15rem 1.2rem .15rem 0; vertical-align: top; overflow-wrap: anywhere } "
    "pre { overflow-x: auto; line-height: 1.6 } pre a { text-decoration: none } "
    ":target { background: #fd08; outline: 2px solid #fa0 }"
)
#: A name in the printed graph.
_NAME = re.compile(r"%([^\s:,()\[\]{}]+)( : )?")


class Scopes(msgspec.Struct, frozen=True):
    """The position of a node in the module hierarchy: `AlexNet/Sequential[features]/Conv2d[0]`."""

    #: The names of the modules' classes, by their paths from the root.
    classes: Mapping[str, str] = {}

    @classmethod
    def of(cls, program: object) -> Scopes:
        if not isinstance(program, torch.nn.Module):
            return cls()
        modules = program.named_modules(remove_duplicate=False)
        return cls({path: type(module).__name__ for path, module in modules})

    def spelled(self, path: str) -> str:
        """The scope of a module path. A program that is not a module has no scopes: the path is returned unchanged."""
        if "" not in self.classes:
            return path
        parts = path.split(".") if path else []
        steps = [self.classes[""]]
        for number, part in enumerate(parts):
            steps.append(f"{self.classes.get('.'.join(parts[: number + 1]), '')}[{part}]")
        return "/".join(steps)


def printed(model: ir.Model, scopes: Scopes | None = None) -> str:
    return "\n".join(_lines(model, scopes or Scopes()))


def _lines(model: ir.Model, scopes: Scopes) -> Iterator[str]:
    graph = model.graph
    opsets = ", ".join(f"{domain or 'onnx'} {version}" for domain, version in graph.opset_imports.items())
    yield f"# opset {opsets}; IR version {model.ir_version}"
    ends = [*graph.inputs, *(v for v in graph.initializers.values() if v not in set(graph.inputs))]
    for number, value in enumerate(ends):
        head = "graph(" if number == 0 else "      "
        tail = ") {" if number == len(ends) - 1 else ","
        yield f"{head}{typed(value)}{tail}"
    if not ends:
        yield "graph() {"
    for node in graph:
        yield from _statement(node, "  ", scopes)
    yield f"  return ({', '.join(f'%{value.name}' for value in graph.outputs)})"
    yield "}"
    for function in model.functions.values():
        names = ", ".join(f"%{value.name}" for value in function.inputs)
        yield f"{function.domain}::{function.name}({names}) {{"
        for node in function:
            yield from _statement(node, "  ", scopes)
        yield f"  return ({', '.join(f'%{value.name}' for value in function.outputs)})"
        yield "}"


def typed(value: ir.Value) -> str:
    """`%x : Float(batch, 3)`; for a sequence `Float[](batch, 3)`; for an optional `Float?(batch, 3)`."""
    dtype = "Tensor" if value.dtype is None else _NAMES.get(value.dtype, value.dtype.name)
    match value.type:
        case ir.SequenceType():
            dtype += "[]"
        case ir.OptionalType():
            dtype += "?"
    # An unknown rank is printed as Float, unlike that of a scalar, which is printed as Float().
    sizes = "" if value.shape is None else f"({', '.join(str(size) for size in value.shape)})"
    return f"%{value.name} : {dtype}{sizes}"


def _statement(node: ir.Node, indent: str, scopes: Scopes) -> Iterator[str]:
    results = ", ".join(typed(output) for output in node.outputs)
    plain = [each for each in node.attributes.items() if each[1].type is not ir.AttributeType.GRAPH]
    attributes = ", ".join(f"{name}={attribute_text(attribute)}" for name, attribute in plain)
    operands = ", ".join("" if value is None else f"%{value.name}" for value in node.inputs)
    domain = node.domain or "onnx"
    text = f"{indent}{results} = {domain}::{node.op_type}{f'[{attributes}]' if attributes else ''}({operands})"
    origin = node.meta.get("origin")
    if isinstance(origin, Node):
        scope = scopes.spelled(origin.origin.module)
        if scope:
            text += f", scope: {scope}"
        if origin.origin.where:
            text += f" # {origin.origin.where}"
    elif node.doc_string:
        text += f" # {node.doc_string}"
    yield text
    for name, attribute in node.attributes.items():
        if attribute.type is ir.AttributeType.GRAPH:
            yield from _body(name, attribute.as_graph(), f"{indent}  ", scopes)


def _body(name: str, graph: ir.Graph, indent: str, scopes: Scopes) -> Iterator[str]:
    """The lines of the body of a branch or of a loop."""
    yield f"{indent}{name}({', '.join(map(typed, graph.inputs))}):"
    for node in graph:
        yield from _statement(node, f"{indent}  ", scopes)
    yield f"{indent}  -> ({', '.join(f'%{value.name}' for value in graph.outputs)})"


def attribute_text(attribute: ir.Attr) -> str:
    """The value of an attribute that is not a graph. A tensor's elements are shown if there are few."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    if attribute.type is ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        # External data is not read: it may lie anywhere.
        is_shown = tensor.size <= 8 and not isinstance(tensor, ir.ExternalTensor)
        values = tensor.numpy().tolist() if is_shown else "..."
        return f"{tensor.dtype.name}{list(tensor.shape.numpy())}{{{values}}}"
    value = attribute.value
    return str(list(value)) if isinstance(value, tuple) else str(value)


def html_summary(
    model: ir.Model, inputs: Sequence[ir.Value], assumptions: Sequence[Assumption], scopes: Scopes, graph: str = ""
) -> str:
    """The inputs and outputs of a model, its opset and operators, the conditions under which it is right, and the
    graph, as HTML or else as text to be opened."""
    nodes = model.graph
    counts = Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes)
    ends = [*(("input", value) for value in inputs), *(("output", value) for value in nodes.outputs)]
    opsets = ", ".join(
        f"{domain} {version}" if domain else str(version) for domain, version in model.opset_imports.items()
    )
    operators = ", ".join(f"{name} × {count}" if count > 1 else name for name, count in counts.most_common())
    table = _table((kind, *map(_code, _name_and_type(value))) for kind, value in ends)
    stated = "".join(f"<li>{escape(str(each))}</li>" for each in assumptions)
    shown = graph or f"<details><summary>graph</summary><pre>{escape(printed(model, scopes))}</pre></details>"
    return (
        f"<div><b>ONNXProgram</b>, opset {escape(opsets)}: {len(nodes)} node{'s' * (len(nodes) != 1)}, "
        f"{size_of_weights(model):,} bytes of weights{table}<div>{escape(operators)}</div>"
        f"{f'<p>It is right if:</p><ul>{stated}</ul>' if stated else ''}{shown}</div>"
    )


def write_page(
    model: ir.Model,
    inputs: Sequence[ir.Value],
    assumptions: Sequence[Assumption],
    scopes: Scopes,
    path: Path | None,
) -> Path:
    """Write the page, into a new temporary folder if there is no path."""
    file = Path(tempfile.mkdtemp(prefix="onnx-parity-"), "model.html") if path is None else path
    graph = f"<h2>Graph</h2><pre>{_linked(printed(model, scopes))}</pre>{_weights(model)}"
    body = html_summary(model, inputs, assumptions, scopes, graph)
    title = escape(scopes.classes.get("") or "ONNX model")
    file.write_text(
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style><h1>{title}</h1>\n{body}</html>\n",
        encoding="utf-8",
    )
    return file.absolute()


def _weights(model: ir.Model) -> str:
    """The weights, the largest first."""
    held = [(value, value.const_value) for value in model.graph.initializers.values()]
    sizes = sorted(((tensor.nbytes, value) for value, tensor in held if tensor), key=lambda each: -each[0])
    rows = ((*map(_code, _name_and_type(value)), f"{size:,} bytes") for size, value in sizes)
    return f"<h2>Weights</h2>{_table(rows)}" if sizes else ""


def _linked(text: str) -> str:
    """The printed graph, in which a name leads to the line that computes it."""
    known: set[str] = set()
    pieces: list[str] = []
    end = 0
    for found in _NAME.finditer(text):
        name, is_made = found[1], bool(found[2]) and found[1] not in known
        pieces.append(escape(text[end : found.start()]))
        where = "id" if is_made else "href"
        target = escape(name if is_made else f"#{name}")
        pieces.append(f'<a {where}="{target}">%{escape(name)}</a>{found[2] or ""}')
        known.add(name)
        end = found.end()
    return "".join(pieces) + escape(text[end:])


def _name_and_type(value: ir.Value) -> list[str]:
    return typed(value).removeprefix("%").split(" : ", 1)


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _table(rows: Iterable[Sequence[str]]) -> str:
    def lines() -> Iterator[str]:
        for row in rows:
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"

    return f"<table>{''.join(lines())}</table>"

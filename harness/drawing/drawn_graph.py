"""An exported model as a `DrawnGraph`: names, types, attributes, and where each node comes from."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from onnx_parity.exporter.graph.graph import Node
from onnx_parity.exporter.print_graph import attribute_text, typed
from onnx_parity.harness.drawing.drawings import DrawnGraph, DrawnNode
from onnx_parity.harness.drawing.places import line_of
from onnx_parity.harness.subjects.delivered import since_version

#: An attribute's text is cut after so many characters.
_LONGEST = 200


def draw_graph(model: ir.Model) -> DrawnGraph:
    """The graph of a model, to which the shapes that follow from its inputs are added."""
    ShapeInferencePass()(model)
    versions = {"" if domain == "ai.onnx" else domain: version for domain, version in model.opset_imports.items()}
    return _graph(model.graph, versions)


def _graph(graph: ir.Graph, versions: dict[str, int]) -> DrawnGraph:
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    values = [*inputs, *graph.initializers.values(), *(output for node in graph for output in node.outputs)]
    return DrawnGraph(
        inputs=[value.name or "" for value in inputs],
        outputs=[value.name or "" for value in graph.outputs],
        nodes=[_node(node, versions) for node in graph],
        constants=list(graph.initializers),
        types={value.name: typed(value).partition(" : ")[2] for value in values if value.name},
    )


def _node(node: ir.Node, versions: dict[str, int]) -> DrawnNode:
    domain = "" if node.domain == "ai.onnx" else node.domain
    attributes, bodies = [], {}
    for name, attribute in node.attributes.items():
        if attribute.type is ir.AttributeType.GRAPH:
            bodies[name] = _graph(attribute.as_graph(), versions)
        else:
            text = attribute_text(attribute)
            attributes.append((name, text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"))
    origin = node.meta.get("origin")
    known = origin if isinstance(origin, Node) else None
    return DrawnNode(
        op=node.op_type,
        since=since_version(node.op_type, versions.get(domain, 0), domain),
        inputs=["" if value is None else value.name or "" for value in node.inputs],
        outputs=[value.name or "" for value in node.outputs],
        domain=domain,
        attributes=attributes,
        operator=str(known.op) if known else "",
        where=line_of(known.origin) if known else (node.doc_string or "").strip()[:_LONGEST],
        module=known.origin.module if known else "",
        bodies=bodies,
    )

"""A model as ranges are measured in it: without functions, with types, and with the place of each node in the program.

The place is read from what an exporter left in the model: the `doc_string` of this exporter's nodes, or the metadata
that torch.onnx and this exporter write, whose keys are in `_SCOPES` and `_STACK`.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx.inliner import inline_selected_functions
from onnx_ir.passes import common

from onnx_parity.exporter.rewrites.engine.all_nodes import subgraphs_of

__all__ = ["expanded", "float_outputs", "has_blocks", "loaded", "place_of"]

#: Functions of the standard whose definition computes in the dtype of the inputs what may be too large for it, though
#: their result is not. Norms with a `stash_type` do so in float32, and softmax subtracts the largest first.
_EXPANDED = frozenset({"Attention", "LpNormalization", "MeanVarianceNormalization", "ReduceL2"})
_SCOPES, _STACK = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.stack_trace"
_DOCUMENTED = re.compile(r"\S+(?: at (?P<line>.+:\d+))?(?: in (?:module )?(?P<module>\S+))?")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_LIBRARIES = f"{os.sep}site-packages{os.sep}"


def loaded(model: str | Path | ir.Model) -> ir.Model:
    """A copy of a model without functions. All constants are initializers."""
    copied = ir.load(model) if isinstance(model, str | Path) else model.clone()
    for each in (
        common.InlinePass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.ShapeInferencePass(check_type=False, strict_mode=False),
    ):
        copied = each(copied).model
    return copied


def expanded(model: ir.Model) -> tuple[ir.Model, dict[str, str]]:
    """The model with what the functions of `_EXPANDED` compute inside beside them, and the names of these values, each
    with the name of a value that the function returns."""
    if not any(map(_is_expanded, model.graph)):
        return model, {}
    result = model.clone()
    inside: dict[str, str] = {}
    for node in [node for node in result.graph if _is_expanded(node)]:
        returned = node.outputs[0].name or ""
        last = node
        for added in _written_out(node, result):
            added.name = None
            for output in added.outputs:
                output.name = f"{returned}/{output.name}"
                if output.dtype is ir.DataType.FLOAT:
                    inside[output.name] = returned
            result.graph.insert_after(last, added)
            last = added
    return result, inside


def _is_expanded(node: ir.Node) -> bool:
    return not node.domain and node.op_type in _EXPANDED


def _written_out(node: ir.Node, model: ir.Model) -> list[ir.Node]:
    """The nodes of the function's body, which read what the node reads."""
    if node.op_type == "ReduceL2":
        # It is a function since opset 18 only. The sum of the squares is the square of the result.
        square = ir.Node("", "Mul", [node.outputs[0]] * 2, outputs=[ir.Value(name="square", type=node.outputs[0].type)])
        return [square]
    read = {value.name or "": value for value in node.inputs if value is not None}
    inputs, outputs = ([ir.to_proto(value) for value in values] for values in (read.values(), node.outputs))
    graph = onnx.helper.make_graph([ir.to_proto(node)], "one", inputs, outputs)
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in model.opset_imports.items()]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)
    functions = [("", name) for name in _EXPANDED]
    body = ir.from_proto(onnx.shape_inference.infer_shapes(inline_selected_functions(proto, functions, False, True)))
    body.graph.outputs.clear()
    for value in list(body.graph.inputs):
        value.replace_all_uses_with(read[value.name or ""])
    nodes = list(body.graph)
    body.graph.remove(nodes)
    return nodes


def float_outputs(graph: ir.Graph) -> Iterator[tuple[ir.Node, ir.Value]]:
    """The float32 values that nodes of the graph compute, in their order, and the nodes."""
    for node in graph:
        for output in node.outputs:
            if output.name and output.dtype is ir.DataType.FLOAT:
                yield node, output


def has_blocks(node: ir.Node) -> bool:
    return next(subgraphs_of(node), None) is not None


def place_of(node: ir.Node) -> tuple[str, str]:
    """The module and the source line that a node comes from; each is empty if the model does not have it."""
    found = _DOCUMENTED.fullmatch(node.doc_string or "")
    if found is not None and (found["line"] or found["module"]):
        return found["module"] or "", found["line"] or ""
    scopes = node.metadata_props.get(_SCOPES, "")
    try:
        path = ast.literal_eval(scopes) if scopes else []
    except (SyntaxError, ValueError):
        path = []
    # The last name is that of the operator itself.
    module = next((name for name in reversed(path[:-1]) if name), "")
    frames = [(each["file"], each["line"]) for each in _FRAME.finditer(node.metadata_props.get(_STACK, ""))]
    own = [frame for frame in frames if _LIBRARIES not in frame[0]] or frames
    return module, ":".join(own[-1]) if own else ""

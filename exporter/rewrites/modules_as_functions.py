"""`export_modules_as_functions`: the nodes of a module become a local function of the model.

Modules of one class whose nodes are equal share one function.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

import onnx_ir as ir
import torch

from onnx_parity.exporter.errors import ArgumentError, OpsetError
from onnx_parity.exporter.graph.graph import Node
from onnx_parity.exporter.lowering.values.model_functions import Functions
from onnx_parity.exporter.rewrites.engine.all_nodes import subgraphs_of

__all__ = ["modules_to_functions"]

#: The first opset whose IR version, 8, has functions.
_SINCE = 15


def modules_to_functions(
    model: ir.Model, program: object, which: bool | Collection[type[torch.nn.Module]], opset: int
) -> None:
    """Replace consecutive nodes of a chosen module by a call of a function, also inside of the function."""
    if opset < _SINCE:
        raise OpsetError(
            f"export_modules_as_functions needs opset {_SINCE} or later, but opset_version is {opset}: give "
            f"opset_version={_SINCE}"
        )
    if not isinstance(program, torch.nn.Module):
        raise ArgumentError(
            "export_modules_as_functions needs a torch.nn.Module, but the program is a function: export a module"
        )
    asked: Any = which
    classes = (torch.nn.Module,) if asked is True else tuple(asked) if isinstance(asked, Collection) else (asked,)
    if not all(isinstance(each, type) for each in classes):
        raise ArgumentError(
            f"export_modules_as_functions is {which!r}: give True, or the classes of modules, {{torch.nn.LayerNorm}}"
        )
    modules = {
        path: type(module)
        for path, module in program.named_modules(remove_duplicate=False)
        if path and isinstance(module, classes)
    }
    if not modules:
        raise ArgumentError(
            f"export_modules_as_functions is {', '.join(each.__qualname__ for each in classes)}, but the program has "
            "no such module: give the classes of modules that it has"
        )
    functions = Functions()
    _group(model.graph, "", modules, functions)
    for function in functions.listed():
        model.functions[function.identifier()] = function
        # onnxruntime inlines functions, and so requires the imports of their bodies in the model too.
        model.graph.opset_imports.update(function.opset_imports)


def _group(graph: ir.Graph, within: str, modules: dict[str, type], functions: Functions) -> None:
    def module_of(node: ir.Node) -> str:
        """The path of the outermost chosen module inside of this one that a node belongs to."""
        origin = node.meta.get("origin")
        path = origin.origin.module if isinstance(origin, Node) else ""
        inner = path.removeprefix(within).removeprefix(".").split(".") if path.startswith(within) and path else []
        for length in range(1, len(inner) + 1):
            candidate = ".".join([*([within] if within else []), *inner[:length]])
            if candidate in modules and candidate != within:
                return candidate
        return ""

    for path, run in groupby(list(graph), key=module_of):
        nodes = list(run)
        if path and not any(map(_has_blocks, nodes)):
            _extract(graph, nodes, path, modules, functions)


def _has_blocks(node: ir.Node) -> bool:
    """Whether a node has subgraphs, which may read any value of the graph and so cannot be moved to a function."""
    return next(subgraphs_of(node), None) is not None


def _extract(
    graph: ir.Graph, nodes: Sequence[ir.Node], path: str, modules: dict[str, type], functions: Functions
) -> None:
    made = {output for node in nodes for output in node.outputs}
    inputs = list(dict.fromkeys(v for node in nodes for v in node.inputs if v is not None and v not in made))
    own = set(nodes)
    outputs = [
        output
        for node in nodes
        for output in node.outputs
        if output.is_graph_output() or any(use.node not in own for use in output.uses())
    ]
    body = _copy(nodes, inputs, outputs, path, graph)
    _group(body, path, modules, functions)
    domain = modules[path].__module__
    name = functions.add(domain, modules[path].__qualname__, ir.Function(domain, "", graph=body, attributes=()))
    results = [ir.Value(name=output.name, type=output.type, shape=output.shape) for output in outputs]
    call = ir.Node(domain, name, inputs, outputs=results, name=f"node_{results[0].name}")
    call.meta["origin"] = nodes[0].meta.get("origin")
    graph.insert_before(nodes[0], call)
    for output, result in zip(outputs, results, strict=True):
        output.replace_all_uses_with(result, replace_graph_outputs=True)
        output.name = None
    graph.remove(nodes, safe=True)
    graph.opset_imports[domain] = 1


def _copy(
    nodes: Sequence[ir.Node], inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], path: str, graph: ir.Graph
) -> ir.Graph:
    """Copies of the nodes as the body of a function. The names of values are the same for equal modules."""
    values: dict[ir.Value, ir.Value] = {}
    taken: set[str] = set()

    def named(stem: str) -> str:
        name, count = stem, 0
        while name in taken:
            count += 1
            name = f"{stem}_{count}"
        taken.add(name)
        return name

    for value in inputs:
        own = (value.name or "").removeprefix(f"{path}.")
        is_weight = value.is_initializer() and own != value.name
        values[value] = ir.Value(name=named(own if is_weight else "input"))
    copies = []
    for node in nodes:
        made = [ir.Value(name=named(node.op_type)) for _ in node.outputs]
        values.update(zip(node.outputs, made, strict=True))
        copy = ir.Node(
            node.domain,
            node.op_type,
            [None if value is None else values[value] for value in node.inputs],
            list(node.attributes.values()),
            outputs=made,
            name=f"node_{made[0].name}",
        )
        copy.meta["origin"] = node.meta.get("origin")
        copies.append(copy)
    return ir.Graph(
        [values[value] for value in inputs],
        [values[value] for value in outputs],
        nodes=copies,
        opset_imports={domain: graph.opset_imports[domain] for domain in sorted({"", *(n.domain for n in nodes)})},
    )

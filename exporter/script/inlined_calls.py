"""Operators that stand for functions of torch in graphs that torch itself has inlined.

`torch.onnx.export(..., dynamo=False)` inlines the functions that a script calls, in the script's own graph: whoever
exports it afterwards gets that graph. A call of `F.interpolate`, also by `F.upsample`, has become an operator
`aten::__interpolate` in it. It is replaced by the graph of the function again. torch's registry has three operators
more of this kind, for which older versions of torch wrote calls of `F.upsample` and its relatives.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401  (the sources below name it)

from onnx_parity.exporter.torch_inside.torchscript import Graph, parse_schema

__all__ = ["graph_of_call"]

#: What each does with its arguments.
_CALLS = {
    "aten::__interpolate": "F.interpolate({0}, {1}, {2}, {3}, {4}, {5}, {6})",
    "aten::__upsample": "F.interpolate({0}, {1}, {2}, {3}, {4})",
    "aten::__upsample_nearest": "F.interpolate({0}, {1}, {2}, mode='nearest')",
    "aten::__upsample_bilinear": "F.interpolate({0}, {1}, {2}, mode='bilinear', align_corners=True)",
}

#: The operators of the older functions take whole numbers as scales.
_AS_FLOAT = "None if {0} is None else float({0})"
_AS_FLOATS = "None if {0} is None else [float(each) for each in {0}]"


def graph_of_call(node: Any) -> Graph | None:
    """The graph of the function that an operator stands for; None for any other operator."""
    return _graph(node.kind(), node.schema()) if node.kind() in _CALLS else None


@cache
def _graph(kind: str, schema: str) -> Graph:
    parameters = [(each.name, each.type.annotation_str) for each in parse_schema(schema).arguments]
    declared = ", ".join(f"{name}: {annotation}" for name, annotation in parameters)
    values = []
    for name, annotation in parameters:
        whole = name == "scale_factor" and "int" in annotation
        values.append(f"({_AS_FLOATS if 'List' in annotation else _AS_FLOAT})".format(name) if whole else name)
    unit = torch.jit.CompilationUnit()
    unit.define(f"def call({declared}) -> Tensor:\n    return {_CALLS[kind].format(*values)}\n")
    graph: Graph = unit.call.inlined_graph
    return graph

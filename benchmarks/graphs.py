"""How many nodes exported files have, and of which operators."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx


def operators(graph: onnx.GraphProto) -> Counter[str]:
    """How many nodes of each operator a graph has, with those of its branches and loop bodies."""
    counts = Counter(f"{node.domain}.{node.op_type}".lstrip(".") for node in graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                counts += operators(attribute.g)
    return counts


def nodes_of(path: Path) -> int:
    """The number of nodes of a file, those of its functions included."""
    model = onnx.load(path, load_external_data=False)
    return operators(model.graph).total() + sum(len(function.node) for function in model.functions)

"""How many nodes exported files have, and of which operators."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx

from onnx_parity.exporter.files import subgraphs


def operators(graph: onnx.GraphProto) -> Counter[str]:
    """How many nodes of each operator a graph has, with those of its branches and loop bodies."""
    return Counter(f"{node.domain}.{node.op_type}".lstrip(".") for node in subgraphs.nodes_of(graph))


def nodes_of(path: Path) -> int:
    """The number of nodes of a file, those of its functions included."""
    model = onnx.load(path, load_external_data=False)
    return operators(model.graph).total() + sum(len(function.node) for function in model.functions)

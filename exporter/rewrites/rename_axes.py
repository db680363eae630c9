"""Renames dynamic axes in all shapes of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir as ir

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.graph.names_of_axes import renamed
from onnx_parity.exporter.rewrites.engine.all_nodes import all_nodes, subgraphs_of

__all__ = ["rename_axes"]


def rename_axes(model: ir.Model, names: Mapping[str, str] | Mapping[str | ir.SymbolicDim, str]) -> None:
    """Rename axes, given by name or as the dimension of a shape, also in sizes that are computed from them
    (`2*batch`)."""
    if not isinstance(names, Mapping):
        raise ArgumentError(f"rename_mapping is {names!r}: give a dict of names, {{'batch': 'N'}}")
    given: Mapping[Any, Any] = names
    for old, new in given.items():
        if not isinstance(old, (str, ir.SymbolicDim)) or not isinstance(new, str) or not new:
            raise ArgumentError(
                f"rename_mapping has {old!r}: {new!r}: give names of axes, which are strings that are not empty"
            )
    wanted = {str(old.value) if isinstance(old, ir.SymbolicDim) else old: new for old, new in names.items()}
    values = [value for value in _values(model.graph) if value.shape is not None]
    known = {
        word
        for value in values
        for size in value.shape or ()
        if isinstance(size, ir.SymbolicDim) and size.value
        for word in re.findall(r"[^\W\d]\w*", size.value)
    }
    unknown = [name for name in wanted if name not in known and not any(_has_axis(value, name) for value in values)]
    if unknown:
        raise ArgumentError(
            f"no axis of the model is called {unknown[0]!r}: its dynamic axes are {', '.join(sorted(known)) or 'none'}"
        )
    kept = known - wanted.keys()
    for name in wanted.values():
        if name in kept or list(wanted.values()).count(name) > 1:
            raise ArgumentError(
                f"two axes would be called {name!r}, but axes of one name have equal sizes: give them different names"
            )
    for value in values if wanted else ():
        value.shape = ir.Shape(
            [
                renamed(size.value, wanted) if isinstance(size, ir.SymbolicDim) and size.value else size
                for size in value.shape or ()
            ]
        )


def _has_axis(value: ir.Value, name: str) -> bool:
    return any(isinstance(size, ir.SymbolicDim) and size.value == name for size in value.shape or ())


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    for node in all_nodes(graph):
        yield from node.outputs
        for subgraph in subgraphs_of(node):
            yield from subgraph.inputs

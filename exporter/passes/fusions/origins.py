"""Where in the user's program a node that a fusion adds comes from."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["take_origin"]


def take_origin(node: ir.Node, source: ir.Node) -> None:
    """Let a new node have the origin, the metadata and the documentation of the one that it replaces or prepares."""
    node.meta.update(source.meta)
    node.metadata_props.update(source.metadata_props)
    node.doc_string = source.doc_string

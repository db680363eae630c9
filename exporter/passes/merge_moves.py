"""Merges transposes that follow each other, and reshapes of what was only reshaped before."""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.passes.matching import ints_of, producer_of

__all__ = ["merge_moves"]

#: Operators that give a tensor other axes with the same elements in the same order.
_RESHAPES = ("Reshape", "Unsqueeze", "Squeeze", "Flatten")


def merge_moves(model: ir.Model) -> None:
    """Merge each Transpose into the one before it, and each Reshape, if nothing else reads what is between them.

    This removes a node from each attention, whose keys are transposed for the heads and once more for the product.
    """
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain:
            continue
        if node.op_type == "Transpose":
            _merge_transposes(node)
        elif node.op_type == "Reshape":
            _merge_reshapes(node)


def _merge_transposes(node: ir.Node) -> None:
    before = producer_of(node.inputs[0], "Transpose")
    if before is None or not _is_read_by_one(before):
        return
    first, then = (list(each.attributes["perm"].as_ints()) for each in (before, node))
    merged = [first[axis] for axis in then]
    source, out = before.inputs[0], node.outputs[0]
    if merged != sorted(merged):
        node.replace_input_with(0, source)
        node.attributes["perm"] = ir.AttrInt64s("perm", merged)
    elif source is not None and not out.is_graph_output():
        out.replace_all_uses_with(source)


def _merge_reshapes(node: ir.Node) -> None:
    sizes = ints_of(node.inputs[1])
    if sizes is None or 0 in sizes:
        return  # A size of 0 is that of the input's axis.
    while (before := node.inputs[0].producer() if node.inputs[0] is not None else None) is not None:
        if before.domain or before.op_type not in _RESHAPES or not _is_read_by_one(before) or before.graph is None:
            return
        node.replace_input_with(0, before.inputs[0])
        before.graph.remove(before, safe=True)


def _is_read_by_one(node: ir.Node) -> bool:
    return len(node.outputs[0].uses()) == 1 and not node.outputs[0].is_graph_output()

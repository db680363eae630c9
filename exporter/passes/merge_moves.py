"""Merges transposes and joins that follow each other, reshapes of what was only reshaped before, and those around
products.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.passes.matching import ints_of, permutation_of, producer_of, sizes_of

__all__ = ["merge_moves"]

#: Operators that give a tensor other axes with the same elements in the same order.
_RESHAPES = ("Reshape", "Unsqueeze", "Squeeze", "Flatten")


def merge_moves(model: ir.Model) -> None:
    """Merge each Transpose into the one before it, each Reshape, and each Concat along the same axis, if nothing else
    reads what is between them.

    This removes a node from each attention, whose keys are transposed for the heads and once more for the product, and
    three more where the batch and the heads are one axis of the product (`torch.bmm`).
    """
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain:
            continue
        if node.op_type == "Transpose":
            _merge_transposes(node)
        elif node.op_type == "Reshape":
            _merge_reshapes(node)
            _take_batches_apart(node)
        elif node.op_type == "Concat":
            _merge_joins(node)


def _merge_transposes(node: ir.Node) -> None:
    before = producer_of(node.inputs[0], "Transpose")
    if before is None or not _is_read_by_one(before):
        return
    first, then = permutation_of(before), permutation_of(node)
    if first is None or then is None:
        return
    merged = [first[axis] for axis in then]
    source, out = before.inputs[0], node.outputs[0]
    if merged == sorted(merged) and source is not None and not out.is_graph_output():
        out.replace_all_uses_with(source)
        return
    node.replace_input_with(0, source)
    if merged == sorted(merged):  # An output of the model keeps its name.
        node.op_type = "Identity"
        node.attributes.clear()
    else:
        node.attributes["perm"] = ir.AttrInt64s("perm", merged)


def _merge_reshapes(node: ir.Node) -> None:
    sizes = ints_of(node.inputs[1])
    if sizes is None or 0 in sizes:
        return  # A size of 0 is that of the input's axis.
    while (before := node.inputs[0].producer() if node.inputs[0] is not None else None) is not None:
        if before.domain or before.op_type not in _RESHAPES or not _is_read_by_one(before) or before.graph is None:
            return
        node.replace_input_with(0, before.inputs[0])
        before.graph.remove(before, safe=True)


def _merge_joins(node: ir.Node) -> None:
    joined: list[ir.Value | None] = []
    for value in node.inputs:
        before = producer_of(value, "Concat")
        if before is not None and _is_read_by_one(before) and _axis_of(before) == _axis_of(node):
            joined += before.inputs
        else:
            joined.append(value)
    if len(joined) > len(node.inputs):
        node.resize_inputs(len(joined))
        for place, value in enumerate(joined):
            node.replace_input_with(place, value)


def _axis_of(join: ir.Node) -> int:
    return join.attributes["axis"].as_int()


def _take_batches_apart(node: ir.Node) -> None:
    """Leave the axes of a batch apart that are made one for a product of matrices and are taken apart after it.

    1. Both factors are reshaped from tensors of at least two axes, and keep the last two: only the batch becomes one.
    2. Both tensors have the same batch, axis by axis, so that nothing is broadcast, and the result gets it back.
    3. Nothing else reads the product, and the result is not an output of the model, which would lose its name.
    """
    product, out = producer_of(node.inputs[0], "MatMul"), node.outputs[0]
    if product is None or out.is_graph_output() or not _is_read_by_one(product):
        return
    joined = [each for value in product.inputs if (each := producer_of(value, "Reshape")) is not None]
    if len(joined) != 2:
        return
    sources = [each.inputs[0] for each in joined]
    a, b, found = (sizes_of(value) for value in (*sources, out))
    if a is None or b is None or found is None or min(len(a), len(b)) < 2:
        return
    if not a[:-2] == b[:-2] == found[:-2] or found[-2:] != (a[-2], b[-1]):
        return
    if any((sizes_of(each.outputs[0]) or ())[1:] != apart[-2:] for each, apart in zip(joined, (a, b), strict=True)):
        return
    for index, source in enumerate(sources):
        product.replace_input_with(index, source)
    product.outputs[0].shape = out.shape
    out.replace_all_uses_with(product.outputs[0])


def _is_read_by_one(node: ir.Node) -> bool:
    return len(node.outputs[0].uses()) == 1 and not node.outputs[0].is_graph_output()

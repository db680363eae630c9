"""Merges transposes and joins that follow each other, reshapes of what was only reshaped before, and those around
products and transposes.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.matching import (
    axes_of,
    axis_of,
    ints_of,
    is_read_by_one,
    permutation_of,
    producer_of,
    sizes_of,
)
from onnx_parity.exporter.passes.moves.reshape_early import remove_node, reshape_early, sizes_to_reshape_to
from onnx_parity.exporter.passes.new_constants import NewConstants
from onnx_parity.exporter.passes.slice_parts import Lengths, slice_parts

__all__ = ["merge_moves"]

#: Operators that give a tensor other axes with the same elements in the same order.
_RESHAPES = ("Reshape", "Unsqueeze", "Squeeze", "Flatten")


def merge_moves(model: ir.Model) -> None:
    """Merge each Transpose into the one before it, each Reshape, and each Concat along the same axis, if nothing else
    reads what is between them. Slices of joins become slices of their parts (`slice_parts`), empty parts are left out,
    a tensor that reshapes give its own shape back is read itself, and reshapes after a transpose or padding are done
    before it if there is one already (`reshape_early`).

    This removes a node from each attention, whose keys are transposed for the heads and once more for the product, and
    three more where the batch and the heads are one axis of the product (`torch.bmm`).
    """
    constants, lengths = NewConstants(model.graph), Lengths()
    for node in list(all_nodes(model.graph)):
        if node.domain:
            continue
        if node.op_type == "Transpose":
            _merge_transposes(node)
        elif node.op_type in _RESHAPES:
            _merge_reshapes(node, constants)
            if node.op_type == "Reshape":
                _take_batches_apart(node)
            reshape_early(node, constants)
        elif node.op_type == "Concat":
            _merge_joins(node, lengths)
        elif node.op_type == "Slice":
            slice_parts(node, constants, lengths)


def _merge_transposes(node: ir.Node) -> None:
    before = producer_of(node.inputs[0], "Transpose")
    if before is None or not is_read_by_one(before):
        return
    first, then = permutation_of(before), permutation_of(node)
    if first is None or then is None:
        return
    merged = [first[axis] for axis in then]
    source, out = before.inputs[0], node.outputs[0]
    is_undone = merged == sorted(merged)
    if is_undone and source is not None and (not out.is_graph_output() or _becomes_output(source, out)):
        out.replace_all_uses_with(source)
        return
    node.replace_input_with(0, source)
    remove_node(before)
    if is_undone:  # An output of the model that is an input too, or another output.
        node.op_type = "Identity"
        node.attributes.clear()
    else:
        node.attributes["perm"] = ir.AttrInt64s("perm", merged)


def _becomes_output(value: ir.Value, out: ir.Value) -> bool:
    """Let a value take the place and the name of an output, if nothing else has given it one. Whether it could."""
    producer, graph = value.producer(), out.graph
    if producer is None or not isinstance(graph, ir.Graph) or producer.graph is not graph or value.is_graph_output():
        return False
    graph.outputs[list(graph.outputs).index(out)] = value
    out.name, value.name, value.shape = None, out.name, out.shape
    return True


def _merge_reshapes(node: ir.Node, constants: NewConstants) -> None:
    """Read what is reshaped from before the reshapes that lead to it."""
    if _reads_what_is_given_back(node):
        return
    if node.op_type == "Unsqueeze":
        _merge_unsqueezes(node, constants)
    if node.op_type != "Reshape":
        return
    while (before := _reshape_before(node)) is not None and is_read_by_one(before):
        sizes = ints_of(node.inputs[1])
        if sizes is None or 0 in sizes:  # A size of 0 is that of the input's axis.
            sizes = sizes_to_reshape_to(before.inputs[0], sizes_of(node.outputs[0]))
            if sizes is None:
                return
            node.replace_input_with(1, constants.vector(sizes, node))
            node.attributes.clear()
        node.replace_input_with(0, before.inputs[0])
        remove_node(before)


def _reads_what_is_given_back(node: ir.Node) -> bool:
    """Read a tensor itself, if a reshape, with those before it, gives it its own shape back. Whether that was so."""
    out, source = node.outputs[0], node.inputs[0]
    sizes = sizes_of(out)
    if sizes is None or out.is_graph_output():
        return False
    while source is not None:
        if sizes_of(source) == sizes:
            out.replace_all_uses_with(source)
            return True
        before = source.producer()
        if before is None or before.domain or before.op_type not in _RESHAPES:
            return False
        source = before.inputs[0]
    return False


def _reshape_before(node: ir.Node) -> ir.Node | None:
    before = node.inputs[0].producer() if node.inputs[0] is not None else None
    return before if before is not None and not before.domain and before.op_type in _RESHAPES else None


def _merge_unsqueezes(node: ir.Node, constants: NewConstants) -> None:
    while (before := producer_of(node.inputs[0], "Unsqueeze")) is not None and is_read_by_one(before):
        first, then, out = axes_of(before), axes_of(node), sizes_of(node.outputs[0])
        if first is None or then is None or out is None:
            return
        new = {axis % len(out) for axis in then}
        others = [axis for axis in range(len(out)) if axis not in new]
        axes = sorted(new | {others[axis % len(others)] for axis in first})
        if "axes" in node.attributes:
            node.attributes["axes"] = ir.AttrInt64s("axes", axes)
        else:
            node.replace_input_with(1, constants.vector(axes, node))
        node.replace_input_with(0, before.inputs[0])
        remove_node(before)


def _merge_joins(node: ir.Node, lengths: Lengths) -> None:
    joined: list[ir.Value | None] = []
    for value in node.inputs:
        if len(node.inputs) > 1 and lengths.of(value, axis_of(node)) == 0:
            continue
        before = producer_of(value, "Concat")
        if before is not None and is_read_by_one(before) and axis_of(before) == axis_of(node):
            joined += before.inputs
        else:
            joined.append(value)
    if len(joined) == 1 and not node.outputs[0].is_graph_output() and joined[0] is not None:
        node.outputs[0].replace_all_uses_with(joined[0])
    elif joined and joined != list(node.inputs):
        node.resize_inputs(len(joined))
        for place, value in enumerate(joined):
            node.replace_input_with(place, value)


def _take_batches_apart(node: ir.Node) -> None:
    """Leave the axes of a batch apart that are made one for a product of matrices and are taken apart after it.

    1. Both factors are reshaped from tensors of at least two axes, and keep the last two: only the batch becomes one.
    2. Both tensors have the same batch, axis by axis, so that nothing is broadcast, and the result gets it back.
    3. Nothing else reads the product, and the result is not an output of the model, which would lose its name.
    """
    product, out = producer_of(node.inputs[0], "MatMul"), node.outputs[0]
    if product is None or out.is_graph_output() or not is_read_by_one(product):
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

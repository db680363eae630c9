"""Moves a Transpose before an elementwise operator, where it meets those of the operands.

The products of several axes in Mamba's layers are so computed without transposing the largest tensors twice.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.matching import ELEMENTWISE, is_read_by_one, permutation_of, producer_of, sizes_of

__all__ = ["move_transposes"]


def move_transposes(model: ir.Model) -> bool:
    """Move each Transpose, if fewer remain before the operator than there were before and after it.

    Returns whether any was moved, so that others may follow each other now.
    """
    nodes = list(all_nodes(model.graph))
    moved = [_moves(node) for node in nodes if node.op_type == "Transpose" and not node.domain]
    return any(moved)


def _moves(node: ir.Node) -> bool:
    permutation, out = permutation_of(node), node.outputs[0]
    operator = node.inputs[0].producer() if node.inputs[0] is not None else None
    if permutation is None or operator is None or operator.domain or operator.op_type not in ELEMENTWISE:
        return False
    result = operator.outputs[0]
    if operator.graph is not node.graph or not is_read_by_one(operator) or out.is_graph_output():
        return False
    before, after = 1, 0
    #: For each operand what is to be read instead of it, and in which order of its axes.
    sources: list[tuple[ir.Value, list[int]]] = []
    for operand in operator.inputs:
        sizes = sizes_of(operand)
        if operand is None or sizes is None:
            return False
        if all(size == 1 for size in sizes) and len(sizes) <= len(permutation):
            sources.append((operand, []))
            continue
        if len(sizes) != len(permutation):
            return False
        source, order = _source_of(operand, permutation)
        before += source is not operand
        after += order != sorted(order)
        sources.append((source, order))
    if after >= before:
        return False
    for place, (source, order) in enumerate(sources):
        stays = order == sorted(order)
        operator.replace_input_with(place, source if stays else _transposed(source, order, operator, place))
    result.shape = out.shape
    out.replace_all_uses_with(result)
    return True


def _source_of(operand: ir.Value, permutation: list[int]) -> tuple[ir.Value, list[int]]:
    """What an operand is transposed from, if nothing else reads that; and the order in which the axes are then."""
    transpose = producer_of(operand, "Transpose")
    first = permutation_of(transpose) if transpose is not None and is_read_by_one(transpose) else None
    source = transpose.inputs[0] if transpose is not None and first is not None else None
    if source is None or first is None:
        return operand, permutation
    return source, [first[axis] for axis in permutation]


def _transposed(source: ir.Value, order: list[int], operator: ir.Node, place: int) -> ir.Value:
    """What an operator reads, transposed before it."""
    assert operator.graph is not None
    moved = ir.Node("", "Transpose", [source], [ir.AttrInt64s("perm", order)])
    moved.meta.update(operator.meta)
    moved.metadata_props.update(operator.metadata_props)
    moved.doc_string = operator.doc_string
    value = moved.outputs[0]
    value.name = f"{operator.outputs[0].name}_operand_{place}"
    value.type = source.type
    value.shape = None if source.shape is None else ir.Shape([source.shape[axis] for axis in order])
    operator.graph.insert_before(operator, moved)
    return value

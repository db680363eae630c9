"""Computes with one operator what takes two: x * (1 / sqrt(y)), conditions times a number, conditions as numbers."""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.matching import inverse_of, is_read_by_one, number_of, pairs_of, producer_of
from onnx_parity.exporter.passes.new_constants import NewConstants

__all__ = ["simplify_arithmetic"]

#: The first opset with Where.
_WHERE_SINCE = 9
#: The dtypes of which runtimes have Where.
_CHOSEN = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64)


def simplify_arithmetic(model: ir.Model, opset: int) -> None:
    """Rewrite each such node in its place, if that spares another one.

    This removes a node from each root mean square norm below opset 23, and two from each computation of T5's buckets.
    """
    constants = NewConstants(model.graph)
    for node in all_nodes(model.graph):
        if node.domain:
            continue
        if node.op_type == "Mul":
            _divide_by_root(node)
        if node.op_type == "Mul" and opset >= _WHERE_SINCE:
            _choose(node, constants)
        elif node.op_type == "Greater":
            _read_condition(node, 0)
        elif node.op_type == "Equal":
            _read_condition(node, 1)


def _divide_by_root(product: ir.Node) -> None:
    """Write x * (1 / sqrt(y)) as x / sqrt(y), which is rounded once less, if nothing else needs the reciprocal.

    A root is never so small that its reciprocal is infinite, unless it is 0.
    """
    for x, other in pairs_of(product):
        root = inverse_of(other)
        if producer_of(root, "Sqrt") is None or other.is_graph_output():
            continue
        if all(_multiplies(node, other) for node, _ in other.uses()):
            product.op_type = "Div"
            product.replace_input_with(0, x)
            product.replace_input_with(1, root)
            return


def _multiplies(node: ir.Node, factor: ir.Value) -> bool:
    """Whether a node multiplies a factor by something else."""
    return node.op_type == "Mul" and not node.domain and list(node.inputs).count(factor) == 1


def _choose(product: ir.Node, constants: NewConstants) -> None:
    """Write condition * number as Where(condition, number, 0), if only this product reads the condition as a number."""
    for number, other in pairs_of(product):
        cast, condition, dtype = producer_of(other, "Cast"), _condition(other), number.dtype
        if cast is None or condition is None or dtype not in _CHOSEN or not is_read_by_one(cast):
            continue
        # Infinity times 0 is no number, and a negative number times 0 is -0.0.
        if dtype.is_floating_point() and not 0 < (number_of(number) or 0) < torch.finfo(TO_TORCH[dtype]).max:
            continue
        product.op_type = "Where"
        product.resize_inputs(3)
        for place, each in enumerate((condition, number, constants.number(0, dtype, product))):
            product.replace_input_with(place, each)
        return


def _read_condition(comparison: ir.Node, number: float) -> None:
    """Let what reads `condition as a number > 0`, or `== 1`, read the condition."""
    condition = _condition(comparison.inputs[0])
    if condition is None or number_of(comparison.inputs[1]) != number or comparison.outputs[0].is_graph_output():
        return
    comparison.outputs[0].replace_all_uses_with(condition)


def _condition(value: ir.Value | None) -> ir.Value | None:
    """The booleans that a value has as numbers, 0 and 1."""
    cast = producer_of(value, "Cast")
    source = cast.inputs[0] if cast is not None else None
    return source if source is not None and source.dtype is ir.DataType.BOOL else None

"""Arithmetic that one operator does rather than two.

    x * (1 / sqrt(y))              ->  x / sqrt(y)
    Cast(condition) * number       ->  Where(condition, number, 0)
    Cast(condition) > 0, or == 1   ->  condition

This removes a node from each root mean square norm below opset 23, and two from each computation of T5's buckets.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator
from onnx_parity.exporter.rewrites.engine.matching import inverse_of, is_read_by_one, number_of, pairs_of, producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, first_match, op, read_found

__all__ = ["ARITHMETIC"]

#: The dtypes of which runtimes have Where.
_CHOSEN = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64)


def _find_root(product: ir.Node, _walk: Walk) -> tuple[ir.Value, ir.Value] | NoMatch:
    return first_match(_roots(product), "it has not two inputs")


def _roots(product: ir.Node) -> Iterator[tuple[ir.Value, ir.Value] | NoMatch]:
    """The other factor, and the root by whose reciprocal it is multiplied.

    A root is never so small that its reciprocal is infinite, unless it is 0. The quotient is rounded once less.
    """
    for x, reciprocal in pairs_of(product):
        root = inverse_of(reciprocal)
        if root is None or producer_of(root, "Sqrt") is None:
            yield NoMatch("no factor is the reciprocal of a root")
        elif reciprocal.is_graph_output() or not all(_multiplies(node, reciprocal) for node, _ in reciprocal.uses()):
            yield NoMatch("the reciprocal is needed for more than products")
        else:
            yield x, root


def _multiplies(node: ir.Node, factor: ir.Value) -> bool:
    """Whether a node multiplies a factor by something else."""
    return onnx_operator(node) == "Mul" and list(node.inputs).count(factor) == 1


def _divide(_product: ir.Node, found: tuple[ir.Value, ir.Value], _walk: Walk) -> Op:
    return op("Div", *found)


def _find_choice(product: ir.Node, _walk: Walk) -> tuple[ir.Value, ir.Value] | NoMatch:
    return first_match(_choices(product), "it has not two inputs")


def _choices(product: ir.Node) -> Iterator[tuple[ir.Value, ir.Value] | NoMatch]:
    """The condition, and the number by which it is multiplied."""
    for number, other in pairs_of(product):
        cast, condition, dtype = producer_of(other, "Cast"), _condition(other), number.dtype
        if cast is None or condition is None:
            yield NoMatch("no factor is a condition")
        elif dtype not in _CHOSEN:
            yield NoMatch("runtimes have no Where for the dtype")
        elif not is_read_by_one(cast):
            yield NoMatch("the condition is needed as a number elsewhere")
        elif dtype.is_floating_point() and not 0 < (number_of(number) or 0) < torch.finfo(TO_TORCH[dtype]).max:
            # Infinity times 0 is no number, and a negative number times 0 is -0.0.
            yield NoMatch("times 0, the number may not be 0")
        else:
            yield condition, number


def _choose(product: ir.Node, found: tuple[ir.Value, ir.Value], walk: Walk) -> Op:
    condition, number = found
    assert number.dtype is not None
    return op("Where", condition, number, walk.constants.number(0, number.dtype, product))


def _find_condition(comparison: ir.Node, _walk: Walk) -> ir.Value | NoMatch:
    condition = _condition(comparison.inputs[0])
    if condition is None:
        return NoMatch("what it compares is no condition")
    true_beside = {"Greater": 0, "Equal": 1}[comparison.op_type]
    return condition if number_of(comparison.inputs[1]) == true_beside else NoMatch("it compares with another number")


def _condition(value: ir.Value | None) -> ir.Value | None:
    """The booleans that a value has as numbers, 0 and 1."""
    cast = producer_of(value, "Cast")
    source = cast.inputs[0] if cast is not None else None
    return source if source is not None and source.dtype is ir.DataType.BOOL else None


ARITHMETIC = (
    Rewrite(name="product with the reciprocal of a root", at=("Mul",), find=_find_root, write=_divide),
    Rewrite(name="product of a condition and a number", at=("Mul",), find=_find_choice, write=_choose, since=9),
    Rewrite(
        name="condition as a number, compared",
        at=("Greater", "Equal"),
        find=_find_condition,
        write=read_found,
        for_outputs=False,
    ),
)

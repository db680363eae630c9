"""Factors of float64 beside products of matrices, which onnxruntime's optimiser would round to float32.

    Mul(MatMul(x, y), factor)  ->  Mul(Sum(MatMul(x, y)), factor)
    MatMul(Mul(x, factor), y)  ->  MatMul(Sum(Mul(x, factor)), y)

onnxruntime makes one operator of a product and a constant factor or divisor, FusedMatMul, which has the factor as an
attribute, a float32. It does not look beyond other operators, and leaves the sum of one tensor, which is that tensor,
where it is. It does look beyond factors that it takes up, and moves a Transpose that stands between; other rewrites
move and remove a Reshape.
"""

from __future__ import annotations

import math

import msgspec
import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import fits_attribute
from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator
from onnx_parity.exporter.rewrites.engine.matching import is_learned, known_tensor, producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["SCALED_PRODUCTS"]

#: Operators that move elements, and that are moved or removed later. Other factors are looked beyond too.
_MOVES = ("Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


class _Scaled(msgspec.Struct, frozen=True):
    """What is multiplied, and where a product of matrices is."""

    x: ir.Value
    follows_product: bool
    precedes_product: bool


def _find_factor(scaling: ir.Node, _walk: Walk) -> _Scaled | NoMatch:
    if scaling.outputs[0].dtype is not ir.DataType.DOUBLE:
        return NoMatch("it is no float64")
    x = _scaled_by_a_constant(scaling)
    if x is None:
        return NoMatch("no operand is a constant number")
    factor = known_tensor(_other(scaling, x))
    if factor is not None and not is_learned(factor) and _fits(scaling, float(factor.numpy().reshape(()))):
        return NoMatch("float32 has the factor")
    found = _Scaled(x, _comes_from_product(x), _goes_to_product(scaling.outputs[0]))
    return found if found.follows_product or found.precedes_product else NoMatch("no product of matrices is beside it")


def _scaled_by_a_constant(node: ir.Node) -> ir.Value | None:
    """What a node multiplies by a constant number, or divides by one."""
    operator = onnx_operator(node)
    for x, other in ((0, 1), (1, 0)) if operator == "Mul" else ((0, 1),) if operator == "Div" else ():
        tensor = known_tensor(node.inputs[other])
        if tensor is not None and math.prod(tensor.shape.numpy()) == 1:
            return node.inputs[x]
    return None


def _other(scaling: ir.Node, x: ir.Value) -> ir.Value | None:
    return scaling.inputs[1] if scaling.inputs[0] is x else scaling.inputs[0]


def _fits(scaling: ir.Node, factor: float) -> bool:
    taken = [factor] if scaling.op_type == "Mul" else [factor, 1 / factor if factor else math.nan]
    return all(fits_attribute(number, torch.float64) for number in taken)


def _comes_from_product(x: ir.Value | None) -> bool:
    while (node := producer_of(x, *_MOVES, "Mul", "Div")) is not None:
        x = _passed_on(node)
    return producer_of(x, "MatMul") is not None


def _goes_to_product(x: ir.Value) -> bool:
    for node, _ in x.uses():
        if onnx_operator(node) == "MatMul":
            return True
        if _passed_on(node) is x and _goes_to_product(node.outputs[0]):
            return True
    return False


def _passed_on(node: ir.Node) -> ir.Value | None:
    """What a node moves or scales."""
    return node.inputs[0] if onnx_operator(node) in _MOVES else _scaled_by_a_constant(node)


def _keep_apart(scaling: ir.Node, found: _Scaled, _walk: Walk) -> Op:
    x = op("Sum", found.x, sizes=found.x.shape) if found.follows_product else found.x
    inputs = [x if each is found.x else each for each in scaling.inputs]
    sizes = scaling.outputs[0].shape
    scaled = op(scaling.op_type, *inputs, sizes=sizes)
    return op("Sum", scaled) if found.precedes_product else scaled


SCALED_PRODUCTS = (Rewrite(name="factor beside a product", at=("Mul", "Div"), find=_find_factor, write=_keep_apart),)

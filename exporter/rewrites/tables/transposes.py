"""Transposes that follow each other, and those that meet others before an elementwise operator.

    Transpose(Transpose(x))                        ->  Transpose(x), or x
    Transpose(operator(Transpose(x), constant))    ->  operator(x, Transpose(constant))

The keys of an attention are transposed for the heads and once more for the product. The products of several axes in
Mamba's layers are computed without transposing the largest tensors twice.
"""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import (
    ELEMENTWISE,
    is_read_by_one,
    permutation_of,
    producer_of,
    sizes_of,
)
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["ELEMENTWISE_TRANSPOSES", "TRANSPOSES"]


class _Turned(msgspec.Struct, frozen=True):
    """A value, and the order into which its axes are put."""

    source: ir.Value
    order: list[int]

    @property
    def stays(self) -> bool:
        return self.order == sorted(self.order)


def _find_transpose_before(node: ir.Node, _walk: Walk) -> _Turned | NoMatch:
    before = producer_of(node.inputs[0], "Transpose")
    source = before.inputs[0] if before is not None else None
    if before is None or source is None:
        return NoMatch("it does not follow a Transpose")
    if not is_read_by_one(before):
        return NoMatch("the Transpose before it is read elsewhere too")
    first, then = permutation_of(before), permutation_of(node)
    if first is None or then is None:
        return NoMatch("the number of axes is not known")
    return _Turned(source, [first[axis] for axis in then])


def _transpose_once(_node: ir.Node, found: _Turned, _walk: Walk) -> Op | ir.Value:
    return found.source if found.stays else op("Transpose", found.source, perm=found.order)


class _Moved(msgspec.Struct, frozen=True):
    operator: ir.Node
    #: What the operator reads instead of each operand.
    operands: list[_Turned]


def _find_operator_before(node: ir.Node, _walk: Walk) -> _Moved | NoMatch:
    """The elementwise operator before a Transpose, if fewer remain before it than there were before and after it."""
    permutation, operator = permutation_of(node), producer_of(node.inputs[0], *ELEMENTWISE)
    if permutation is None or operator is None or operator.graph is not node.graph:
        return NoMatch("it does not follow an elementwise operator")
    if not is_read_by_one(operator):
        return NoMatch("the operator's result is read elsewhere too")
    before, after = 1, 0
    operands = []
    for operand in operator.inputs:
        sizes = sizes_of(operand)
        if operand is None or sizes is None:
            return NoMatch("the sizes of an operand are not known")
        if all(size == 1 for size in sizes) and len(sizes) <= len(permutation):
            operands.append(_Turned(operand, []))
            continue
        if len(sizes) != len(permutation):
            return NoMatch("an operand has fewer axes")
        turned = _source_of(operand, permutation)
        if not turned.stays and sizes_of(turned.source) is None:
            return NoMatch("the sizes of what was transposed are not known")
        before += turned.source is not operand
        after += not turned.stays
        operands.append(turned)
    return _Moved(operator, operands) if after < before else NoMatch("no fewer Transposes would remain")


def _source_of(operand: ir.Value, permutation: list[int]) -> _Turned:
    """What an operand is transposed from, if nothing else reads that; and the order in which the axes are then."""
    transpose = producer_of(operand, "Transpose")
    first = permutation_of(transpose) if transpose is not None and is_read_by_one(transpose) else None
    source = transpose.inputs[0] if transpose is not None and first is not None else None
    if source is None or first is None:
        return _Turned(operand, permutation)
    return _Turned(source, [first[axis] for axis in permutation])


def _transpose_operands(_node: ir.Node, found: _Moved, _walk: Walk) -> Op:
    operands = [each.source if each.stays else _transpose(each) for each in found.operands]
    operator = found.operator
    return op(operator.op_type, *operands, attributes_of=operator, instead_of=operator)


def _transpose(turned: _Turned) -> Op:
    sizes = sizes_of(turned.source)
    assert sizes is not None
    return op("Transpose", turned.source, perm=turned.order, sizes=[sizes[axis] for axis in turned.order])


TRANSPOSES = (
    Rewrite(name="transpose after a transpose", at=("Transpose",), find=_find_transpose_before, write=_transpose_once),
)
ELEMENTWISE_TRANSPOSES = (
    Rewrite(
        name="transpose after an elementwise operator",
        at=("Transpose",),
        find=_find_operator_before,
        write=_transpose_operands,
        for_outputs=False,
    ),
)

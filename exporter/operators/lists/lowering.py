"""Lists of data-dependent length and optional tensors: ONNX's sequences and optionals."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TENSOR_TYPES, TO_ONNX
from onnx_parity.exporter.graph.graph import Holds, Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("prim::list_length")
def list_length(g: Graph, items: Value) -> Value:
    return g.sequence_op("SequenceLength", [items], torch.int64, Holds.TENSOR)


@lowering("prim::list_item")
def list_item(g: Graph, items: Value, place: Value) -> Value:
    return g.list_item(items, place)


@lowering("prim::list")
def list_of(g: Graph, items: Sequence[Value]) -> Value:
    return g.list_of(items)


@lowering("prim::list_of_none")
def list_of_none(g: Graph, dtype: torch.dtype) -> Value:
    return g.sequence_op("SequenceEmpty", [], dtype, Holds.LIST, dtype_i=TO_ONNX[dtype].value)


@lowering("prim::tolist")
def tolist(g: Graph, stack: Value) -> Value:
    """The slices of a tensor along its first axis"""
    return g.sequence_op("SplitToSequence", [stack], stack.dtype, Holds.LIST, axis_i=0, keepdims_i=0)


@lowering("prim::list_of_parts")
def list_of_parts(g: Graph, whole: Value, size: Value, dim: int, of_nothing: Value) -> Value:
    """With the sizes of all of them, because of a single size onnxruntime makes no part of an empty axis"""
    one = g.const(1, torch.int64)
    length = g.squeeze(g.size(whole, dim), [0])
    count = g.op("Div", g.op("Add", length, g.op("Sub", size, one)), size)
    count = g.where(g.equal(length, g.const(0, torch.int64)), of_nothing, count)
    starts = g.op("Mul", g.iota_below(g.unsqueeze(count, [0])), size)
    sizes = g.extreme("Min", g.op("Sub", length, starts), size)
    return g.sequence_op("SplitToSequence", [whole, sizes], whole.dtype, Holds.LIST, axis_i=dim)


@lowering("prim::list_insert")
def list_insert(g: Graph, items: Value, item: Value, place: Value | None = None) -> Value:
    return g.list_insert(items, item, place)


@lowering("prim::list_erase")
def list_erase(g: Graph, items: Value, place: Value) -> Value:
    return g.sequence_op("SequenceErase", [items, place], items.dtype, Holds.LIST)


@lowering("prim::list_cat")
def list_cat(g: Graph, tensors: Value, dim: int) -> Value:
    return g.list_joined(tensors, dim)


@lowering("prim::list_stack")
def list_stack(g: Graph, tensors: Value, dim: int) -> Value:
    return g.list_joined(tensors, dim, new_axis=True)


@lowering("prim::list_stacked")
def list_stacked(g: Graph, items: Value, none: Sequence[Size], dtype: torch.dtype) -> Value:
    """The items, stacked. onnxruntime does not concatenate an empty sequence, so one item is appended and sliced off"""
    more = g.list_insert(items, g.full(none, 0, dtype))
    stack = g.list_joined(more, 0, new_axis=True)
    stack.shape = g.out.shape
    return g.op("Slice", stack, g.const([0]), g.const([-1]), g.const([0]))


@lowering("prim::expanded")
def expanded(g: Graph, value: Value, sizes: Value) -> Value:
    return g.op("Expand", value, sizes)


@lowering("prim::presence")
def presence(g: Graph, given: Value, none: Sequence[Size]) -> list[Value]:
    """Whether an optional has an element, and the element, or unused zeros if it has none"""
    present = g.sequence_op("OptionalHasElement", [given], torch.bool, Holds.TENSOR)
    with g.body() as there:
        there.returns([g.sequence_op("OptionalGetElement", [given], given.dtype, Holds.TENSOR)])
    with g.body() as absent:
        absent.returns([g.full(none, 0, given.dtype)])
    return [present, *g.emit("If", [present], [given.dtype], then_branch_g=there.graph, else_branch_g=absent.graph)]


@lowering("prim::optional")
def optional(g: Graph, present: Value, value: Value) -> Value:
    g.check_returned([g.out])
    with g.body() as there:
        there.returns([g.sequence_op("Optional", [value], value.dtype, Holds.OPTIONAL)])
    with g.body() as absent:
        kind = ir.TypeAndShape(TENSOR_TYPES[value.dtype], None)
        absent.returns([g.sequence_op("Optional", [], value.dtype, Holds.OPTIONAL, type_tp=kind)])
    (made,) = g.emit("If", [present], [value.dtype], then_branch_g=there.graph, else_branch_g=absent.graph)
    return made

"""Products of the same rows with several weights, as one product whose columns are split.

    x @ one, x @ other  ->  Split(x @ Concat(one, other))

onnxruntime starts its threads once for it, and not for each weight. A layer of a language model has five products less.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.files.lazy_tensors import LazyTorchTensor, WeightTensor
from onnx_parity.exporter.rewrites.engine.all_nodes import onnx_operator
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Rewrite, Walk, give_origin, op

__all__ = ["JOINT_PRODUCTS"]


class _Products(msgspec.Struct, frozen=True):
    nodes: list[ir.Node]
    weights: list[ir.Value]


def _find(node: ir.Node, walk: Walk) -> _Products | NoMatch:
    rows, weight = node.inputs
    if walk.keeps_weights or rows is None or weight is None or _matrix(weight) is None:
        return NoMatch("it multiplies with no weight, or with one that may be replaced")
    products = [pair for pair in _products(rows) if pair[0].graph is node.graph and _is_like(pair[1], weight)]
    if len(products) < 2 or products[0][0] is not node:
        return NoMatch("the rows are multiplied with no other weight")
    return _Products([each for each, _ in products], [each for _, each in products])


def _products(rows: ir.Value) -> Iterator[tuple[ir.Node, ir.Value]]:
    for use in rows.uses():
        right = use.node.inputs[1] if onnx_operator(use.node) == "MatMul" and use.idx == 0 else None
        if right is not None:
            yield use.node, right


def _matrix(weight: ir.Value | None) -> tuple[int, int] | None:
    """The sizes of a matrix that is stored for one product alone."""
    tensor = weight.const_value if weight is not None and weight.is_initializer() else None
    if tensor is None or weight is None or len(weight.uses()) != 1 or weight.is_graph_output():
        return None
    sizes = tensor.shape.numpy()
    is_stored = isinstance(tensor, (WeightTensor, LazyTorchTensor)) and tensor.dtype in TO_TORCH
    return (sizes[0], sizes[1]) if is_stored and len(sizes) == 2 else None


def _is_like(weight: ir.Value, other: ir.Value) -> bool:
    one, two = _matrix(weight), _matrix(other)
    return one is not None and two is not None and one[0] == two[0] and weight.type == other.type


def _join(node: ir.Node, found: _Products, walk: Walk) -> ir.Value:
    tensors = tuple(each.const_value for each in found.weights if each.const_value is not None)
    columns = [tensor.shape.numpy()[1] for tensor in tensors]
    shape = (tensors[0].shape.numpy()[0], sum(columns))
    names = [each.name for each in found.weights]
    weight = walk.constants.lazy(
        ("joint", *names),
        lambda: LazyTorchTensor(lambda *parts: torch.cat(parts, 1), TO_TORCH[tensors[0].dtype], shape, tensors),
        node,
    )
    result = node.outputs[0]
    sizes = None if result.shape is None else [*list(result.shape)[:-1], shape[1]]
    product = walk.add(op("MatMul", node.inputs[0], weight, sizes=sizes), node)
    product.type = result.type
    lengths = walk.constants.vector(columns, node)
    split = ir.Node("", "Split", [product, lengths], [ir.AttrInt64("axis", -1)], num_outputs=len(columns))
    give_origin(split, node)
    walk.insert([split], node)
    for each, part in zip(found.nodes, split.outputs, strict=True):
        part.type, part.shape = each.outputs[0].type, each.outputs[0].shape
        if each is not node:
            walk.replace(each, part)
    return split.outputs[0]


#: Split takes sizes as an input since opset 13.
JOINT_PRODUCTS = (
    Rewrite(name="products of the same rows", at=("MatMul",), find=_find, write=_join, since=13, for_outputs=False),
)

"""Products of matrices: mm, addmm, bmm, matmul, linear."""

from __future__ import annotations

import math

import torch

from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


@lowering("aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::matmul")
def matmul(g: Graph, self: Value, mat2: Value | None = None, **other: Value) -> Value:
    """ONNX's MatMul is numpy's, as torch's is; the second operand goes by many names (mat2, vec, tensor, other)"""
    (second,) = (mat2,) if mat2 is not None else other.values()
    return g.op("MatMul", self, second)


@lowering("aten::addmm")
def addmm(g: Graph, self: Value, mat1: Value, mat2: Value, beta: float = 1, alpha: float = 1) -> Value:
    """beta * self + alpha * mat1 @ mat2"""
    if self.dtype.is_floating_point or g.opset >= 9:
        if beta == 0:
            # 0 * self must not let NaN through, so self is left out.
            product = g.op("MatMul", mat1, mat2)
            return product if alpha == 1 else g.op("Mul", product, alpha)
        if self.dtype.is_floating_point:
            return g.op("Gemm", mat1, mat2, self, alpha_f=alpha, beta_f=beta)
    return _sum_of_products(g, self, g.op("MatMul", mat1, mat2), beta, alpha)


@lowering("aten::addmv", "aten::addbmm", "aten::baddbmm")
def baddbmm(g: Graph, self: Value, beta: float = 1, alpha: float = 1, **factors: Value) -> Value:
    """beta * self + alpha * product; addbmm sums the products over the batch"""
    product = g.op("MatMul", *factors.values())
    if g.node.op._schema.name == "aten::addbmm":
        product = g.reduce("Sum", product, [0], False)
    return _sum_of_products(g, self, product, beta, alpha)


def _sum_of_products(g: Graph, self: Value, product: Value, beta: float, alpha: float) -> Value:
    scaled = product if alpha == 1 else g.op("Mul", product, alpha)
    if beta == 0:
        return scaled
    return g.op("Add", self if beta == 1 else g.op("Mul", self, beta), scaled)


@lowering("aten::linear")
def linear(g: Graph, input: Value, weight: Value, bias: Value | None = None) -> Value:
    """input @ weight.T + bias"""
    if input.rank == 2 and weight.rank == 2 and (bias is not None or g.opset >= 11):
        operands = [input, weight, *([] if bias is None else [bias])]
        return g.op("Gemm", *operands, transB_i=1)
    product = g.op("MatMul", input, g.transpose(weight, [1, 0]) if weight.rank == 2 else weight)
    return product if bias is None else g.op("Add", product, bias)


@lowering("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    g: Graph, query: Value, key: Value, value: Value, attn_mask: Value | None = None, dropout_p: float = 0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value; a row that may attend to nothing gives zeros, not NaN"""
    if enable_gqa:
        g.unsupported("grouped-query attention")
    size = query.sizes[-1]
    if not isinstance(size, int):
        g.unsupported("attention over features whose number varies")
    factor = scale if scale is not None else 1 / math.sqrt(size)
    swap = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = g.op("MatMul", g.op("Mul", query, factor), g.transpose(key, swap))
    scores.shape = (*g.out.shape[:-1], key.sizes[-2])
    if is_causal:
        rows, columns = scores.sizes[-2:]
        if not (isinstance(rows, int) and isinstance(columns, int)):
            g.unsupported("causal attention over a length that varies")
        attn_mask = g.const(torch.ones(rows, columns, dtype=torch.bool).tril())
    shape = scores.shape
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = g.where(attn_mask, scores, g.const(-math.inf, scores.dtype))
    elif attn_mask is not None:
        scores = g.op("Add", scores, attn_mask)
    scores.shape = shape
    weights = g.softmax(scores, len(shape) - 1)
    if attn_mask is not None and not is_causal:
        # The softmax of a fully masked row is NaN.
        weights = g.where(g.not_number(weights), g.const(0, weights.dtype), weights)
    if dropout_p:
        weights = g.dropout(weights, dropout_p)
    return g.op("MatMul", weights, value)

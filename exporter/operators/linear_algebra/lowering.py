"""Matrix products: mm, addmm, bmm, matmul, linear, bilinear."""

from __future__ import annotations

from onnx_parity.exporter.dtypes import fits_attribute
from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import product as product_of
from onnx_parity.exporter.lowering.values.shapes import same_size
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


@lowering("aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::matmul")
def matmul(g: Graph, self: Value, mat2: Value | None = None, **other: Value) -> Value:
    """numpy's matmul, in ONNX and in torch; the second operand has several names (mat2, vec, tensor, other)"""
    (second,) = (mat2,) if mat2 is not None else other.values()
    return g.matmul(self, second)


@lowering("aten::addmm")
def addmm(
    g: Graph, self: Value, mat1: Value, mat2: Value, beta: float | Varying = 1, alpha: float | Varying = 1
) -> Value:
    """beta * self + alpha * mat1 @ mat2"""
    if isinstance(alpha, Varying) or isinstance(beta, Varying):
        return _sum_of_products(g, self, g.matmul(mat1, mat2), beta, alpha)
    are_exact = fits_attribute(alpha, self.dtype) and fits_attribute(beta, self.dtype)
    # Where the axis summed over is empty, onnxruntime's Gemm returns C without its factor.
    is_empty = same_size(mat1.sizes[1], 0)
    if beta != 0 and self.dtype.is_floating_point and are_exact and not is_empty:
        return g.op("Gemm", mat1, mat2, self, alpha_f=alpha, beta_f=beta)
    return _sum_of_products(g, self, g.matmul(mat1, mat2), beta, alpha)


@lowering("aten::addmv", "aten::addbmm", "aten::baddbmm")
def baddbmm(g: Graph, self: Value, beta: float | Varying = 1, alpha: float | Varying = 1, **factors: Value) -> Value:
    """beta * self + alpha * product; addbmm sums the products over the batch"""
    product = g.matmul(*factors.values())
    if g.operator == "aten::addbmm":
        product = g.reduce("Sum", product, [0], False)
    return _sum_of_products(g, self, product, beta, alpha)


def _sum_of_products(g: Graph, self: Value, product: Value, beta: float | Varying, alpha: float | Varying) -> Value:
    (added,) = g.promote_exactly(self, dtype=g.out.dtype, factors=[beta, alpha])
    return g.cast(_sum(g, added, g.cast(product, added.dtype), beta, alpha), g.out.dtype)


def _sum(g: Graph, self: Value, product: Value, beta: float | Varying, alpha: float | Varying) -> Value:
    scaled = _scaled(g, product, alpha)
    if isinstance(beta, Varying):
        # In torch, NaN in self does not reach the result where beta is 0.
        kept = g.op("Mul", self, g.scalar(beta, self.dtype))
        is_zero = g.equal(g.scalar(beta, self.dtype), g.const(0, self.dtype))
        return g.op("Add", g.where(is_zero, g.const(0, self.dtype), kept), scaled)
    if beta == 0:
        # In torch, NaN in self does not reach the result then.
        return scaled
    return g.op("Add", self if beta == 1 else g.op("Mul", self, beta), scaled)


def _scaled(g: Graph, product: Value, alpha: float | Varying) -> Value:
    if isinstance(alpha, Varying):
        return g.op("Mul", product, g.scalar(alpha, product.dtype))
    return product if alpha == 1 else g.op("Mul", product, alpha)


@lowering("aten::bilinear")
def bilinear(g: Graph, input1: Value, input2: Value, weight: Value, bias: Value | None = None) -> Value:
    """input1 @ weight[o] @ input2 for each output o"""
    outputs, first, second = weight.sizes
    rows = product_of(input1.sizes[:-1])
    one, two = g.reshape(input1, [rows, first]), g.reshape(input2, [rows, 1, second])
    stacked = g.reshape(g.transpose(weight, [1, 0, 2]), [first, outputs * second])
    halfway = g.reshape(g.matmul(one, stacked), [rows, outputs, second])
    result = g.reduce("Sum", g.op("Mul", halfway, two), [2], keepdim=False)
    if bias is not None:
        result = g.op("Add", result, bias)
    return g.reshape(result, g.out.shape)


@lowering("aten::linear")
def linear(g: Graph, input: Value, weight: Value, bias: Value | None = None) -> Value:
    """input @ weight.T + bias"""
    is_gemm = input.rank == 2 and weight.rank == 2 and not same_size(input.sizes[-1], 0)
    # onnxruntime has no Gemm of integers.
    if is_gemm and input.dtype.is_floating_point:
        return g.linear(input, weight, bias)
    product = g.matmul(input, g.transpose(weight, [1, 0]) if weight.rank == 2 else weight)
    return product if bias is None else g.op("Add", product, bias)

"""Biases of quantized layers, which opset 10 has in nodes of their own.

    Conv(x, dequantized, bias)  ->  Conv(x, dequantized) - Unsqueeze(-bias)
    Gemm(x, dequantized, bias)  ->  MatMul(x, dequantized) - (-bias)

onnxruntime 1.31 rounds a bias beside quantized weights to integers, with a Round that opset 10 does not have, and then
refuses its own graph. It makes such a bias of an Add behind a layer too, so that the negative bias is subtracted.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import producer_of
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["BIASES"]

#: The first opset that has QuantizeLinear, and the last one that has no Round.
_OPSET = 10


def _find_bias(layer: ir.Node, _walk: Walk) -> ir.Value | NoMatch:
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    if bias is None:
        return NoMatch("it has no bias")
    return bias if producer_of(layer.inputs[1], "DequantizeLinear") is not None else NoMatch("it is not quantized")


def _subtract_from_convolution(layer: ir.Node, bias: ir.Value, _walk: Walk) -> Op:
    x, weight = layer.inputs[:2]
    assert weight is not None and weight.shape is not None
    plain = op(layer.op_type, x, weight, attributes_of=layer)
    return op("Sub", plain, op("Unsqueeze", op("Neg", bias), axes=range(1, len(weight.shape) - 1)))


def _subtract_from_product(layer: ir.Node, bias: ir.Value, _walk: Walk) -> Op:
    """A Gemm needs a bias at opset 10, so that it becomes a MatMul."""
    assert not {"alpha", "beta", "transA"} & layer.attributes.keys()
    x, weight = layer.inputs[:2]
    right = op("Transpose", weight, perm=[1, 0]) if "transB" in layer.attributes else weight
    return op("Sub", op("MatMul", x, right), op("Neg", bias))


BIASES = (
    Rewrite(
        name="bias of a quantized convolution",
        at=("Conv", "ConvTranspose"),
        find=_find_bias,
        write=_subtract_from_convolution,
        since=_OPSET,
        until=_OPSET,
    ),
    Rewrite(
        name="bias of a quantized linear layer",
        at=("Gemm",),
        find=_find_bias,
        write=_subtract_from_product,
        since=_OPSET,
        until=_OPSET,
    ),
)

"""Adds the biases of quantized layers in nodes of their own, for opset 10.

onnxruntime 1.31 rounds a bias beside quantized weights to integers, with a Round that opset 10 does not have, and then
refuses its own graph. It makes such a bias of an Add behind a layer too, so that the negative bias is subtracted.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_parity.exporter.passes.all_nodes import all_nodes

__all__ = ["OPSET_OF_QUANTIZATION", "separate_biases"]

#: The first opset that has QuantizeLinear, and the last one that has no Round.
OPSET_OF_QUANTIZATION = 10

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})


def separate_biases(model: ir.Model) -> None:
    """Separate the bias of each layer whose weights are dequantized."""
    for node in list(all_nodes(model.graph)):
        if node.domain or (node.op_type not in _CONVOLUTIONS and node.op_type != "Gemm"):
            continue
        weight, bias = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
        producer = weight.producer() if weight is not None else None
        if bias is None or producer is None or producer.op_type != "DequantizeLinear":
            continue
        assert node.graph is not None
        negative = ir.Node("", "Neg", [bias])
        made = [negative]
        made += _of_convolution(node, negative) if node.op_type in _CONVOLUTIONS else _of_product(node, negative)
        total, old = made[-1].outputs[0], node.outputs[0]
        node.graph.insert_before(node, made)
        total.type, total.shape = old.type, old.shape
        old.replace_all_uses_with(total, replace_graph_outputs=True)
        total.name, old.name = old.name, None
        node.graph.remove(node, safe=True)


def _of_convolution(node: ir.Node, negative: ir.Node) -> list[ir.Node]:
    """The convolution without its bias, and a difference along the axis of the channels."""
    x, weight = node.inputs[:2]
    plain = ir.Node("", node.op_type, [x, weight], list(node.attributes.values()))
    kernel = weight.shape if weight is not None else None
    assert kernel is not None
    beside = ir.Node("", "Unsqueeze", [negative.outputs[0]], [ir.AttrInt64s("axes", list(range(1, len(kernel) - 1)))])
    return [plain, beside, ir.Node("", "Sub", [plain.outputs[0], beside.outputs[0]])]


def _of_product(node: ir.Node, negative: ir.Node) -> list[ir.Node]:
    """A Gemm, which needs a bias at opset 10, as a product and a difference."""
    assert not {"alpha", "beta", "transA"} & node.attributes.keys()
    x, weight = node.inputs[:2]
    transposed = ir.Node("", "Transpose", [weight], [ir.AttrInt64s("perm", [1, 0])])
    turned = "transB" in node.attributes
    product = ir.Node("", "MatMul", [x, transposed.outputs[0] if turned else weight])
    return [*([transposed] if turned else []), product, ir.Node("", "Sub", [product.outputs[0], negative.outputs[0]])]

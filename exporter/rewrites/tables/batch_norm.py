"""Batch norms that become a part of the convolution or the linear layer before them.

    y = (conv(x, W) + b - mean) * scale / sqrt(var + eps) + shift

is a convolution with other W and b, which are computed when the model is written. This removes 47 nodes from ResNet-50.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnx_parity.exporter.files.lazy_tensors import LazyTorchTensor, torch_of
from onnx_parity.exporter.rewrites.engine.matching import is_read_by_one, producer_of
from onnx_parity.exporter.rewrites.engine.new_constants import free_name
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["BATCH_NORM"]


def _find_layer(norm: ir.Node, walk: Walk) -> ir.Node | NoMatch:
    if walk.keeps_weights:
        return NoMatch("weights stay in their files")
    if len(norm.outputs) != 1:
        return NoMatch("it computes statistics for training")
    layer = producer_of(norm.inputs[0], "Conv", "Gemm")
    if layer is None or layer.graph is not norm.graph or (layer.op_type == "Gemm" and not _is_linear(layer)):
        return NoMatch("it does not follow a convolution or a linear layer")
    if not is_read_by_one(layer):
        return NoMatch("the layer's result is read elsewhere too")
    parameters = [*layer.inputs[1:], *norm.inputs[1:]]
    if any(value is None or not value.is_initializer() or value.const_value is None for value in parameters):
        return NoMatch("a parameter is not known")
    weight = layer.inputs[1]
    assert weight is not None
    return layer if len(weight.uses()) == 1 else NoMatch("another layer has the same weight")


def _is_linear(gemm: ir.Node) -> bool:
    """Whether it is a linear layer with one row of weights for each channel of its result."""
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
    values = {name: attribute.value for name, attribute in gemm.attributes.items()}
    bias = gemm.inputs[2] if len(gemm.inputs) > 2 else None
    has_rows = plain | values == plain and values.get("transB") == 1
    return has_rows and (bias is None or (bias.shape is not None and len(bias.shape) <= 1))


def _scale_weights(norm: ir.Node, layer: ir.Node, walk: Walk) -> Op:
    x, weight = layer.inputs[:2]
    assert weight is not None and weight.const_value is not None
    kernel = weight.const_value
    bias = layer.inputs[2].const_value if len(layer.inputs) > 2 and layer.inputs[2] is not None else None
    scale, shift, mean, variance = (value.const_value for value in norm.inputs[1:] if value is not None)
    epsilon = norm.attributes["epsilon"].as_float() if "epsilon" in norm.attributes else 1e-5
    assert scale is not None and shift is not None and mean is not None and variance is not None

    def factor() -> torch.Tensor:
        return torch_of(scale).double() / torch.sqrt(torch_of(variance).double() + epsilon)

    def kernel_rows(start: int, stop: int) -> torch.Tensor:
        plain = torch_of(kernel).detach()
        # Scaled in float32: one rounding more than in torch's batch norm, and half the memory of float64.
        return plain[start:stop] * factor()[start:stop].to(plain.dtype).reshape([-1] + [1] * (plain.ndim - 1))

    def new_bias() -> torch.Tensor:
        offset = -torch_of(mean).double() if bias is None else torch_of(bias).double() - torch_of(mean).double()
        return (offset * factor() + torch_of(shift).double()).to(torch_of(shift).dtype).detach()

    shape = tuple(int(size) for size in kernel.shape.numpy())
    dtype = torch_of(shift).dtype
    old_shift = norm.inputs[2]
    assert old_shift is not None
    new_kernel = LazyTorchTensor(lambda: kernel_rows(0, shape[0]), dtype, shape, rows=kernel_rows)
    scaled = _initializer(walk.graph, weight, layer, new_kernel)
    shifted = _initializer(walk.graph, old_shift, norm, LazyTorchTensor(new_bias, dtype, shape[:1]))
    return op(layer.op_type, x, scaled, shifted, attributes_of=layer, instead_of=layer)


def _initializer(graph: ir.Graph, old: ir.Value, reader: ir.Node, tensor: LazyTorchTensor) -> ir.Value:
    """An initializer that a node reads instead of an old one. It has the old one's name if nothing else reads that."""
    assert old.name is not None
    name = old.name
    if any(node is not reader for node, _ in old.uses()):
        name = free_name(f"{name}_fused", graph.initializers)
    else:
        graph.initializers.pop(name)
    tensor.name = name
    value = ir.Value(name=name, type=old.type, shape=tensor.shape, const_value=tensor)
    graph.initializers.add(value)
    return value


BATCH_NORM = (
    Rewrite(name="batch norm after a layer", at=("BatchNormalization",), find=_find_layer, write=_scale_weights),
)

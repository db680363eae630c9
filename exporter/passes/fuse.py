"""Folds a BatchNormalization into the convolution before it. Saves a node a layer; the weights are scaled as they are written."""

from __future__ import annotations

import onnx_ir as ir
import torch

from exporter.passes.lazy import LazyTorchTensor, torch_of

__all__ = ["fuse_batch_norm"]


def fuse_batch_norm(model: ir.Model) -> None:
    """Conv followed by nothing but BatchNormalization, all weights known:

    y = (conv(x, W) + b - mean) * scale / sqrt(var + eps) + shift is a convolution with W and b reworked.
    """
    graph = model.graph
    for norm in list(graph):
        if norm.op_type != "BatchNormalization" or norm.domain or len(norm.outputs) != 1:
            continue
        conv = norm.inputs[0].producer() if norm.inputs[0] is not None else None
        if conv is None or conv.op_type != "Conv" or conv.domain:
            continue
        if conv.outputs[0].is_graph_output() or len(conv.outputs[0].uses()) != 1:
            continue
        parameters = [*conv.inputs[1:], *norm.inputs[1:]]
        if any(value is None or not value.is_initializer() or value.const_value is None for value in parameters):
            continue
        if len(conv.inputs[1].uses()) == 1:  # type: ignore[union-attr]
            _fuse(graph, conv, norm)


def _fuse(graph: ir.Graph, conv: ir.Node, norm: ir.Node) -> None:
    weight = conv.inputs[1]
    assert weight is not None and weight.const_value is not None
    kernel = weight.const_value
    bias = conv.inputs[2].const_value if len(conv.inputs) > 2 and conv.inputs[2] is not None else None
    scale, shift, mean, variance = (value.const_value for value in norm.inputs[1:] if value is not None)
    epsilon = norm.attributes["epsilon"].as_float() if "epsilon" in norm.attributes else 1e-5
    assert scale is not None and shift is not None and mean is not None and variance is not None

    def factor() -> torch.Tensor:
        return torch_of(scale).double() / torch.sqrt(torch_of(variance).double() + epsilon)

    def new_kernel() -> torch.Tensor:
        plain = torch_of(kernel).detach()
        # Scaled in float32: one rounding more than torch's own batch norm does, and half the memory of float64.
        return plain * factor().to(plain.dtype).reshape([-1] + [1] * (plain.ndim - 1))

    def new_bias() -> torch.Tensor:
        offset = -torch_of(mean).double() if bias is None else torch_of(bias).double() - torch_of(mean).double()
        return (offset * factor() + torch_of(shift).double()).to(torch_of(shift).dtype).detach()

    overridable = weight in graph.inputs
    names = (weight.name, f"{norm.inputs[2].name}" if norm.inputs[2] is not None else None)
    shape = tuple(int(size) for size in kernel.shape.numpy())
    dtype = torch_of(shift).dtype
    fused = [
        LazyTorchTensor(new_kernel, dtype, shape),
        LazyTorchTensor(new_bias, dtype, shape[:1]),
    ]
    values = []
    for old, name, tensor in zip((weight, norm.inputs[2]), names, fused, strict=True):
        assert old is not None and name is not None
        tensor.name = name
        value = ir.Value(name=name, type=old.type, shape=tensor.shape, const_value=tensor)
        values.append((old, value))
    conv.replace_input_with(1, values[0][1])
    if len(conv.inputs) > 2:
        conv.replace_input_with(2, values[1][1])
    else:
        conv.resize_inputs(3)
        conv.replace_input_with(2, values[1][1])
    out = norm.outputs[0]
    inner = conv.outputs[0]
    inner.shape = out.shape
    out.replace_all_uses_with(inner, replace_graph_outputs=True)
    inner.name, out.name = out.name, None
    graph.remove(norm, safe=True)
    for old, value in values:
        if not old.uses():
            _drop(graph, old)
            graph.initializers.add(value)
            if overridable:
                graph.inputs.append(value)
        else:
            value.name = f"{value.name}_fused"
            graph.initializers.add(value)
    for value in [*norm.inputs]:
        if value is not None and not value.uses():
            _drop(graph, value)


def _drop(graph: ir.Graph, value: ir.Value) -> None:
    if value.name is not None:
        graph.initializers.pop(value.name, None)
    if value in graph.inputs:
        graph.inputs.remove(value)

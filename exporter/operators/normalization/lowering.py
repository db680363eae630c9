"""Normalizations: batch, instance, layer, group and RMS norm, in inference and in training."""

from __future__ import annotations

import torch

from onnx_parity.exporter.dtypes import fits_attribute
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import may_be_empty, product, same_size
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering


def _in_one_dtype(g: Graph, *tensors: Value | None) -> list[Value | None]:
    """All in one dtype: torch also normalizes halves with statistics and weights in float32."""
    dtypes = [tensor.dtype for tensor in tensors if tensor is not None]
    dtype = dtypes[0]
    for other in dtypes[1:]:
        dtype = torch.promote_types(dtype, other)
    return [None if tensor is None else g.cast(tensor, dtype) for tensor in tensors]


@lowering("aten::batch_norm")
def batch_norm(
    g: Graph, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Value:  # fmt: skip
    """(x - mean) / sqrt(var + eps) * weight + bias, with the running statistics"""
    x, scale, shift, mean, variance = _in_one_dtype(g, input, weight, bias, running_mean, running_var)
    assert x is not None and mean is not None and variance is not None
    if fits_attribute(eps, x.dtype):
        scale = g.full([input.sizes[1]], 1, x.dtype) if scale is None else scale
        shift = g.full([input.sizes[1]], 0, x.dtype) if shift is None else shift
        return g.cast(g.op("BatchNormalization", x, scale, shift, mean, variance, epsilon_f=eps), input.dtype)
    deviation = g.op("Sqrt", g.op("Add", variance, eps))
    factor = g.op("Reciprocal", deviation) if scale is None else g.op("Div", scale, deviation)
    offset = g.op("Neg", g.op("Mul", mean, factor))
    offset = offset if shift is None else g.op("Add", offset, shift)
    return g.cast(g.affine(x, g.per_channel(factor, input), g.per_channel(offset, input)), input.dtype)


@lowering("aten::_native_batch_norm_legit_no_training")
def native_batch_norm_without_training(
    g: Graph, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,
    momentum: float, eps: float,
) -> list[Value | None]:  # fmt: skip
    """The batch norm, and statistics without elements"""
    y = batch_norm(g, input, weight, bias, running_mean, running_var, False, momentum, eps)
    return [y, *_without_elements(g)]


@lowering("aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional")
def native_batch_norm(
    g: Graph, input: Value, weight: Value | None, bias: Value | None, running_mean: Value | None = None,
    running_var: Value | None = None, training: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> list[Value | None]:  # fmt: skip
    """In training, normalized with the statistics of the batch, which also update the running statistics"""
    if not training:
        assert running_mean is not None and running_var is not None
        y = batch_norm(g, input, weight, bias, running_mean, running_var, False, momentum, eps)
        return [y, *_without_elements(g), running_mean, running_var][: len(g.node.outputs)]
    # For halves, torch computes and updates the statistics in float32.
    dtype = torch.promote_types(input.dtype, torch.float32)
    x, scale, shift = (None if each is None else g.cast(each, dtype) for each in (input, weight, bias))
    assert x is not None
    axes = [0, *range(2, input.rank)]
    mean = g.reduce("Mean", x, axes, True)
    centred = g.op("Sub", x, mean)
    variance = g.reduce("Mean", g.op("Mul", centred, centred), axes, True)
    inverse = g.op("Reciprocal", g.op("Sqrt", g.op("Add", variance, eps)))
    y = g.affine(g.op("Mul", centred, inverse), g.per_channel(scale, input), g.per_channel(shift, input))
    results = [y, g.squeeze(mean, axes), g.squeeze(inverse, axes)]
    if len(g.node.outputs) == 5 and running_mean is not None and running_var is not None:
        size = product([input.sizes[axis] for axis in axes])
        if same_size(size, 0):
            # An empty batch does not update the statistics.
            results += [running_mean, running_var]
        else:
            count = g.scalar(size, x.dtype)
            unbiased = g.op("Div", g.op("Mul", g.squeeze(variance, axes), count), g.op("Sub", count, 1))
            is_empty = g.op("Less", count, 1) if may_be_empty(size) else None
            for running, batch in ((running_mean, g.squeeze(mean, axes)), (running_var, unbiased)):
                before = g.cast(running, dtype)
                after = g.op("Add", g.op("Mul", before, 1 - momentum), g.op("Mul", batch, momentum))
                results.append(after if is_empty is None else g.op("Where", is_empty, before, after))
    return [None if out is None else g.cast(y, out.dtype) for y, out in zip(results, g.node.outputs, strict=True)]


def _without_elements(g: Graph) -> list[Value | None]:
    """The statistics of the batch, which an evaluated batch norm has none of."""
    return [None if out is None else g.const(torch.empty(0, dtype=out.dtype)) for out in g.node.outputs[1:3]]


@lowering("aten::instance_norm")
def instance_norm(
    g: Graph, input: Value, weight: Value | None, bias: Value | None, running_mean: Value | None,
    running_var: Value | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Value:  # fmt: skip
    x, scale, shift = _in_one_dtype(g, input, weight, bias)
    assert x is not None
    return g.cast(g.instance_norm(x, scale, shift, eps), input.dtype)


@lowering("aten::native_layer_norm")
def native_layer_norm(
    g: Graph, input: Value, normalized_shape: list[Size], weight: Value | None, bias: Value | None, eps: float
) -> list[Value | None]:
    axes = len(normalized_shape)
    x, scale, shift = _in_one_dtype(g, input, weight, bias)
    assert x is not None
    results: list[Value | None] = [g.cast(g.layer_norm(x, axes, scale, shift, eps), input.dtype)]
    if g.is_used(1) or g.is_used(2):
        over = list(range(input.rank - axes, input.rank))
        results += _statistics(g, x, over, eps)
    return results


@lowering("aten::native_group_norm")
def native_group_norm(
    g: Graph, input: Value, weight: Value | None, bias: Value | None, N: Size, C: Size, HxW: Size, group: int,
    eps: float,
) -> list[Value | None]:  # fmt: skip
    x, scale, shift = _in_one_dtype(g, input, weight, bias)
    assert x is not None
    results: list[Value | None] = [g.cast(g.group_norm(x, group, scale, shift, eps), input.dtype)]
    if g.is_used(1) or g.is_used(2):
        grouped = g.reshape(x, [input.sizes[0], group, input.sizes[1] // group * product(input.sizes[2:])])
        results += [g.squeeze(each, [2]) for each in _statistics(g, grouped, [2], eps)]
    return results


def _statistics(g: Graph, x: Value, over: list[int], eps: float) -> list[Value]:
    """The mean and the reciprocal of the standard deviation."""
    wide = g.accumulating(x)
    count = product([x.sizes[axis] for axis in over])
    if g.may_be_empty([count]):
        # ONNX does not specify the mean of nothing. In torch it is 0 here, and the variance is 0 / 0.
        number = g.scalar(count, wide.dtype)
        mean = g.op("Div", g.reduce("Sum", wide, over, True), g.extreme("Max", number, g.const(1, wide.dtype)))
        centred = g.op("Sub", wide, mean)
        variance = g.op("Div", g.reduce("Sum", g.op("Mul", centred, centred), over, True), number)
    else:
        mean = g.reduce("Mean", wide, over, True)
        centred = g.op("Sub", wide, mean)
        variance = g.reduce("Mean", g.op("Mul", centred, centred), over, True)
    inverse = g.op("Reciprocal", g.op("Sqrt", g.op("Add", variance, eps)))
    # Beside weights in float32, those of halves may be halves or not, depending on the device.
    return [
        g.cast(each, g.output(number).dtype if g.is_used(number) else x.dtype)
        for number, each in enumerate((mean, inverse), 1)
    ]


@lowering("aten::rms_norm")
def rms_norm(
    g: Graph, input: Value, normalized_shape: list[Size], weight: Value | None = None, eps: float | None = None
) -> Value:
    x, scale = _in_one_dtype(g, input, weight)
    assert x is not None
    # Numbers of 16 bits are normalized in float32, and the default epsilon is that of float32.
    epsilon = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps if eps is None else eps
    return g.cast(g.rms_norm(x, len(normalized_shape), scale, epsilon), g.out.dtype)

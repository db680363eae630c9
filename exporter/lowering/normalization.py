"""Normalization: batch, instance, layer and group norm, in inference and in training."""

from __future__ import annotations

from exporter.lowering.builder import Graph
from exporter.lowering.registry import lowering
from exporter.lowering.values import Value


def _per_channel(g: Graph, x: Value, v: Value) -> Value:
    """A vector over channels, ready to broadcast against (batch, channel, ...)."""
    return g.unsqueeze(v, list(range(1, x.rank - 1)))


def _or(g: Graph, v: Value | None, fill: float, x: Value) -> Value:
    return g.full([x.sizes[1]], fill, x.dtype) if v is None else v


@lowering("aten::batch_norm")
def batch_norm(
    g: Graph, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Value:  # fmt: skip
    scale, shift = _or(g, weight, 1, input), _or(g, bias, 0, input)
    return g.op("BatchNormalization", input, scale, shift, running_mean, running_var, epsilon_f=eps)


@lowering("aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional")
def native_batch_norm(
    g: Graph, input: Value, weight: Value | None, bias: Value | None, running_mean: Value | None = None,
    running_var: Value | None = None, training: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> tuple[Value | None, ...]:  # fmt: skip
    """In training: normalise with the batch's own statistics, move the running ones towards them"""
    if not training:
        assert running_mean is not None and running_var is not None
        return (batch_norm(g, input, weight, bias, running_mean, running_var, False, momentum, eps), None, None)
    axes = [0, *range(2, input.rank)]
    mean = g.reduce("Mean", input, axes, True)
    centred = g.op("Sub", input, mean)
    variance = g.reduce("Mean", g.op("Mul", centred, centred), axes, True)
    inverse = g.op("Reciprocal", g.op("Sqrt", g.op("Add", variance, eps)))
    y = g.op("Mul", centred, inverse)
    if weight is not None:
        y = g.op("Mul", y, _per_channel(g, input, weight))
    if bias is not None:
        y = g.op("Add", y, _per_channel(g, input, bias))
    results: list[Value | None] = [y, g.squeeze(mean, axes), g.squeeze(inverse, axes)]
    if len(g.node.outputs) == 5 and running_mean is not None and running_var is not None:
        count = 1
        for axis in axes:
            count = count * input.sizes[axis]
        unbiased = g.op("Mul", g.squeeze(variance, axes), count / (count - 1))
        for running, batch in ((running_mean, g.squeeze(mean, axes)), (running_var, unbiased)):
            results.append(g.op("Add", g.op("Mul", running, 1 - momentum), g.op("Mul", batch, momentum)))
    return tuple(results)


@lowering("aten::instance_norm")
def instance_norm(
    g: Graph, input: Value, weight: Value | None, bias: Value | None, running_mean: Value | None,
    running_var: Value | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Value:  # fmt: skip
    return g.op("InstanceNormalization", input, _or(g, weight, 1, input), _or(g, bias, 0, input), epsilon_f=eps)


@lowering("aten::native_layer_norm")
def native_layer_norm(
    g: Graph, input: Value, normalized_shape: list[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value]:
    return (g.layer_norm(input, len(normalized_shape), weight, bias, eps),)


@lowering("aten::native_group_norm")
def native_group_norm(
    g: Graph, input: Value, weight: Value | None, bias: Value | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Value]:
    """Instance norm over (batch, group, everything else)"""
    grouped = g.reshape(input, [input.sizes[0], group, -1])
    grouped.shape = (input.sizes[0], group, C // group * HxW)
    y = g.op(
        "InstanceNormalization",
        grouped,
        g.full([group], 1, input.dtype),
        g.full([group], 0, input.dtype),
        epsilon_f=eps,
    )
    y = g.reshape(y, input.sizes)
    if weight is not None:
        y = g.op("Mul", y, _per_channel(g, input, weight))
    if bias is not None:
        y = g.op("Add", y, _per_channel(g, input, bias))
    return (y,)

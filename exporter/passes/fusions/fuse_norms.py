"""Fuses norms that programs write themselves: a layer norm into LayerNormalization, which came with opset 17, and a
root mean square norm, as language models have it, into RMSNormalization, which came with opset 23.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import onnx_ir as ir

from onnx_parity.exporter.passes.all_nodes import all_nodes
from onnx_parity.exporter.passes.fusions.origins import take_origin
from onnx_parity.exporter.passes.matching import (
    ints_of,
    inverse_of,
    is_read_by_one,
    number_of,
    pairs_of,
    producer_of,
    sizes_of,
)

__all__ = ["fuse_norms"]

_LAYER_NORM_SINCE = 17
_RMS_NORM_SINCE = 23
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

#: The inputs of a norm, and epsilon.
_Found = tuple[tuple[ir.Value, ...], float]


def fuse_norms(model: ir.Model, opset: int) -> None:
    """Fuse every x / sqrt(mean(x * x) + epsilon) * scale, over the last axis and with one scale for each feature; and
    that of x less its mean, with a bias for each feature.

    Halves may be normalized in float32, if the result is a half again before it is scaled: so does RMSNormalization.
    Each fusion removes six nodes, 12 from each layer of Llama; that of a layer norm eight.
    """
    if opset >= _LAYER_NORM_SINCE:
        _fuse_all(model.graph, "LayerNormalization", "Add", _layer_norms)
    if opset >= _RMS_NORM_SINCE:
        _fuse_all(model.graph, "RMSNormalization", "Mul", _rms_norms)


def _fuse_all(graph: ir.Graph, op_type: str, last: str, find: Callable[[ir.Node], Iterator[_Found]]) -> None:
    for node in list(all_nodes(graph)):
        if node.op_type == last and not node.domain:
            for inputs, epsilon in itertools.islice(find(node), 1):
                _fuse(node, op_type, inputs, epsilon)


def _fuse(last: ir.Node, op_type: str, inputs: Sequence[ir.Value], epsilon: float) -> None:
    attributes = [ir.AttrInt64("axis", -1), ir.AttrFloat32("epsilon", epsilon)]
    norm = ir.Node("", op_type, inputs, attributes=attributes)
    take_origin(norm, last)
    out, fused = last.outputs[0], norm.outputs[0]
    fused.name, fused.type, fused.shape = out.name, out.type, out.shape
    assert last.graph is not None
    last.graph.insert_before(last, norm)
    out.replace_all_uses_with(fused, replace_graph_outputs=True)
    out.name = None
    last.graph.remove(last, safe=True)


def _layer_norms(total: ir.Node) -> Iterator[_Found]:
    """For the sum of a normalized, scaled tensor and a bias: the tensor, the scale and the bias, and epsilon."""
    for bias, scaled in pairs_of(total):
        product = producer_of(scaled, "Mul")
        if product is None or not is_read_by_one(product) or scaled.dtype is not ir.DataType.FLOAT:
            continue
        for (centred, scale), epsilon in _rms_norms(product):
            x = _centred(centred)
            if x is not None and sizes_of(bias) == sizes_of(scale) and bias.type == x.type:
                yield (x, scale, bias), epsilon


def _centred(difference: ir.Value) -> ir.Value | None:
    """For x less its mean over the last axis: x."""
    node = producer_of(difference, "Sub")
    x = node.inputs[0] if node is not None else None
    return x if node is not None and x is not None and _mean_of(node.inputs[1], x) is x else None


def _rms_norms(product: ir.Node) -> Iterator[_Found]:
    """For the product of a normalized tensor and a scale: the tensor and the scale, and epsilon."""
    for scale, normalized in pairs_of(product):
        if scale.shape is None or len(scale.shape) != 1 or scale.type != normalized.type:
            continue
        last = normalized.producer()
        if last is None or not is_read_by_one(last):
            continue
        narrowed = producer_of(normalized, "Cast")
        wide = narrowed.inputs[0] if narrowed is not None and normalized.dtype in _HALVES else normalized
        for x, epsilon in _normalized(wide):
            given = producer_of(x, "Cast") if wide is not normalized else None
            whole = given.inputs[0] if given is not None else x
            fits = wide is normalized or (x.dtype is ir.DataType.FLOAT and whole is not None)
            if fits and whole is not None and whole.type == normalized.type and _last(whole) == scale.shape[0]:
                yield (whole, scale), epsilon


def _normalized(value: ir.Value | None) -> Iterator[tuple[ir.Value, float]]:
    """For x / sqrt(mean(x * x) + epsilon): x and epsilon."""
    quotient, product = producer_of(value, "Div"), producer_of(value, "Mul")
    candidates: list[tuple[ir.Value | None, ir.Value | None]] = []
    if quotient is not None:
        candidates.append((quotient.inputs[0], quotient.inputs[1]))
    if product is not None:
        for factor, other in pairs_of(product):
            candidates.append((factor, inverse_of(other)))
    for x, root in candidates:
        sqrt = producer_of(root, "Sqrt")
        total = producer_of(sqrt.inputs[0], "Add") if sqrt is not None else None
        for mean, added in itertools.permutations(total.inputs) if total is not None else ():
            epsilon = number_of(added)
            if x is not None and epsilon is not None and _is_mean_square(mean, x):
                yield x, epsilon


def _is_mean_square(mean: ir.Value | None, x: ir.Value) -> bool:
    if _is_square(_mean_of(mean, x), x):
        return True
    quotient = producer_of(mean, "Div")
    return (
        quotient is not None and number_of(quotient.inputs[1]) == _last(x) and _is_sum_of_squares(quotient.inputs[0], x)
    )


def _mean_of(mean: ir.Value | None, x: ir.Value) -> ir.Value | None:
    """What a value is the mean of over the last axis, of as many axes as x has."""
    return _reduced_by("ReduceMean", mean, x)


def _is_sum_of_squares(total: ir.Value | None, x: ir.Value) -> bool:
    return _reduced_by("ReduceSumSquare", total, x) is x


def _reduced_by(op_type: str, result: ir.Value | None, x: ir.Value) -> ir.Value | None:
    """What is reduced over the last axis, of as many axes as x has, which stays as an axis of size 1."""
    reduced = producer_of(result, op_type)
    if reduced is None or x.shape is None:
        return None
    axes = ints_of(reduced.inputs[1]) if len(reduced.inputs) == 2 else reduced.attributes.get_ints("axes")
    keeps = reduced.attributes.get_int("keepdims", 1) == 1
    return reduced.inputs[0] if keeps and axes is not None and list(axes) in ([-1], [len(x.shape) - 1]) else None


def _is_square(square: ir.Value | None, x: ir.Value) -> bool:
    product, power = producer_of(square, "Mul"), producer_of(square, "Pow")
    if product is not None:
        return all(factor is x for factor in product.inputs)
    return power is not None and power.inputs[0] is x and number_of(power.inputs[1]) == 2.0


def _last(x: ir.Value) -> int | None:
    size = x.shape[-1] if x.shape is not None and len(x.shape) else None
    return size if isinstance(size, int) else None

"""Norms that programs write themselves, over the last axis.

    (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale + bias  ->  LayerNormalization(x, scale, bias)
    x / sqrt(mean(x * x) + epsilon) * scale                               ->  RMSNormalization(x, scale)

Halves may be normalized in float32, if the result is a half again before it is scaled: so does RMSNormalization, as
language models have it. Each fusion removes six nodes, 12 from each layer of Llama; that of a layer norm eight.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec
import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import fits_attribute
from onnx_parity.exporter.rewrites.engine.matching import (
    ints_of,
    inverse_of,
    is_read_by_one,
    number_of,
    pairs_of,
    producer_of,
    sizes_of,
)
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, first_match, op

__all__ = ["LAYER_NORMS", "RMS_NORMS"]

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


class Norm(msgspec.Struct, frozen=True):
    #: The tensor that is normalized, its scale, and perhaps its bias.
    inputs: tuple[ir.Value, ...]
    epsilon: float


def _find_layer_norm(total: ir.Node, _walk: Walk) -> Norm | NoMatch:
    return first_match(_layer_norms(total), "it has not two inputs")


def _layer_norms(total: ir.Node) -> Iterator[Norm | NoMatch]:
    """For the sum of a normalized, scaled tensor and a bias: the tensor, the scale and the bias."""
    for bias, scaled in pairs_of(total):
        product = producer_of(scaled, "Mul")
        if product is None or not is_read_by_one(product) or scaled.dtype is not ir.DataType.FLOAT:
            yield NoMatch("it adds to no product of float32 that is read here alone")
            continue
        for norm in _rms_norms(product):
            x = _find_centred(norm.inputs[0]) if isinstance(norm, Norm) else None
            if isinstance(norm, NoMatch):
                yield norm
            elif x is None:
                yield NoMatch("the mean is not subtracted")
            elif sizes_of(bias) != sizes_of(norm.inputs[1]) or bias.type != x.type:
                yield NoMatch("the bias has not one number for each feature")
            else:
                yield Norm((x, norm.inputs[1], bias), norm.epsilon)


def _find_centred(difference: ir.Value) -> ir.Value | None:
    """For x less its mean over the last axis: x."""
    node = producer_of(difference, "Sub")
    x = node.inputs[0] if node is not None else None
    return x if node is not None and x is not None and _mean_of(node.inputs[1], x) is x else None


def find_rms_norm(product: ir.Node, _walk: Walk) -> Norm | NoMatch:
    return first_match(_rms_norms(product), "it has not two inputs")


def _rms_norms(product: ir.Node) -> Iterator[Norm | NoMatch]:
    """For the product of a normalized tensor and a scale: the tensor and the scale."""
    for scale, normalized in pairs_of(product):
        if scale.shape is None or len(scale.shape) != 1 or scale.type != normalized.type:
            yield NoMatch("no factor is a scale of one axis")
            continue
        last = normalized.producer()
        if last is None or not is_read_by_one(last):
            yield NoMatch("the normalized tensor is not computed, or read elsewhere too")
            continue
        narrowed = producer_of(normalized, "Cast")
        if narrowed is None and normalized.dtype in _HALVES:
            yield NoMatch("RMSNormalization computes in float32, where squares are no infinities")
            continue
        wide = narrowed.inputs[0] if narrowed is not None and normalized.dtype in _HALVES else normalized
        yield NoMatch("the tensor is not divided by the root of its mean square and a number")
        for x, epsilon in _find_normalized(wide):
            given = producer_of(x, "Cast") if wide is not normalized else None
            whole = given.inputs[0] if given is not None else x
            if whole is None or whole.type != normalized.type or (wide is not normalized and not _is_float32(x)):
                yield NoMatch("the tensor is normalized in a dtype that is neither its own nor float32")
            elif normalized.dtype is ir.DataType.DOUBLE and not fits_attribute(epsilon, torch.float64):
                yield NoMatch("an attribute does not hold the number that is added")
            elif _width(whole) != scale.shape[0]:
                yield NoMatch("the scale has not one number for each feature")
            else:
                yield Norm((whole, scale), epsilon)


def _is_float32(x: ir.Value) -> bool:
    return x.dtype is ir.DataType.FLOAT


def _find_normalized(value: ir.Value | None) -> Iterator[tuple[ir.Value, float]]:
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
        quotient is not None
        and number_of(quotient.inputs[1]) == _width(x)
        and _is_sum_of_squares(quotient.inputs[0], x)
    )


def _mean_of(mean: ir.Value | None, x: ir.Value) -> ir.Value | None:
    """What a value is the mean of over the last axis, of as many axes as x has."""
    return _find_reduced("ReduceMean", mean, x)


def _is_sum_of_squares(total: ir.Value | None, x: ir.Value) -> bool:
    return _find_reduced("ReduceSumSquare", total, x) is x


def _find_reduced(op_type: str, result: ir.Value | None, x: ir.Value) -> ir.Value | None:
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


def _width(x: ir.Value) -> int | None:
    size = x.shape[-1] if x.shape is not None and len(x.shape) else None
    return size if isinstance(size, int) else None


def _normalize_layer(_total: ir.Node, norm: Norm, _walk: Walk) -> Op:
    return op("LayerNormalization", *norm.inputs, axis=-1, epsilon=norm.epsilon)


def _normalize_by_root_mean_square(_product: ir.Node, norm: Norm, _walk: Walk) -> Op:
    return op("RMSNormalization", *norm.inputs, axis=-1, epsilon=norm.epsilon)


LAYER_NORMS = (Rewrite(name="layer norm", at=("Add",), find=_find_layer_norm, write=_normalize_layer, since=17),)
RMS_NORMS = (
    Rewrite(
        name="root mean square norm",
        at=("Mul",),
        find=find_rms_norm,
        write=_normalize_by_root_mean_square,
        since=23,
    ),
)

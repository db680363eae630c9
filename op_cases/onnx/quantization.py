"""Quantisation, and what is computed with quantised numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from onnx_parity.harness.onnx_node import Array, TypeOf, Types, call, definition, drawn, dtype_of, node, whole
from onnx_parity.op_cases.onnx.convolution import convolve


def _expanded(given: Array, x: Array, axis: int, block_size: int) -> Array:
    """A scale or a zero point for each element: of the whole tensor, of each place of an axis, or of blocks."""
    if given.ndim == 1 and given.size > 1:
        shape = [1] * x.ndim
        shape[axis] = given.size
        return given.reshape(shape)
    if block_size:
        return np.take(np.repeat(given, block_size, axis), range(x.shape[axis]), axis)
    return given.reshape(()) if given.size == 1 else given


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    known = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
    if dtype.name in known:
        return known[dtype.name]
    if dtype.kind in "iu":
        return float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    return -largest, largest


def _fitting(values: Array, dtype: np.dtype[Any], zero_point: Any = 0) -> Array:
    """Integers are rounded, halves to the even one; floats are rounded by their type."""
    shifted = (np.rint(values) if dtype.name.lstrip("u").startswith("int") else values) + zero_point
    return np.asarray(np.clip(shifted, *_limits(dtype)))


@definition
def quantized(
    x: Array, scale: Array, zero_point: Any = None, *, types: Types, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Array:  # fmt: skip
    del output_dtype, precision
    dtype = dtype_of(types.get("T3", types["T2"]))
    shift = 0 if zero_point is None else _expanded(zero_point.astype(np.float64), x, axis, block_size)
    parts = x / _expanded(scale.astype(np.float64), x, axis, block_size)
    return _fitting(parts, dtype, shift) if saturate or "int" in dtype.name else parts + shift


#: No quotient by 4 lies in the middle of two integers.
_X = drawn((2, 3), values=(-13.0, 5.0, 21.0, 0.0, 1601.0, -7.0))
_SCALE, _SCALES, _BLOCKS = [4.0], drawn((3,), values=(4.0, 8.0, 16.0)), drawn((2, 2), values=(4.0, 8.0))
_ZERO = whole((), 1, 2)
_ROW = drawn((2, 3), values=(-13.0, 5.0, 21.0, 0.0, 3.0, -7.0))


def _target(types: Types) -> str:
    return types.get("T3", types["T2"])


def _to_integers(types: Types) -> bool:
    return "int" in _target(types)


quantize_without_zero = node(
    "QuantizeLinear",
    quantized,
    call(_X, 4.0),
    call(_X, _SCALES, axis=1, since=13),
    where=lambda types: _target(types) == "tensor(uint8)",
)
quantize = node(
    "QuantizeLinear",
    quantized,
    call(_X, 4.0, _ZERO),
    call(_X, _SCALES, whole((3,), 0, 2)),
    call(drawn((3, 2), values=(-13.0, 5.0)), _SCALES, whole((3,), 0, 2), axis=0),
    call((), 4.0, _ZERO),
    call((1,), 4.0, _ZERO),
    call((0, 3), 4.0, _ZERO),
    call(_X, _BLOCKS, whole((2, 2), 0, 2), axis=1, block_size=2),
    call(_X, 4.0, _ZERO, precision=1),
    where=_to_integers,
)
quantize_to_floats = node(
    "QuantizeLinear",
    quantized,
    call(_ROW, 4.0, drawn((), values=(0.0,))),
    call(_X, 4.0, drawn((), values=(0.0,))),
    where=lambda types: not _to_integers(types),
    exact=True,
)
quantize_without_saturation = node(
    "QuantizeLinear",
    quantized,
    call(drawn((3,), values=(9.0, 4001.0, -4001.0)), 4.0, drawn((), values=(0.0,)), saturate=0),
    where=lambda types: "float8" in _target(types),
    exact=True,
)
quantize_to_named_21 = node(
    "QuantizeLinear",
    quantized,
    call(_ROW, 4.0, output_dtype=TypeOf("T2"), since=21, before=23),
    usual={"T2": "uint8"},
    exact=True,
)
quantize_to_named = node(
    "QuantizeLinear",
    quantized,
    call(_ROW, 4.0, output_dtype=TypeOf("T3"), since=23),
    usual={"T3": "uint8"},
    exact=True,
)


@definition
def dequantized(
    x: Array, scale: Array, zero_point: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Array:
    del output_dtype
    shift = 0 if zero_point is None else _expanded(zero_point.astype(np.float64), x, axis, block_size)
    made: Array = (x.astype(np.float64) - shift) * _expanded(scale.astype(np.float64), x, axis, block_size)
    return made


_CODES = whole((2, 3), -2, 2)


def _of_one_type(types: Types) -> bool:
    return types.get("T3", types.get("T2")) == types.get("T2") and "e8m0" not in types.get("T2", "")


dequantize = node(
    "DequantizeLinear",
    dequantized,
    call(_CODES, 0.5),
    call(_CODES, drawn((3,), values=(0.5, 2.0, 0.25))),
    call(drawn((), values=(1.0,)), 0.5),
    call(drawn((1, 1), values=(1.0,)), 0.5),
    call((0, 3), 0.5),
    where=_of_one_type,
    usual={"T2": "float"},
)
dequantize_with_zero = node(
    "DequantizeLinear",
    dequantized,
    call(_CODES, 0.5, _ZERO),
    call(whole((3, 2), -2, 2), drawn((3,), values=(0.5, 2.0, 0.25)), whole((3,), -1, 2), axis=0),
    call(_CODES, drawn((2, 2), values=(0.5, 2.0)), whole((2, 2), -1, 2), axis=1, block_size=2),
    where=lambda types: (
        _of_one_type(types)
        and "int" in str(types.get("T1", types.get("T")))
        and "int32" not in str(types.get("T1", types.get("T")))
    ),
    usual={"T": "uint8", "T1": "uint8", "T2": "float"},
)
dequantize_to_named = node(
    "DequantizeLinear",
    dequantized,
    call(_CODES, 0.5, output_dtype=TypeOf("T3")),
    usual={"T2": "float", "T3": "float"},
)


@definition
def dynamically_quantized(x: Array) -> tuple[Array, Array, Array]:
    """The range of the tensor, and of 0, becomes 0 to 255."""
    low, high = min(x.min(), 0.0), max(x.max(), 0.0)
    scale = (high - low) / 255
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return np.clip(np.rint(x / scale) + zero, 0, 255), np.asarray(scale), np.asarray(zero)


dynamic_quantize_linear = node(
    "DynamicQuantizeLinear",
    dynamically_quantized,
    call([0.0, 2.0, -3.0, -2.6, 1.34, 0.5]),
    call([1.5]),
    call([[1.0, 2.1], [1.3, 2.5]]),
    call([[-1.0, -2.1], [-1.3, -2.5]]),
)

# --- products ---------------------------------------------------------------------------------------------------------


def _centred(x: Array, zero_point: Any) -> Array:
    """A zero point of one dimension is that of each row of the first matrix."""
    wide = x.astype(np.float64)
    return wide if zero_point is None else wide - np.asarray(zero_point, np.float64)


@definition
def integer_product(a: Array, b: Array, a_zero: Any = None, b_zero: Any = None) -> Array:
    rows = a_zero[:, None] if a_zero is not None and a_zero.ndim == 1 and a_zero.size > 1 else a_zero
    made: Array = _centred(a, rows) @ _centred(b, b_zero)
    return made


_A, _B = whole((2, 3), -20, 20), whole((3, 4), -20, 20)
mat_mul_integer = node(
    "MatMulInteger",
    integer_product,
    call(_A, _B),
    call(whole((1, 3), 0, 20), _B),
    call(_A, _B, whole((), 1, 5), whole((), 1, 5)),
    call(_A, _B, whole((), 1, 5)),
    call(_A, _B, whole((2,), 1, 5), whole((4,), 1, 5)),
    call(whole((2, 2, 3), -20, 20), whole((2, 3, 2), -20, 20)),
    call((0, 3), (3, 2)),
)


@definition
def quantized_product(
    a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, y_scale: Array, y_zero: Array,
    types: Types,
) -> Array:  # fmt: skip
    rows = (a_scale[:, None], a_zero.astype(np.float64)[:, None]) if a_scale.ndim == 1 and a_scale.size > 1 else (
        a_scale, a_zero.astype(np.float64))  # fmt: skip
    made = (_centred(a, rows[1]) * rows[0]) @ (_centred(b, b_zero) * b_scale)
    return _fitting(made / y_scale, dtype_of(types["T3"]), y_zero.astype(np.float64))


#: An eighth of an integer, divided by three eighths, is never in the middle of two integers.
_HALF, _QUARTER, _OUT = 0.5, 0.25, 0.375
q_linear_mat_mul = node(
    "QLinearMatMul",
    quantized_product,
    call(_A, _HALF, _ZERO, _B, _QUARTER, _ZERO, _OUT, _ZERO),
    call(whole((0, 3), -9, 9), _HALF, _ZERO, _B, _QUARTER, _ZERO, _OUT, _ZERO),
    call(whole((1, 3), -9, 9), _HALF, _ZERO, _B, _QUARTER, _ZERO, _OUT, _ZERO),
    call(_A, drawn((2,), values=(0.5, 1.0)), whole((2,), 0, 2), _B, _QUARTER, _ZERO, _OUT, _ZERO),
    call(whole((2, 2, 3), -9, 9), _HALF, _ZERO, whole((2, 3, 2), -9, 9), _QUARTER, _ZERO, _OUT, _ZERO),
    where=lambda types: all("int" in types[each] for each in ("T1", "T2", "T3")),
)
_NONE = drawn((), values=(0.0,))
q_linear_mat_mul_of_floats = node(
    "QLinearMatMul",
    quantized_product,
    call(whole((2, 3), -3, 4), _HALF, _NONE, whole((3, 2), -3, 4), _QUARTER, _NONE, _OUT, _NONE),
    since=21,
    where=lambda types: all("float8" in types[each] for each in ("T1", "T2", "T3")),
    exact=True,
)


def _convolve(x: Array, w: Array, bias: Any, settings: dict[str, Any]) -> Array:
    import torch

    tensors = [None if each is None else torch.from_numpy(np.asarray(each, np.float64)) for each in (x, w, bias)]
    made: Array = convolve(*tensors, **settings).numpy()  # type: ignore[arg-type]
    return made


@definition
def integer_convolution(x: Array, w: Array, x_zero: Any = None, w_zero: Any = None, **settings: Any) -> Array:
    """What is padded is the zero point. There may be one for each filter."""
    filters = w_zero.reshape(-1, *[1] * (w.ndim - 1)) if w_zero is not None and w_zero.ndim else w_zero
    return _convolve(_centred(x, x_zero), _centred(w, filters), None, settings)


_IMAGE, _FILTERS = whole((1, 2, 4, 4), 0, 20), whole((3, 2, 2, 2), -20, 20)
_SETTINGS: tuple[dict[str, Any], ...] = (
    {"pads": [1, 0, 1, 2]},
    {"strides": [2, 1], "kernel_shape": [2, 2]},
    {"dilations": [2, 2]},
    {"auto_pad": "SAME_UPPER"},
)
conv_integer = node(
    "ConvInteger",
    integer_convolution,
    call(_IMAGE, _FILTERS),
    call(whole((0, 2, 4, 4), 0, 20), _FILTERS),
    call(_IMAGE, _FILTERS, whole((), 1, 5)),
    call(_IMAGE, _FILTERS, whole((), 1, 5), whole((), 1, 5), pads=[1, 1, 1, 1]),
    call(_IMAGE, _FILTERS, whole((), 1, 5), whole((3,), 1, 5)),
    *(call(_IMAGE, _FILTERS, whole((), 1, 5), **settings) for settings in _SETTINGS),
    call(_IMAGE, whole((2, 1, 2, 2), -20, 20), group=2),
)


@definition
def quantized_convolution(
    x: Array, x_scale: Array, x_zero: Array, w: Array, w_scale: Array, w_zero: Array, y_scale: Array, y_zero: Array,
    bias: Any = None, *, types: Types, **settings: Any,
) -> Array:  # fmt: skip
    """The bias has the scale of the product of both inputs."""
    shape = (-1, *[1] * (w.ndim - 1))
    filters = (w_zero.reshape(shape), w_scale.reshape(shape)) if w_scale.size > 1 else (w_zero, w_scale)
    offset = None if bias is None else bias.astype(np.float64) * x_scale * w_scale
    made = _convolve(_centred(x, x_zero) * x_scale, _centred(w, filters[0]) * filters[1], offset, settings)
    return _fitting(made / y_scale, dtype_of(types["T3"]), y_zero.astype(np.float64))


_X_SCALES, _W_SCALES, _Y_SCALES = (_HALF, _ZERO), (_QUARTER, _ZERO), (_OUT, _ZERO)
q_linear_conv = node(
    "QLinearConv",
    quantized_convolution,
    call(_IMAGE, *_X_SCALES, _FILTERS, *_W_SCALES, *_Y_SCALES),
    call(whole((0, 2, 4, 4), 0, 20), *_X_SCALES, _FILTERS, *_W_SCALES, *_Y_SCALES),
    call(_IMAGE, *_X_SCALES, _FILTERS, *_W_SCALES, *_Y_SCALES, whole((3,), -50, 50)),
    call(_IMAGE, *_X_SCALES, _FILTERS, drawn((3,), values=(0.25, 0.5, 1.0)), whole((3,), 0, 2), *_Y_SCALES),
    *(call(_IMAGE, *_X_SCALES, _FILTERS, *_W_SCALES, *_Y_SCALES, **settings) for settings in _SETTINGS),
    call(_IMAGE, *_X_SCALES, whole((2, 1, 2, 2), -20, 20), *_W_SCALES, *_Y_SCALES, group=2),
)

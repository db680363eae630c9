"""Conversions of types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from onnx_parity.harness.onnx_node import Array, OnnxNode, TypeOf, Types, call, definition, drawn, dtype_of, node

_INF, _NAN = float("inf"), float("nan")
_NARROW = ("int4", "uint4", "int2", "uint2")
_FLOAT8 = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")


def saturated(values: Array, dtype: np.dtype[Any]) -> Array:
    """Floats in the range of a narrower float; NaN stays NaN."""
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    return np.clip(values, -largest, largest)


@definition
def cast(x: Array, like: Any = None, *, types: Types, saturate: int = 1, to: int = 0, round_mode: str = "up") -> Array:
    """Fractions are cut off, and integers that are too large lose their upper bits."""
    del like, to, round_mode
    dtype = dtype_of(types["T2"])
    if dtype.kind == "O":
        return np.array([str(each) for each in x.ravel().tolist()], object).reshape(x.shape)
    if x.dtype.kind == "O":
        x = np.array([float(each) for each in x.ravel()]).reshape(x.shape)
    if saturate and types["T2"][7:-1] in _FLOAT8:
        return saturated(x.astype(np.float64), dtype)
    if dtype.kind in "iu" and x.dtype.kind == "f":
        x = np.trunc(x)
    return x.astype(np.bool_) if dtype.kind == "b" else x


#: What every type has, and is written alike everywhere.
_FEW = drawn((2, 3), values=(0.0, 1.0, 1.0))
_ONES, _ONE = drawn((3,), values=(1.0,)), drawn((1,), values=(1.0,))


#: How types begin that no string is cast to.
_NO_TEXT = ("float8e", "float4e", "float6e", "complex")


def _list_casts(operator: str, *like: Any, **to: Any) -> Iterator[OnnxNode]:
    """From the usual types to each type, and back, with values that both have."""

    def pair(fixed: str, element: str, allowed: Callable[[str], bool], *values: Any) -> OnnxNode:
        """All allowed types of the other variable, with one of this variable."""
        main = "T2" if fixed == "T1" else "T1"
        return node(
            operator, cast, *(call(each, *like, **to) for each in values),
            main=main, usual={fixed: element}, exact=True,
            where=lambda types: types[fixed] == f"tensor({element})" and allowed(types[main][7:-1]),
        )  # fmt: skip

    yield pair("T1", "float", lambda other: other not in ("string", "float8e8m0"), _FEW)
    yield pair("T1", "int64", lambda other: other not in ("string", "float8e8m0", "float"), _FEW)
    yield pair("T2", "float", lambda other: other not in ("string", "float8e8m0", "float", "int64"), _FEW)
    yield pair(
        "T1",
        "float",
        lambda other: other not in ("string", "float8e8m0", *_NARROW),
        drawn((2, 3), 0.0, 4.0),
        (),
        (1,),
        (0, 3),
    )
    yield pair("T1", "float", lambda other: other in ("float16", "double", "bfloat16", "bool", *_FLOAT8),
               [0.1, _INF, -_INF, _NAN, -0.0, 1e9, 3.4])  # fmt: skip
    yield pair("T1", "string", lambda other: other not in ("string", "bool", *_NARROW) and other[:7] not in _NO_TEXT,
               ["1", "0", "12"])  # fmt: skip
    yield pair("T1", "string", lambda other: other in ("float", "double"), ["1.5", "-INF", "nan", "1e-5", "+inf"])
    yield pair("T2", "string", lambda other: "int" in other and other not in _NARROW, [0, 1, 12])
    yield pair("T2", "string", lambda other: other in ("float", "double"), [1.5, -0.25])
    # Powers of two, which a type that has nothing else has.
    yield pair("T1", "float", lambda other: other == "float8e8m0", _ONES, drawn((2,), values=(4.0, 0.25)))
    yield pair("T2", "float", lambda other: other == "float8e8m0", drawn((3,), values=(1.0, 4.0)))


(cast_float, cast_int64, cast_to_float, cast_fractions, cast_extremes, cast_text, cast_text_of_fractions, cast_to_text,
 cast_fractions_to_text, cast_powers, cast_from_powers) = _list_casts("Cast", to=TypeOf("T2"))  # fmt: skip
(like_float, like_int64, like_to_float, like_fractions, like_extremes, like_text, like_text_of_fractions, like_to_text,
 like_fractions_to_text, like_powers, like_from_powers) = _list_casts("CastLike", _ONE)  # fmt: skip
cast_without_saturation = node(
    "Cast",
    cast,
    call([0.1, _INF, -_INF, _NAN, 1e9, -1e9], to=TypeOf("T2"), saturate=0),
    main="T2",
    usual={"T1": "float"},
    where=lambda types: types["T1"] == "tensor(float)" and types["T2"][7:-1] in _FLOAT8,
    exact=True,
)
like_without_saturation = node(
    "CastLike",
    cast,
    call([0.1, _INF, -_INF, _NAN, 1e9, -1e9], [1.0], saturate=0),
    main="T2",
    usual={"T1": "float"},
    where=lambda types: types["T1"] == "tensor(float)" and types["T2"][7:-1] in _FLOAT8,
    exact=True,
)


def _is_to_powers(types: Types) -> bool:
    return types["T1"] == "tensor(float)" and "e8m0" in types["T2"]


_ROUNDED: dict[str, Any] = {"main": "T2", "usual": {"T1": "float"}, "where": _is_to_powers, "exact": True}


@definition
def cast_to_power(x: Array, like: Any = None, *, round_mode: str, saturate: int, to: int = 0) -> Array:
    """To the power of two above, below, or nearest in the exponent; what is too large or too small for the type is
    its bound, or NaN, and 0 is the least that it has."""
    del like, to
    with np.errstate(all="ignore"):
        exponent = np.log2(np.where(np.isfinite(x), np.abs(x), 1.0))
        above, below = np.ceil(exponent), np.floor(exponent)
        nearest = np.where(x / 2**below >= 1.5, above, below)
        made = np.exp2({"up": above, "down": below, "nearest": nearest}[round_mode])
    made = np.where(np.isinf(x), np.inf, np.where(np.isnan(x), np.nan, made))
    if saturate:
        return np.clip(made, 2.0**-127, 2.0**127)
    return np.where((made < 2.0**-127) | (made > 2.0**127), np.nan, made)


_BETWEEN = [1.25, 1.75, 3.0, 0.3]
_SPECIAL = [0.0, _NAN, _INF, 3.4e38, 1e-45]
cast_up_or_down = node(
    "Cast",
    cast_to_power,
    *(call(_BETWEEN, to=TypeOf("T2"), round_mode=mode) for mode in ("up", "down", "nearest")),
    call(_SPECIAL, to=TypeOf("T2")),
    call(_SPECIAL, to=TypeOf("T2"), round_mode="nearest", saturate=0),
    **_ROUNDED,
)
like_up_or_down = node(
    "CastLike", cast_to_power, *(call(_BETWEEN, [1.0], round_mode=mode) for mode in ("up", "down")), **_ROUNDED
)
cast_wrapping = node(
    "Cast",
    cast,
    call([200, -200, 70000, -1], to=TypeOf("T2")),
    main="T2",
    usual={"T1": "int64"},
    where=lambda types: types["T1"] == "tensor(int64)" and "int" in types["T2"] and types["T2"][7:-1] not in _NARROW,
)

# --- BitCast ----------------------------------------------------------------------------------------------------------

#: Types by their bits.
_WIDTHS = {
    2: ("int2", "uint2"),
    4: ("int4", "uint4", "float4e2m1"),
    8: ("int8", "uint8", *_FLOAT8, "float8e8m0"),
    16: ("int16", "uint16", "float16", "bfloat16"),
    32: ("int32", "uint32", "float"),
    64: ("int64", "uint64", "double", "complex64"),
}


@definition
def same_bits(x: Array, to: int, types: Types) -> Array:
    del to
    old, new = (dtype_of(types[each]) for each in ("T1", "T2"))
    made = x.astype(old)
    bits = next((bits for bits, names in _WIDTHS.items() if types["T1"][7:-1] in names), 8)
    if bits >= 8:
        return made.view(new)
    # Less than a byte is in the lower bits of one.
    low = made.view(np.uint8) & (2**bits - 1)
    is_negative = (low >> (bits - 1)).astype(bool) & new.name.startswith("int")
    whole: Array = np.where(is_negative, low | 256 - 2**bits, low).astype(np.uint8)
    return whole.view(new)


def _of_one_width(types: Types, *, fixed: str, element: str) -> bool:
    both = {types[each][7:-1] for each in ("T1", "T2")}
    return types[fixed] == f"tensor({element})" and any(both <= {*names} for names in _WIDTHS.values())


_BITS = call(drawn((2, 3), values=(1.0, 2.0, 4.0, 0.5, 16.0)), to=TypeOf("T2"))
_INTEGERS = ("int8", "int16", "int32", "int64", "int4", "int2")
to_int8, to_int16, to_int32, to_int64, to_int4, to_int2 = (
    node("BitCast", same_bits, _BITS, main="T1", usual={"T2": each}, exact=True,
         where=partial(_of_one_width, fixed="T2", element=each))
    for each in _INTEGERS
)  # fmt: skip
from_int8, from_int16, from_int32, from_int64, from_int4, from_int2 = (
    node("BitCast", same_bits, call(drawn((2, 3), values=(1.0, 0.0)), to=TypeOf("T2")), main="T2", usual={"T1": each},
         where=partial(_of_one_width, fixed="T1", element=each), exact=True)
    for each in _INTEGERS
)  # fmt: skip
bits_of_bools = node(
    "BitCast",
    same_bits,
    call([True, False], to=TypeOf("T2")),
    main="T2",
    where=lambda types: types["T1"] == types["T2"] == "tensor(bool)",
)
bits_of_pairs = node(
    "BitCast",
    same_bits,
    call((2,), to=TypeOf("T2")),
    call((1,), to=TypeOf("T2")),
    call((0, 3), to=TypeOf("T2")),
    main="T2",
    where=lambda types: types["T1"] == types["T2"] == "tensor(complex128)",
)

"""Constants, sequences of numbers, windows, and what is drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_parity.harness.onnx_node import (
    Array,
    Distribution,
    OnnxNode,
    TypeOf,
    Types,
    call,
    definition,
    drawn,
    dtype_of,
    node,
)

# --- constants --------------------------------------------------------------------------------------------------------


@definition
def constant_value(**given: Any) -> Array:
    """The value of the one attribute that is there."""
    ((name, value),) = given.items()
    if name == "value":
        return np.asarray(onnx.numpy_helper.to_array(value))
    if name == "sparse_value":
        made = np.zeros(list(value.dims), np.float32)
        made.ravel()[onnx.numpy_helper.to_array(value.indices)] = onnx.numpy_helper.to_array(value.values)
        return made
    if "string" in name:
        return np.array(value, object)
    return np.array(value, np.int64 if "int" in name else np.float32)


def _tensor(element: str, shape: Sequence[int] = (2,)) -> onnx.TensorProto:
    code = TensorProto.DataType.Value(element.upper())
    if element == "string":
        return onnx.numpy_helper.from_array(np.array(["a", "ß"], object), "value")
    values = np.arange(1, 1 + int(np.prod(shape))).astype(helper.tensor_dtype_to_np_dtype(code)).reshape(shape)
    return onnx.numpy_helper.from_array(values, "value")


def _of(element: str, *more: Any) -> OnnxNode:
    return node(
        "Constant",
        constant_value,
        call(value=_tensor(element)),
        *more,
        where=lambda types: types.get("T") == f"tensor({element})",
        usual={"T": element},
        exact=True,
    )


_ELEMENTS = (
    "bfloat16", "bool", "complex64", "complex128", "double", "float16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
    "float8e5m2fnuz", "float8e8m0", "float4e2m1", "int2", "int4", "int8", "int16", "int32", "uint2", "uint4", "uint8",
    "uint16", "uint32", "uint64", "float6e2m3", "float6e3m2",
)  # fmt: skip
_SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("values", TensorProto.FLOAT, (2,), [1.5, -2.0]),
    helper.make_tensor("indices", TensorProto.INT64, (2,), [1, 4]),
    (2, 3),
)
constant_float = _of(
    "float",
    call(value=_tensor("float", ())),
    call(value=_tensor("float", (0, 3))),
    call(value_float=1.5),
    call(value_floats=[1.5, -2.0]),
    call(sparse_value=_SPARSE),
)
constant_int64 = _of("int64", call(value_int=-3), call(value_ints=[1, -2]))
constant_string = _of("string", call(value_string="Ä"), call(value_strings=["a", "", "b c"]))
constant_bfloat16, constant_bool, constant_complex64, constant_complex128 = map(_of, _ELEMENTS[:4])
constant_double, constant_float16, constant_e4m3fn, constant_e4m3fnuz = map(_of, _ELEMENTS[4:8])
constant_e5m2, constant_e5m2fnuz, constant_e8m0, constant_e2m1 = map(_of, _ELEMENTS[8:12])
constant_int2, constant_int4, constant_int8, constant_int16, constant_int32 = map(_of, _ELEMENTS[12:17])
constant_uint2, constant_uint4, constant_uint8, constant_uint16, constant_uint32, constant_uint64 = map(
    _of, _ELEMENTS[17:23]
)
constant_e2m3, constant_e3m2 = map(_of, _ELEMENTS[23:])


@definition
def filled(shape: Array, value: Any = None) -> Array:
    return np.full([int(size) for size in shape], 0.0 if value is None else onnx.numpy_helper.to_array(value)[0])


def _filled_with(element: str) -> OnnxNode:
    return node(
        "ConstantOfShape",
        filled,
        call([2, 3], value=_tensor(element, (1,))),
        main="T2",
        where=lambda types: types["T2"] == f"tensor({element})",
        exact=True,
    )


constant_of_shape = node(
    "ConstantOfShape",
    filled,
    call([2, 3]),
    call([2, 3], value=_tensor("float", (1,))),
    call(np.array([], np.int64)),
    call([0, 3]),
    call([1]),
    main="T2",
    where=lambda types: types["T2"] == "tensor(float)",
    exact=True,
)
filled_with_int64 = _filled_with("int64")
filled_with_bfloat16, filled_with_bool = map(_filled_with, _ELEMENTS[:2])
filled_with_double, filled_with_float16, filled_with_e4m3fn, filled_with_e4m3fnuz = map(_filled_with, _ELEMENTS[4:8])
filled_with_e5m2, filled_with_e5m2fnuz, filled_with_e8m0, filled_with_e2m1 = map(_filled_with, _ELEMENTS[8:12])
filled_with_int2, filled_with_int4, filled_with_int8, filled_with_int16, filled_with_int32 = map(
    _filled_with, _ELEMENTS[12:17]
)
filled_with_uint2, filled_with_uint4, filled_with_uint8 = map(_filled_with, _ELEMENTS[17:20])
filled_with_uint16, filled_with_uint32, filled_with_uint64 = map(_filled_with, _ELEMENTS[20:23])


@definition
def diagonal(x: Array, k: int, dtype: Any = None) -> Array:
    del dtype
    return np.eye(x.shape[0], x.shape[1], k)


eye_like = node("EyeLike", diagonal, call((3, 3)), call((3, 4), k=1), call((4, 2), k=-2), call((1, 1)), call((0, 3)))
eye_like_of_other_type = node("EyeLike", diagonal, call((2, 3), dtype=TypeOf("T2"), k=1), usual={"T2": "float"})


@definition
def stepped(start: Array, limit: Array, delta: Array, stash_type: int = 1) -> Array:
    del stash_type
    number = max(int(np.ceil((limit.astype(np.float64) - start) / delta)), 0)
    return np.asarray(start + np.arange(number) * delta)


range_ = node(
    "Range",
    stepped,
    call(drawn((), values=(1.0,)), drawn((), values=(9.0,)), drawn((), values=(2.0,))),
    call(drawn((), values=(10.0,)), drawn((), values=(4.0,)), drawn((), values=(-2.0,))),
    call(drawn((), values=(5.0,)), drawn((), values=(2.0,)), drawn((), values=(1.0,))),
    call(drawn((), values=(1.0,)), drawn((), values=(9.0,)), drawn((), values=(2.0,)), stash_type=1),
)

# --- windows ----------------------------------------------------------------------------------------------------------


def _window(first: float, second: float, third: float) -> Any:
    @definition
    def window(size: Array, periodic: int, types: Types, output_datatype: int) -> Array:
        """A sum of cosines, of as many periods as fit, or one less."""
        del output_datatype
        number = int(size)
        turns = 2 * np.pi * np.arange(number) / (number if periodic else max(number - 1, 1))
        made = first - second * np.cos(turns) + third * np.cos(2 * turns)
        return made if dtype_of(types["T2"]).kind not in "iu" else np.trunc(made)

    return window


_SIZES = (call(6), call(6, periodic=0))
#: Of these, no element is so near to an integer that the rounding decides which it becomes.
_TYPED = call(5, output_datatype=TypeOf("T2"))


def _list_windows(operator: str, *weights: float) -> OnnxNode:
    return node(operator, _window(*weights), *_SIZES, _TYPED, usual={"T2": "float", "T1": "int64"}, rounded_by=1e-7)


hann_window = _list_windows("HannWindow", 0.5, 0.5, 0.0)
hamming_window = _list_windows("HammingWindow", 25 / 46, 21 / 46, 0.0)
blackman_window = _list_windows("BlackmanWindow", 0.42, 0.5, 0.08)


@definition
def mel_weights(
    bins: Array, length: Array, rate: Array, low: Array, high: Array, types: Types, output_datatype: int
) -> Array:
    """Triangles between places that are equally far apart in mel, whose sides are of whole places of the spectrum."""
    del output_datatype, types
    lines = int(length) // 2 + 1
    mel = [2595 * np.log10(1 + float(each) / 700) for each in (low, high)]
    step = (mel[1] - mel[0]) / (int(bins) + 2)
    edges = 700 * (10 ** ((np.arange(int(bins) + 2) * step + mel[0]) / 2595) - 1)
    places = ((int(length) + 1) * edges // int(rate)).astype(int)
    made = np.zeros((lines, int(bins)))
    for number in range(int(bins)):
        left, top, right = places[number : number + 3]
        if top == left:
            made[top, number] = 1
        else:
            for place in range(left, top + 1):
                made[place, number] = (place - left) / (top - left)
        for place in range(top, right):
            made[place, number] = (right - place) / (right - top)
    return made


_SPECTRUM = (8, 16, 8192, 0.0, 4096.0)
mel_weight_matrix = node(
    "MelWeightMatrix",
    mel_weights,
    call(*_SPECTRUM),
    call(4, 32, 8000, 20.0, 2000.0),
    usual={"T1": "int64", "T2": "float", "T3": "float"},
)
mel_weight_matrix_of_type = node(
    "MelWeightMatrix",
    mel_weights,
    call(*_SPECTRUM, output_datatype=TypeOf("T3")),
    usual={"T1": "int64", "T2": "float", "T3": "float"},
    where=lambda types: "int" not in types["T3"],
)
#: Every element is 0 or 1, which integers hold.
mel_weight_matrix_of_integers = node(
    "MelWeightMatrix",
    mel_weights,
    call(8, 16, 8192, 0.0, 3000.0, output_datatype=TypeOf("T3")),
    main="T3",
    usual={"T1": "int64", "T2": "float"},
    where=lambda types: "int" in types["T3"],
)

# --- what is drawn at random ------------------------------------------------------------------------------------------

_SHAPE = [40, 50]
_ENOUGH = (40, 50)


def _uniform(low: float, high: float, shape: Sequence[int]) -> Distribution:
    return Distribution(tuple(shape), low, high, (low + high) / 2, (high - low) / np.sqrt(12))


@definition
def uniform(*likeness: Array, low: float, high: float, shape: Any = None, **settings: Any) -> Distribution:
    del settings
    return _uniform(low, high, shape or likeness[0].shape)


@definition
def normal(*likeness: Array, mean: float, scale: float, shape: Any = None, **settings: Any) -> Distribution:
    """No element is farther from the mean than ten deviations."""
    del settings
    return Distribution(tuple(shape or likeness[0].shape), mean - 10 * scale, mean + 10 * scale, mean, scale)


def _random(operator: str, function: Any, given: tuple[Any, ...], variable: str, settings: dict[str, Any]) -> OnnxNode:
    shape: dict[str, Any] = {} if given else {"shape": _SHAPE}
    return node(
        operator,
        function,
        call(*given, dtype=TypeOf(variable), **shape),
        call(*given, dtype=TypeOf(variable), seed=7.0, **settings, **shape),
        *(call(each, dtype=TypeOf(variable)) for each in ((1,), (0, 3)) if given),
        usual={variable: "float"},
    )


random_uniform = _random("RandomUniform", uniform, (), "T", {"low": -1.0, "high": 3.0})
random_uniform_like = _random("RandomUniformLike", uniform, (_ENOUGH,), "T2", {"low": -1.0, "high": 3.0})
random_normal = _random("RandomNormal", normal, (), "T", {"mean": 2.0, "scale": 0.5})
random_normal_like = _random("RandomNormalLike", normal, (_ENOUGH,), "T2", {"mean": 2.0, "scale": 0.5})


@definition
def coin_tosses(x: Array, **settings: Any) -> Distribution:
    del settings
    share = float(x.mean()) if x.size else 0.5
    return Distribution(x.shape, 0.0, 1.0, share, float(np.sqrt(share * (1 - share))))


_QUARTERS = drawn(_ENOUGH, values=(0.25,))
bernoulli = node(
    "Bernoulli",
    coin_tosses,
    call(_QUARTERS),
    call(drawn((2, 3), values=(1.0,))),
    call(_QUARTERS, seed=3.0),
    call(drawn((1,), values=(0.5,))),
    call((0, 3)),
)
bernoulli_of_type = node("Bernoulli", coin_tosses, call(_QUARTERS, dtype=TypeOf("T2")), usual={"T2": "float"})


@definition
def chosen(x: Array, sample_size: int, **settings: Any) -> Distribution:
    """Classes by the logarithms of their probabilities, which need not have the sum 1."""
    del settings
    shares = np.exp(x[0] if len(x) else np.zeros(x.shape[1]))
    shares /= shares.sum()
    mean = float(shares @ np.arange(len(shares)))
    spread = float(np.sqrt(shares @ (np.arange(len(shares)) - mean) ** 2))
    return Distribution((x.shape[0], sample_size), 0, x.shape[1] - 1, mean, spread)


_LOGARITHMS = drawn((1, 3), values=(0.0, 1.0, 0.5))
multinomial = node(
    "Multinomial",
    chosen,
    call(_LOGARITHMS, sample_size=1000, dtype=TypeOf("T2")),
    call(_LOGARITHMS, sample_size=500, dtype=TypeOf("T2"), seed=3.0),
    call((0, 3), sample_size=5, dtype=TypeOf("T2")),
    usual={"T2": "int32"},
)
multinomial_of_int32 = node(
    "Multinomial", chosen, call(drawn((1, 1), values=(0.0,))), where=lambda types: types["T2"] == "tensor(int32)"
)

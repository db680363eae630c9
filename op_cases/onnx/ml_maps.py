"""The operators of ai.onnx.ml that take or return maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import ML, Array, Types, call, definition, dtype_of, element_of, node


def _keys(key: str) -> Any:
    """Where the keys of the maps are of this type."""
    return lambda types: f"map({key}," in types.get("T1", types.get("T", ""))


# --- DictVectorizer ---------------------------------------------------------------------------------------------------


@definition
def vectorized(x: dict[Any, Any], types: Types, int64_vocabulary: Any = None, string_vocabulary: Any = None) -> Array:
    """What is no key of the map is 0, or the empty string."""
    dtype = dtype_of(types["T2"])
    nothing: Any = "" if dtype.kind == "O" else 0
    return np.array([x.get(key, nothing) for key in int64_vocabulary or string_vocabulary], dtype)


dict_vectorizer_of_integers = node(
    "DictVectorizer",
    vectorized,
    call({7: 2, 1: 3}, int64_vocabulary=[1, 2, 7]),
    call({2: 4}, int64_vocabulary=[2]),
    call({}, int64_vocabulary=[1, 2]),
    where=_keys("int64"),
    domain=ML,
    exact=True,
)
dict_vectorizer_of_strings = node(
    "DictVectorizer",
    vectorized,
    call({"a": 4, "c": 8}, string_vocabulary=["a", "c", "b", "z"]),
    where=_keys("string"),
    domain=ML,
    exact=True,
)

# --- CastMap ----------------------------------------------------------------------------------------------------------


@definition
def packed(x: dict[int, Any], types: Types, *, cast_to: str, map_form: str, max_map: int) -> Array:
    """The values in the order of their keys, or each at the place that its key is."""
    del cast_to
    kinds: dict[str, Callable[[Any], Any]] = {"float": float, "int64": lambda each: int(float(each)), "string": str}
    kind = kinds[element_of(types["T2"])]
    known = {key: kind(value) for key, value in x.items()}
    if map_form == "DENSE":
        made = [known[key] for key in sorted(known)]
    else:
        made = [known.get(key, kind("0")) for key in range(max_map)]
    return np.array([made], dtype_of(types["T2"]))


def _cast_map(value: str, element: str, name: str) -> Any:
    # Which string stands where there is no key, is not said.
    sparse = [] if element == "string" else [call({3: 2, 1: 5}, cast_to=name, map_form="SPARSE", max_map=5)]
    return node(
        "CastMap",
        packed,
        call({3: 2, 1: 5}, cast_to=name),
        call({4: 7}, cast_to=name),
        call({}, cast_to=name),
        *sparse,
        usual={"T1": value, "T2": element},
        where=lambda types: types["T1"] == f"map(int64, {value})" and types["T2"] == f"tensor({element})",
        domain=ML,
        exact=True,
    )


cast_map_to_float = _cast_map("float", "float", "TO_FLOAT")
cast_map_to_int64 = _cast_map("float", "int64", "TO_INT64")
cast_map_of_strings = _cast_map("string", "string", "TO_STRING")
cast_map_of_strings_to_float = _cast_map("string", "float", "TO_FLOAT")
cast_map_of_strings_to_int64 = _cast_map("string", "int64", "TO_INT64")

# --- ZipMap -----------------------------------------------------------------------------------------------------------


@definition
def zipped(
    x: Array, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()
) -> list[dict[Any, float]]:
    """A map for each row."""
    keys = classlabels_int64s or classlabels_strings
    return [dict(zip(keys, row, strict=True)) for row in np.atleast_2d(x).tolist()]


zip_map_of_integers = node(
    "ZipMap",
    zipped,
    call((2, 3), classlabels_int64s=[10, 20, 30]),
    call((1, 1), classlabels_int64s=[4]),
    call((3,), classlabels_int64s=[10, 20, 30]),
    call((0, 3), classlabels_int64s=[10, 20, 30]),
    where=_keys("int64"),
    domain=ML,
    exact=True,
)
zip_map_of_strings = node(
    "ZipMap",
    zipped,
    call((2, 3), classlabels_strings=["a", "b", "c"]),
    where=_keys("string"),
    domain=ML,
    exact=True,
)

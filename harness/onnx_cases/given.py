"""What an input of a case is given as, and its value: drawn by a generator that is stable by construction.

The generator is a few lines of integer arithmetic (`draw_shares`). So inputs are the same with every version of Python,
numpy and torch, and do not depend on which other cases there are.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from onnx_parity.exporter.arrays import Array
from onnx_parity.harness.onnx_cases.types import dtype_of, element_of, is_sequence

__all__ = [
    "NOTHING",
    "Drawn",
    "Given",
    "Items",
    "Nothing",
    "Shape",
    "Value",
    "describe",
    "draw_shares",
    "map_arrays",
    "value_of",
]

Shape: TypeAlias = tuple[int, ...]
#: The value of an input: None is an optional without a value. A map has plain numbers and strings.
Value: TypeAlias = Array | list[Array] | dict[Any, Any] | list[dict[Any, Any]] | None

#: The strings that are drawn: without letters, with spaces, in other cases and scripts.
_WORDS = ("", "a", "Parity", "two words", "ÄÖü", "数", " x ", "a")
#: What an id shows of a value that is given, before a digest takes its place.
_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Drawn:
    """A tensor of this shape with drawn elements. None stands for what the declaration of the operator says."""

    shape: Shape
    low: float | None = None
    high: float | None = None
    #: Without fractions, and without the upper bound.
    whole: bool = False
    #: These elements, again and again, instead of drawn ones.
    values: tuple[float, ...] = ()
    #: Those at which the type ends instead: its largest and smallest numbers, zeros, infinities and NaN.
    limits: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A sequence of tensors."""

    items: tuple[Given, ...]


class Nothing:
    """An optional without a value, which is an input that is there; None stands for one that is left out."""


NOTHING = Nothing()

#: A tuple is a shape, whose elements are drawn. Lists, maps, numbers, strings and arrays are values as they are.
Given: TypeAlias = (
    "Shape | Drawn | Items | Nothing | list[Any] | dict[Any, Any] | bool | int | float | str | Array | None"
)


def value_of(given: Given, type_: str, name: str, drawn: Drawn) -> Value:
    """The value for an input of this type, in ONNX's words. The name is what the generator begins at."""
    if isinstance(given, Nothing):
        return None
    if isinstance(given, dict):
        return {key: _array_of(each, type_, name, drawn).item() for key, each in given.items()}
    if isinstance(given, Items):
        return [_array_of(item, type_, f"{name}.{number}", drawn) for number, item in enumerate(given.items)]
    array = _array_of(given, type_, name, drawn)
    return [array] if is_sequence(type_) else array


def map_arrays(function: Callable[[Array], Any], value: Any) -> Any:
    """The value with the function applied to each array in it."""
    if value is None or isinstance(value, dict):
        return value
    return [function(item) for item in value] if isinstance(value, list) else function(value)


def describe(given: Given) -> str:
    """What an id says of an input."""
    if given is None or isinstance(given, Nothing):
        return "none" if given is None else "nothing"
    if isinstance(given, Drawn):
        if given.values:
            return shortened(np.resize(given.values, given.shape))
        return describe(given.shape) + ".limits" * given.limits
    if isinstance(given, Items):
        return "seq." + ".".join(map(describe, given.items))
    if isinstance(given, dict):
        return "map." + ".".join(f"{key}={describe(each)}" for key, each in given.items())
    if isinstance(given, tuple):
        return "x".join(map(str, given)) or "scalar"
    return shortened(np.asarray(given, object if isinstance(given, str) else None))


def shortened(values: Array) -> str:
    """The elements of an array, or its shape and a digest if they are many."""
    text = ",".join(str(each) for each in values.ravel().tolist())
    if values.ndim < 2 and len(text) <= _SHOWN and re.fullmatch(r"[\w.,+-]+", text, re.ASCII):
        return text
    return "x".join(map(str, values.shape)) + "." + hashlib.sha256(text.encode()).hexdigest()[:6]


def _array_of(given: Any, type_: str, name: str, drawn: Drawn) -> Array:
    dtype, element = dtype_of(type_), element_of(type_)
    if isinstance(given, tuple):
        given = replace(drawn, shape=given)
    if not isinstance(given, Drawn) and element == "string":
        return np.array([str(each) for each in np.ravel(given)], object).reshape(np.shape(given))
    if not isinstance(given, Drawn):
        return _narrowed(np.asarray(given), dtype)
    if given.limits and dtype.kind not in "bOc":
        return np.resize(_limits_of(dtype), given.shape)
    size = int(np.prod(given.shape, dtype=np.int64))
    low, high = (own if own is not None else usual for own, usual in
                 ((given.low, drawn.low), (given.high, drawn.high)))  # fmt: skip
    assert low is not None
    assert high is not None
    shares = draw_shares(name, size)
    if element == "string":
        return np.array([_WORDS[int(share * len(_WORDS))] for share in shares], object).reshape(given.shape)
    if element == "bool":
        return np.array([share >= 0.5 for share in shares], bool).reshape(given.shape)
    values: Sequence[float] = [low + (high - low) * share for share in shares]
    if given.values:
        values = list(itertools.islice(itertools.cycle(given.values), size))
    if element.startswith("complex"):
        parts = [low + (high - low) * share for share in draw_shares(f"{name}.imaginary", size)]
        return (np.array(values) + 1j * np.array(parts)).astype(dtype).reshape(given.shape)
    if given.whole:
        values = [float(np.floor(value)) for value in values]
    elif "int" in element:
        values = [float(int(value)) for value in values]
    if element.startswith("uint") or element == "float8e8m0":
        values = [abs(value) for value in values]
    return _narrowed(np.array(values, np.float64), dtype).reshape(given.shape)


def _limits_of(dtype: np.dtype[Any]) -> Array:
    if "int" in dtype.name:
        whole = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
        return np.array(sorted({whole.min, max(whole.min, -1), 0, 1, whole.max}), dtype)
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    each = np.array([0.0, 1.0, info.smallest_subnormal, info.smallest_normal, info.max, np.inf], np.float64)
    return np.array([*each, *-each, np.nan]).astype(dtype)


def _narrowed(values: Array, dtype: np.dtype[Any]) -> Array:
    """The values in a dtype; those of integers of 2 and 4 bits are brought into their range first."""
    limits = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}.get(dtype.name)
    with np.errstate(all="ignore"):
        return (np.clip(values, *limits) if limits else values).astype(dtype)


def draw_shares(name: str, number: int) -> list[float]:
    """Numbers in [0, 1), of 24 bits each: SplitMix64, begun at the SHA-256 of a name."""
    mask = 2**64 - 1
    state = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    drawn = []
    for _ in range(number):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        drawn.append(((mixed ^ (mixed >> 31)) >> 40) / 2**24)
    return drawn

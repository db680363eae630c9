"""Wrong outputs of a runtime, each with the right one. The oracle has to detect all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnx_parity.exporter.arrays import Array
from onnx_parity.exporter.verification.oracle import Expected, expect

Answer = tuple[Sequence[object], Sequence[Expected]]


def floats(random: np.random.Generator) -> Array:
    """Numbers of one to a hundred, so that half of one is never within a tolerance."""
    shape = tuple(random.integers(2, 6, size=3))
    signs = 2 * random.integers(0, 2, shape) - 1
    return np.asarray(random.uniform(1.0, 100.0, shape) * signs, np.float32)


def expected(value: Array) -> list[Expected]:
    return [expect(value, value.astype(np.float64))]


def with_one(value: Array, random: np.random.Generator, to: object) -> Array:
    """The array with one of its elements another one."""
    changed = value.copy()
    changed.flat[random.integers(value.size)] = to
    return changed


def one_wrong_element(random: np.random.Generator) -> Answer:
    value = floats(random)
    return [with_one(value, random, np.float32(0.5))], expected(value)


def wrong_dtype(random: np.random.Generator) -> Answer:
    value = floats(random)
    return [value.astype(("float16", "float64", "int64")[random.integers(3)])], expected(value)


def broadcastable_shape(random: np.random.Generator) -> Answer:
    value = floats(random)[:1]
    return [np.broadcast_to(value, (3, *value.shape[1:])).copy()], expected(value)


def missing_output(random: np.random.Generator) -> Answer:
    first, second = floats(random), floats(random)
    return [first], [*expected(first), *expected(second)]


def nan_for_a_number(random: np.random.Generator) -> Answer:
    value = floats(random)
    return [with_one(value, random, np.nan)], expected(value)


def number_for_an_infinity(random: np.random.Generator) -> Answer:
    value = floats(random)
    return [value], expected(with_one(value, random, np.inf))


def sign_of_a_zero(random: np.random.Generator) -> Answer:
    value = floats(random)
    place = random.integers(value.size)
    right, wrong = value.copy(), value.copy()
    right.flat[place], wrong.flat[place] = 0.0, -0.0
    return [wrong], expected(right)


def one_unit_of_an_exact_result(random: np.random.Generator) -> Answer:
    """Where no rounding is allowed, the next number is wrong."""
    value = floats(random)
    place = random.integers(value.size)
    nearby = value.copy()
    nearby.flat[place] = np.nextafter(value.flat[place], np.float32(np.inf))
    return [nearby], [expect(value, value.astype(np.float64), declared=1e-12)]


def wrapped_uint8(random: np.random.Generator) -> Answer:
    value = random.integers(0, 256, size=20, dtype=np.uint8)
    value[random.integers(value.size)] = 255
    saturated = np.minimum(value.astype(np.int64) + 1, 255).astype(np.uint8)
    return [value + np.uint8(1)], [expect(saturated, None)]


#: By the words that a report of them uses.
WRONG: dict[str, Callable[[np.random.Generator], Answer]] = {
    "one wrong element": one_wrong_element,
    "a wrong dtype": wrong_dtype,
    "a broadcastable wrong shape": broadcastable_shape,
    "a missing output": missing_output,
    "NaN for a number": nan_for_a_number,
    "a number for an infinity": number_for_an_infinity,
    "the sign of a zero": sign_of_a_zero,
    "one unit in the last place": one_unit_of_an_exact_result,
    "uint8 wrapped around": wrapped_uint8,
}


def right_answer(random: np.random.Generator) -> Answer:
    """What must pass: the same bits, and an empty tensor among them."""
    value, empty = floats(random), np.zeros((0, *random.integers(1, 4, size=2)), np.float32)
    return [value.copy(), empty.copy()], [*expected(value), *expected(empty)]

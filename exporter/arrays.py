"""Converts between torch tensors and numpy arrays, of all dtypes; units in the last place of floating dtypes."""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import torch

#: `numpy.typing.NDArray`, without the import, which is slow.
Array: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[Any]]
#: The value of an input for a runtime: a list for a sequence, None for an optional without a value.
Fed: TypeAlias = Array | list[Array] | None
Float64Array: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Mask: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

#: The dtypes that numpy lacks, which are those of ml_dtypes.
_LACKING = {
    torch.bfloat16: BFLOAT16,
    torch.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    torch.float8_e4m3fnuz: np.dtype(ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    torch.float8_e5m2fnuz: np.dtype(ml_dtypes.float8_e5m2fnuz),
    torch.float8_e8m0fnu: np.dtype(ml_dtypes.float8_e8m0fnu),
}
_TO_TORCH = {array_dtype: dtype for dtype, array_dtype in _LACKING.items()}
#: Integers of the same widths, by the number of bytes.
_BITS = {1: (torch.uint8, np.dtype(np.uint8)), 2: (torch.int16, np.dtype(np.int16))}

EIGHT_BITS = frozenset(array_dtype for array_dtype in _TO_TORCH if array_dtype.itemsize == 1)

#: For each dtype, the bits of the significand with the hidden one, and the exponent of the smallest positive number.
_FORMATS = {
    np.dtype(np.float16): (11, -24),
    BFLOAT16: (8, -133),
    _LACKING[torch.float8_e4m3fn]: (4, -9),
    _LACKING[torch.float8_e4m3fnuz]: (4, -10),
    _LACKING[torch.float8_e5m2]: (3, -16),
    _LACKING[torch.float8_e5m2fnuz]: (3, -17),
    _LACKING[torch.float8_e8m0fnu]: (1, -127),
    np.dtype(np.float32): (24, -149),
    np.dtype(np.float64): (53, -1074),
}


def to_array(tensor: torch.Tensor) -> Array:
    """The tensor as a numpy array. numpy itself has no bfloat16 or float8: the dtypes of ml_dtypes are used.

    Complex numbers become pairs, as in an exported model.
    """
    plain = in_pairs(tensor.detach()).resolve_neg().cpu().contiguous()
    lacking = _LACKING.get(plain.dtype)
    if lacking is not None:
        return plain.view(_BITS[lacking.itemsize][0]).numpy().view(lacking)
    return plain.numpy()


def in_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor as it is in an exported model, as pairs of reals on a last axis of 2; any other as it is."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def in_width(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A floating tensor in a dtype, and a complex one with parts of that dtype; any other as it is."""
    if tensor.is_complex():
        return tensor.to(dtype.to_complex())
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def to_fed(given: torch.Tensor | list[torch.Tensor] | None) -> Fed:
    """The value of an input as runtimes take it: a list for a sequence, None for an optional without a value."""
    if given is None:
        return None
    return [to_array(item) for item in given] if isinstance(given, list) else to_array(given)


def to_tensor(array: object) -> torch.Tensor:
    """An array, or the number that numpy gives in place of a scalar array, as a tensor with memory of its own."""
    return as_tensor(np.array(array))


def as_tensor(array: object) -> torch.Tensor:
    """The same, as a tensor that shares the memory of the array."""
    plain = np.asarray(array)
    if plain.dtype == np.ulonglong:
        # One of two types of numpy with this dtype, of which torch knows the other.
        plain = plain.view(np.uint64)
    lacking = _TO_TORCH.get(plain.dtype)
    if lacking is not None:
        return torch.from_numpy(plain.view(_BITS[plain.itemsize][1])).view(lacking)
    return torch.from_numpy(plain)


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype in _FORMATS


def epsilon(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next larger number of the dtype."""
    return 2.0 ** (1 - _FORMATS[dtype][0])


def ulp(values: Float64Array, dtype: np.dtype[Any]) -> Float64Array:
    """One unit in the last place of `dtype` at each value, never less than the smallest positive number of `dtype`."""
    bits, smallest = _FORMATS[dtype]
    _, exponent = np.frexp(values)
    # frexp returns the exponent 0 for zero, the same as for a half.
    unit: Float64Array = np.ldexp(1.0, np.where(values == 0.0, smallest, np.maximum(exponent - bits, smallest)))
    return unit

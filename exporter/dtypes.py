"""The correspondence between torch's dtypes and ONNX's, and torch's rules of type promotion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import c_float
from functools import cache
from typing import TypeVar

import onnx_ir as ir
import torch

from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.graph.graph import Holds, Varying

__all__ = [
    "FLOAT8",
    "TENSOR_TYPES",
    "TO_ONNX",
    "TO_TORCH",
    "extremes",
    "fits_attribute",
    "is_floating",
    "represents",
    "result_dtype",
    "saturates",
    "type_of",
]

_Type = TypeVar("_Type")


class _ByDtype(dict[torch.dtype, _Type]):
    """The ONNX dtypes of torch's dtypes. An operator is refused if a dtype has none."""

    def __missing__(self, dtype: torch.dtype) -> _Type:
        raise Unsupported(f"{dtype} is not exported: compute in another dtype, such as torch.float32")


TO_ONNX: _ByDtype[ir.DataType] = _ByDtype(
    {
        torch.float32: ir.DataType.FLOAT,
        torch.float64: ir.DataType.DOUBLE,
        torch.float16: ir.DataType.FLOAT16,
        torch.bfloat16: ir.DataType.BFLOAT16,
        torch.int64: ir.DataType.INT64,
        torch.int32: ir.DataType.INT32,
        torch.int16: ir.DataType.INT16,
        torch.int8: ir.DataType.INT8,
        torch.uint8: ir.DataType.UINT8,
        torch.uint16: ir.DataType.UINT16,
        torch.uint32: ir.DataType.UINT32,
        torch.uint64: ir.DataType.UINT64,
        torch.float8_e4m3fn: ir.DataType.FLOAT8E4M3FN,
        torch.float8_e4m3fnuz: ir.DataType.FLOAT8E4M3FNUZ,
        torch.float8_e5m2: ir.DataType.FLOAT8E5M2,
        torch.float8_e5m2fnuz: ir.DataType.FLOAT8E5M2FNUZ,
        torch.float8_e8m0fnu: ir.DataType.FLOAT8E8M0,
        torch.bool: ir.DataType.BOOL,
        torch.complex64: ir.DataType.COMPLEX64,
        torch.complex128: ir.DataType.COMPLEX128,
    }
)
#: Floats of 8 bits, which ONNX has from opset 19 on.
FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz})
TO_TORCH: dict[ir.DataType, torch.dtype] = {onnx: dtype for dtype, onnx in TO_ONNX.items()}
TENSOR_TYPES: _ByDtype[ir.TensorType] = _ByDtype({dtype: ir.TensorType(onnx) for dtype, onnx in TO_ONNX.items()})


def type_of(dtype: torch.dtype, holds: Holds) -> ir.TypeProtocol:
    """The ONNX type of a tensor, a sequence or an optional of a dtype."""
    tensor = TENSOR_TYPES[dtype]
    if holds in (Holds.TENSOR, Holds.ANY_RANK):
        return tensor
    return ir.SequenceType(tensor) if holds.is_list else ir.OptionalType(tensor)


def is_floating(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def fits_attribute(number: float, dtype: torch.dtype) -> bool:
    """Whether a number can be a float attribute of an operator of this dtype without loss. (ONNX has float32 there.)"""
    return dtype is not torch.float64 or c_float(number).value == number


@cache
def saturates(dtype: torch.dtype) -> bool:
    """Whether torch, of this version, converts what is too large for a float of 8 bits to the largest number.

    It converts it to an infinity or NaN otherwise.
    """
    return bool(torch.tensor(math.inf).to(dtype).float().isfinite())


def extremes(dtype: torch.dtype) -> tuple[int | float, int | float]:
    """The lowest and the highest value of a dtype, which may be infinite."""
    if dtype.is_floating_point:
        return float("-inf"), float("inf")
    if dtype is torch.bool:
        return False, True
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def _category(dtype: torch.dtype) -> int:
    """0 for bool, 1 for integers, 2 for floats, 3 for complex."""
    if dtype.is_complex:
        return 3
    if dtype.is_floating_point:
        return 2
    return 0 if dtype is torch.bool else 1


def result_dtype(tensors: Sequence[tuple[torch.dtype, int]], numbers: Sequence[complex | Varying] = ()) -> torch.dtype:
    """`torch.result_type` over (dtype, rank) pairs and Python numbers.

    Tensors with dimensions determine the dtype; 0-d tensors and then numbers only if their category is higher.
    """
    groups: list[torch.dtype | None] = [None, None, None]

    def add(group: int, dtype: torch.dtype) -> None:
        before = groups[group]
        groups[group] = dtype if before is None else torch.promote_types(before, dtype)

    for dtype, rank in tensors:
        add(0 if rank else 1, dtype)
    for number in numbers:
        if isinstance(number, (bool, torch.SymBool)):
            add(2, torch.bool)
        elif isinstance(number, (int, torch.SymInt)):
            add(2, torch.int64)
        elif isinstance(number, complex):
            add(2, torch.complex64)
        else:
            add(2, torch.get_default_dtype())
    result: torch.dtype | None = None
    for found in groups:
        if found is not None and (result is None or _category(found) > _category(result)):
            result = found
    assert result is not None
    return result


def represents(dtype: torch.dtype, number: float) -> bool:
    """Whether a model may compute with a number in a dtype of 16 bits: float16 has none near 1e5 or 1e-8.

    A number of float16 may be rounded. One of bfloat16 has to be the same, since models compute that in float32.
    """
    nearest = torch.tensor(number, dtype=torch.float64).to(dtype).item()
    is_rounded = dtype is torch.float16 and abs(nearest - number) <= torch.finfo(dtype).eps * abs(number)
    return nearest == number or is_rounded

"""Chooses the dtype in which an ONNX operator is computed: that of the tensors, or a wider one that is supported."""

from __future__ import annotations

import torch

from onnx_parity.exporter.dtypes import FLOAT8
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.schema.runtime_kernels import kernel_dtypes
from onnx_parity.exporter.lowering.schema.signatures import Signature, signature
from onnx_parity.exporter.request.opsets import OPSETS

__all__ = ["compute_dtype", "has_kernel", "not_taken"]

#: For each dtype, the wider ones that have all of its values, in order of preference.
_WIDER: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.bool: (torch.int32, torch.int64),
    torch.uint8: (torch.int32, torch.int64),
    torch.int8: (torch.int32, torch.int64),
    torch.int16: (torch.int32, torch.int64),
    torch.int32: (torch.int64,),
    torch.float16: (torch.float32, torch.float64),
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
    **dict.fromkeys(FLOAT8, (torch.float32,)),
}
#: Operators that compare or select: they may be computed in floats that have all values of an integer dtype.
_EXACT_IN_FLOAT = frozenset(
    {"Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", "Max", "Min", "Abs", "Sign", "Relu"}
)
_EXACT_FLOAT: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.bool: (torch.float32,),
    torch.uint8: (torch.float32,),
    torch.int8: (torch.float32,),
    torch.int16: (torch.float32,),
    torch.int32: (torch.float64,),
}


def compute_dtype(sig: Signature, type_name: str, dtype: torch.dtype, opset: int) -> torch.dtype:
    """The dtype in which an operator is computed for tensors of `dtype`: that dtype, or one that has all its values.

    It is the first that both the specification and onnxruntime support, or else the first that the specification does.
    Raises `Unsupported` if there is none.
    """
    allowed = sig.allowed[type_name]
    run = kernel_dtypes(sig.op, type_name, opset)
    if dtype in allowed and (run is None or dtype in run):
        return dtype
    # A Cast that does not take the dtype cannot be computed in a wider one, because that needs a Cast.
    candidates = (dtype, *(_WIDER.get(dtype, ()) if sig.op != "Cast" else ()))
    if sig.op in _EXACT_IN_FLOAT:
        candidates += _EXACT_FLOAT.get(dtype, ())
    for acceptable in (allowed & run, allowed) if run is not None else (allowed,):
        for candidate in candidates:
            if candidate in acceptable:
                return candidate
    raise not_taken(sig, type_name, dtype, opset)


def has_kernel(op: str, dtype: torch.dtype, opset: int, type_name: str = "T") -> bool:
    """Whether ONNX has the operator at an opset and onnxruntime a kernel, for the dtype or a wider one."""
    try:
        chosen = compute_dtype(signature(op, opset), type_name, dtype, opset)
    except Unsupported:
        return False
    run = kernel_dtypes(op, type_name, opset)
    return run is None or chosen in run


def not_taken(sig: Signature, type_name: str, dtype: torch.dtype, opset: int) -> Unsupported:
    """The error for a dtype that an operator does not take, with the first opset at which it does."""
    for later in range(opset + 1, OPSETS.stop):
        if dtype in signature(sig.op, later).allowed.get(type_name, ()):
            return Unsupported(f"ONNX's {sig.op} does not take {dtype} at opset {opset}", since=later)
    return Unsupported(f"ONNX's {sig.op} does not take {dtype}")

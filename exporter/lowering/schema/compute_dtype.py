"""The dtype that an operator is computed in: the tensors' own, or a wider one that ONNX and onnxruntime take there."""

from __future__ import annotations

import torch

from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.schema.runtime_kernels import kernel_dtypes
from onnx_parity.exporter.lowering.schema.signatures import Signature, signature
from onnx_parity.exporter.request.opsets import OPSETS

__all__ = ["carrier", "not_taken", "runs"]

#: Where an operator does not take a dtype: the wider ones that hold all its values, in order of preference.
_WIDER: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.bool: (torch.int32, torch.int64),
    torch.uint8: (torch.int32, torch.int64),
    torch.int8: (torch.int32, torch.int64),
    torch.int16: (torch.int32, torch.int64),
    torch.int32: (torch.int64,),
    torch.float16: (torch.float32, torch.float64),
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
}
#: Operators that only compare or select: for them integers may travel as floats that hold them exactly.
_EXACT_IN_FLOAT = frozenset(
    {"Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", "Max", "Min", "Abs", "Sign", "Relu"}
)
_FLOAT_HOLDING: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.bool: (torch.float32,),
    torch.uint8: (torch.float32,),
    torch.int8: (torch.float32,),
    torch.int16: (torch.float32,),
    torch.int32: (torch.float64,),
}


def carrier(sig: Signature, type_name: str, dtype: torch.dtype, opset: int) -> torch.dtype:
    """The dtype in which to compute the operator at an opset: `dtype`, or one that holds all its values.

    The first that both the specification and onnxruntime take; else the first that the specification takes.
    """
    allowed = sig.allowed[type_name]
    run = kernel_dtypes(sig.op, type_name, opset)
    if dtype in allowed and (run is None or dtype in run):
        return dtype
    # A Cast that cannot read the dtype has nothing wider to go through: that would take a Cast.
    candidates = (dtype, *(_WIDER.get(dtype, ()) if sig.op != "Cast" else ()))
    if sig.op in _EXACT_IN_FLOAT:
        candidates += _FLOAT_HOLDING.get(dtype, ())
    for acceptable in (allowed & run, allowed) if run is not None else (allowed,):
        for candidate in candidates:
            if candidate in acceptable:
                return candidate
    raise not_taken(sig, type_name, dtype, opset)


def runs(op: str, dtype: torch.dtype, opset: int, type_name: str = "T") -> bool:
    """Whether ONNX has the operator for the dtype at an opset, and onnxruntime a kernel, maybe for a wider one."""
    try:
        chosen = carrier(signature(op, opset), type_name, dtype, opset)
    except Unsupported:
        return False
    run = kernel_dtypes(op, type_name, opset)
    return run is None or chosen in run


def not_taken(sig: Signature, type_name: str, dtype: torch.dtype, opset: int) -> Unsupported:
    for later in range(opset + 1, OPSETS.stop):
        if dtype in signature(sig.op, later).allowed.get(type_name, ()):
            return Unsupported(f"ONNX's {sig.op} does not take {dtype} at opset {opset}", since=later)
    return Unsupported(f"ONNX's {sig.op} does not take {dtype}")

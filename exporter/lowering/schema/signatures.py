"""The signature of an ONNX operator at an opset: its type constraints as torch dtypes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import msgspec
import onnx.defs
import torch

from onnx_parity.exporter.errors import Unsupported

__all__ = ["POINTWISE", "Signature", "is_known", "signature"]

#: Operators whose result has the broadcast shape of the inputs.
POINTWISE = frozenset(
    (
        "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitwiseAnd", "BitwiseNot",
        "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp",
        "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "Identity", "IsInf", "IsNaN", "LeakyRelu",
        "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal",
        "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Sqrt", "Sub", "Tan", "Tanh", "Where",
        "Xor",
    )
)  # fmt: skip

_FROM_STRING: dict[str, torch.dtype] = {
    "tensor(float)": torch.float32,
    "tensor(double)": torch.float64,
    "tensor(float16)": torch.float16,
    "tensor(bfloat16)": torch.bfloat16,
    "tensor(int64)": torch.int64,
    "tensor(int32)": torch.int32,
    "tensor(int16)": torch.int16,
    "tensor(int8)": torch.int8,
    "tensor(uint8)": torch.uint8,
    "tensor(uint16)": torch.uint16,
    "tensor(uint32)": torch.uint32,
    "tensor(uint64)": torch.uint64,
    "tensor(float8e4m3fn)": torch.float8_e4m3fn,
    "tensor(float8e4m3fnuz)": torch.float8_e4m3fnuz,
    "tensor(float8e5m2)": torch.float8_e5m2,
    "tensor(float8e5m2fnuz)": torch.float8_e5m2fnuz,
    "tensor(bool)": torch.bool,
    "tensor(complex64)": torch.complex64,
    "tensor(complex128)": torch.complex128,
}


class Signature(msgspec.Struct, frozen=True):
    """Inputs and outputs with the same type constraint (`T`) have one dtype."""

    op: str
    since_version: int
    inputs: tuple[str, ...]
    #: Whether the last input stands for any number of inputs.
    variadic_input: bool
    #: Whether the inputs of the variadic parameter may have different types.
    heterogeneous: bool
    outputs: tuple[str, ...]
    allowed: dict[str, frozenset[torch.dtype]]

    def input_type(self, position: int) -> str:
        return self.inputs[min(position, len(self.inputs) - 1)]

    def output_type(self, position: int) -> str:
        return self.outputs[min(position, len(self.outputs) - 1)]

    def fixed(self, type_name: str) -> torch.dtype | None:
        """The dtype of a type constraint that allows only one, else None."""
        allowed = self.allowed[type_name]
        return next(iter(allowed)) if len(allowed) == 1 else None


@cache
def signature(op: str, opset: int) -> Signature:
    """The signature of an operator at an opset. Raises `Unsupported` with the first opset that has the operator.

    A name that no opset has is a mistake in the lowering, not a limit of ONNX: it raises `TypeError`.
    """
    try:
        schema = onnx.defs.get_schema(op, opset)
    except onnx.defs.SchemaError:
        raise _missing(op) from None
    if schema.deprecated:
        raise Unsupported(f"ONNX removed {op} in opset {schema.since_version}: use the operator that replaces it")
    allowed = {
        constraint.type_param_str: _dtypes(constraint.allowed_type_strs) for constraint in schema.type_constraints
    }
    for parameter in (*schema.inputs, *schema.outputs):
        allowed.setdefault(parameter.type_str, _dtypes([parameter.type_str]))
    last = schema.inputs[-1] if schema.inputs else None
    variadic = last is not None and last.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return Signature(
        op=op,
        since_version=schema.since_version,
        inputs=tuple(parameter.type_str for parameter in schema.inputs),
        variadic_input=variadic,
        heterogeneous=last is not None and variadic and not last.is_homogeneous,
        outputs=tuple(parameter.type_str for parameter in schema.outputs),
        allowed=allowed,
    )


def _dtypes(strings: Iterable[str]) -> frozenset[torch.dtype]:
    return frozenset(_FROM_STRING[string] for string in strings if string in _FROM_STRING)


def is_known(op: str) -> bool:
    """Whether ONNX has the operator at any opset."""
    return bool(onnx.defs.has(op))


def _missing(op: str) -> Unsupported | TypeError:
    for opset in range(1, onnx.defs.onnx_opset_version() + 1) if is_known(op) else ():
        try:
            first = onnx.defs.get_schema(op, opset)
        except onnx.defs.SchemaError:
            continue
        if not first.deprecated:
            return Unsupported(f"ONNX has {op} only from opset {first.since_version}", since=first.since_version)
    return TypeError(
        f"ONNX has no operator {op}: check its name; an operator of another domain is written 'my_domain::{op}'"
    )

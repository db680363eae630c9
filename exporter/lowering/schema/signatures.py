"""The signature of an ONNX operator at an opset: its type constraints as torch dtypes."""

from __future__ import annotations

from functools import cache

import msgspec
import torch

from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.lowering.schema.signature_table import versions

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
    known = versions(op)
    if not known:
        raise TypeError(
            f"ONNX has no operator {op}: check its name; an operator of another domain is written 'my_domain::{op}'"
        )
    version = next((version for version in reversed(known) if version.since <= opset), None)
    if version is None:
        first = next(version.since for version in known if not version.deprecated)
        raise Unsupported(f"ONNX has {op} only from opset {first}", since=first)
    if version.deprecated:
        raise Unsupported(f"ONNX removed {op} in opset {version.since}: use the operator that replaces it")
    return Signature(
        op=op,
        since_version=version.since,
        inputs=version.inputs,
        variadic_input=version.variadic,
        heterogeneous=version.heterogeneous,
        outputs=version.outputs,
        allowed=version.allowed(),
    )


def is_known(op: str) -> bool:
    """Whether ONNX has the operator at any opset."""
    return bool(versions(op))

"""Why operators have no lowering, where there is more to say than that."""

from __future__ import annotations

from onnx_parity.exporter.registry.lowerings import meant_by

__all__ = ["why_not"]

_STRIDED = "the order of its elements in memory is not known: call contiguous() before it, or use slices or unfold"
_REASONS = {
    "aten::as_strided of complex numbers": _STRIDED,
    "aten::as_strided_copy of complex numbers": _STRIDED,
    "aten::as_strided_scatter of complex numbers": _STRIDED,
}


def why_not(operator: str) -> str:
    """The reason for which an operator without a lowering is refused, by its name without the overload."""
    if operator in _REASONS:
        return _REASONS[operator]
    if "int4pack" in operator or "_4bit" in operator:
        return (
            "it packs integers of 4 bits in an order that depends on the processor, or is of another device: give the "
            "program plain integers and their scales, as quantized_decomposed's dequantize operators take them"
        )
    if operator.endswith("_backward"):
        return "autograd calls it to differentiate an operator, and there is no lowering for it"
    if misspelt := meant_by(operator):
        return f"there is no lowering for it, but one is registered for {misspelt!r}, and there is no such operator"
    return "there is no lowering for it"

"""Why operators have no lowering, where there is more to say than that."""

from __future__ import annotations

__all__ = ["why_not"]

_REASONS = {
    "aten::linalg_eig of complex numbers": (
        "the eigenvalues of real matrices are exported, and not those of complex ones: use real matrices"
    ),
    "aten::_to_dense": "it makes a sparse tensor dense, and ONNX has no sparse tensors: use a dense one throughout",
}


def why_not(operator: str) -> str:
    """The reason for which an operator without a lowering is refused, by its name without the overload."""
    if operator in _REASONS:
        return _REASONS[operator]
    if "sparse" in operator:
        return "ONNX has no operators for sparse tensors: use dense ones, and make them so outside of the program"
    if operator.endswith("_backward"):
        return "autograd calls it to differentiate an operator, and there is no lowering for it"
    return "there is no lowering for it"

"""Products of nested tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.kinds.nested.jagged import Jagged
from onnx_parity.exporter.kinds.nested.nested import Function, Nested, refused
from onnx_parity.exporter.kinds.nested.strided import Strided


@Jagged.rule("linear")
@Strided.rule("linear")
def _linear(func: Function, nt: Any, weight: Any, bias: Any = None) -> Nested:
    if not isinstance(nt, Nested) or (isinstance(nt, Jagged) and nt._ragged_idx == nt.ndim - 1):
        raise refused("linear along its ragged axis, or as the weight")
    return nt.apply(F.linear, weight, bias)


@Jagged.rule("rmatmul")
def _reversed_matmul(func: Function, nt: Jagged, other: Any) -> Any:
    return _matmul_jagged(func, other, nt)


@Jagged.rule("matmul", "bmm")
def _matmul_jagged(func: Function, a: Any, b: Any) -> Any:
    if isinstance(a, Jagged) and isinstance(b, Jagged):
        if not a.has_rows_of(b):
            raise refused("matmul with one that was made of other offsets")
        if a._ragged_idx == b._ragged_idx and a._ragged_idx < min(a.ndim, b.ndim) - 2:
            return a.alike(a.values() @ b.values())
        if a.ndim == b.ndim and a._ragged_idx == a.ndim - 1 and b._ragged_idx == b.ndim - 2:
            longest = a.longest()
            return a.padded(0, longest) @ b.padded(0, longest)
    elif isinstance(a, Jagged) and a._ragged_idx < a.ndim - 1 and b.ndim >= 2:
        if b.ndim == 2:
            return a.alike(a.values() @ b)
        if a.ndim == b.ndim:
            return a.of_batch(a.padded(0, a.longest()) @ b)
    elif isinstance(b, Jagged) and not isinstance(a, Jagged) and b._ragged_idx not in (1, b.ndim - 2) and a.ndim >= 2:
        if a.ndim == 2:
            return b.alike(a @ b.values())
        if a.ndim == b.ndim:
            return b.of_batch(a @ b.padded(0, b.longest()))
    shapes = " and ".join(str(tuple(each.shape)) for each in (a, b))
    raise refused_here(
        f"the program multiplies matrices of the shapes {shapes}, which torch does not for nested tensors, or for "
        "which the exporter has no rule: use nt.to_padded_tensor(0.0)"
    )


@Strided.rule("matmul", "bmm")
def _matmul_strided(func: Function, a: Any, b: Any) -> Strided:
    if not (isinstance(a, Strided) and (isinstance(b, Strided) or b.ndim == 2)):
        raise refused("matmul with a dense tensor of other than two axes")
    return a.each(torch.matmul, a, b)

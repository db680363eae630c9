"""Embeddings of nested tensors."""

from __future__ import annotations

from typing import Any

from onnx_parity.exporter.kinds.nested.jagged import Jagged
from onnx_parity.exporter.kinds.nested.nested import Function, Nested
from onnx_parity.exporter.kinds.nested.strided import Strided


@Jagged.rule("embedding")
@Strided.rule("embedding")
def _embedding(func: Function, nt: Any, weight: Any, *args: Any, **options: Any) -> Nested:
    # ATen's own operator has the weights first.
    if isinstance(weight, Nested):
        return weight.apply(lambda indices: func(nt, indices, *args, **options))
    return nt.apply(func, weight, *args, **options)  # type: ignore[no-any-return]

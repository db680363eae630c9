"""Choices among the elements of nested tensors."""

from __future__ import annotations

from typing import Any

from onnx_parity.exporter.kinds.nested.jagged import Jagged
from onnx_parity.exporter.kinds.nested.nested import Function, refused


@Jagged.rule("where")
def _where(func: Function, *args: Any) -> Any:
    if len(args) == 1:
        raise refused("where with a condition alone")
    nt = next(each for each in args if isinstance(each, Jagged))
    return nt.pointwise(func, args, {})

"""The places of the elements of complex tensors that are not zero."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.kinds.complex_arithmetic import is_not_zero
from onnx_parity.exporter.kinds.complex_parts import Parts, complex_of

_aten = torch.ops.aten


@complex_of("aten::nonzero")
def nonzero(x: Parts) -> Any:
    return _aten.nonzero.default(is_not_zero(x))


@complex_of("aten::nonzero_static")
def nonzero_static(x: Parts, *, size: int, fill_value: int = -1) -> Any:
    return _aten.nonzero_static.default(is_not_zero(x), size=size, fill_value=fill_value)

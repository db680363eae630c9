"""Patches the functions that make nested tensors: torch's own cannot be recorded, so a `Nested` is made."""

from __future__ import annotations

import torch.nested._internal.nested_tensor

from onnx_parity.exporter.capture.nested_tensors import construction
from onnx_parity.exporter.capture.patches.patch import FunctionCode, Patch

__all__ = ["PATCHES"]

#: What torch makes jagged nested tensors with, and libraries too.
_internal = torch.nested._internal.nested_tensor

PATCHES: tuple[Patch, ...] = (
    FunctionCode(lambda: torch.nested.nested_tensor, construction.nested_tensor),
    FunctionCode(lambda: torch.nested.as_nested_tensor, construction.as_nested_tensor),
    FunctionCode(lambda: torch.nested.nested_tensor_from_jagged, construction.nested_tensor_from_jagged),
    FunctionCode(lambda: torch.nested.narrow, construction.narrow),
    FunctionCode(lambda: torch.nested.masked_select, construction.masked_select),
    FunctionCode(lambda: _internal.nested_from_padded, construction.nested_from_padded),
    FunctionCode(lambda: _internal.nested_view_from_values_offsets, construction.nested_view),
    FunctionCode(lambda: _internal.nested_view_from_values_offsets_lengths, construction.nested_view_with_lengths),
)

"""Patches the functions that make nested tensors: torch's own cannot be recorded, so a `Nested` is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.patch import FunctionCode, Patch
from onnx_parity.exporter.torch_inside.tensors import nested_tensors

__all__ = ["PATCHES"]

asks_for_its_caller(__file__)


def _ours(name: str) -> Callable[..., Any]:
    """A function of `construction`, which is imported by the first call: few programs have nested tensors."""

    def construct(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        from onnx_parity.exporter.kinds.nested import construction

        return getattr(construction, name)(torchs, *args, **kwargs)

    return construct


PATCHES: tuple[Patch, ...] = (
    FunctionCode(lambda: torch.nested.nested_tensor, _ours("nested_tensor")),
    FunctionCode(lambda: torch.nested.as_nested_tensor, _ours("as_nested_tensor")),
    FunctionCode(lambda: torch.nested.nested_tensor_from_jagged, _ours("nested_tensor_from_jagged")),
    FunctionCode(lambda: torch.nested.narrow, _ours("narrow")),
    FunctionCode(lambda: torch.nested.masked_select, _ours("masked_select")),
    FunctionCode(lambda: nested_tensors.nested_from_padded, _ours("nested_from_padded")),
    FunctionCode(lambda: nested_tensors.nested_view_from_values_offsets, _ours("nested_view")),
    FunctionCode(lambda: nested_tensors.nested_view_from_values_offsets_lengths, _ours("nested_view_with_lengths")),
)

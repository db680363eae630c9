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

#: The functions that make nested tensors. Those of the second module are called by torch's others, and by libraries.
_FUNCTIONS = {
    torch.nested: ("nested_tensor", "as_nested_tensor", "nested_tensor_from_jagged", "narrow", "masked_select"),
    nested_tensors: (
        "nested_from_padded", "nested_view_from_values_offsets", "nested_view_from_values_offsets_lengths",
    ),
}  # fmt: skip


def _ours(name: str) -> Callable[..., Any]:
    """What is registered for the function, which is imported by the first call: few programs have nested tensors."""

    def construct(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        from onnx_parity.exporter.kinds.nested.nested import function_that_makes

        return function_that_makes(name)(*args, **kwargs)

    return construct


PATCHES: tuple[Patch, ...] = tuple(
    FunctionCode(module, name, _ours(name)) for module, names in _FUNCTIONS.items() for name in names
)

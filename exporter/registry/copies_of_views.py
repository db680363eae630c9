"""Operators such as `narrow_copy`, recorded as the view, `narrow`, and a copy of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onnx_parity.exporter.registry.recorded import decomposition_of, named
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.torch_inside.pytree import tree_map

__all__ = ["record_as_copies_of"]

_READS_OFFSETS = "torch 2.13's decomposition reads storage offsets, which tensors with dynamic sizes do not have"


def record_as_copies_of(views: Mapping[str, str]) -> None:
    """Record these operators as copies of views; both are named without `aten::`."""

    def copy_of_view(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
        parts = named(f"aten::{views[op.name().removeprefix('aten::')]}")(*args, **kwargs)
        return tree_map(lambda part: part.clone(memory_format=torch.contiguous_format), parts)

    names = (f"aten::{name}" for name in views)
    decomposition_of(*names, gives_operator=True, why=_READS_OFFSETS)(copy_of_view)

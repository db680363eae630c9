"""Operators of our own in torch's dispatcher, which stand in a recording for what torch has no one operator for.

`torch.library.register_fake` would do, but looks its caller up among the sources of all modules that are loaded, for
50 ms of a process's first export.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._library.simple_registry import singleton
from torch._ops import OpOverload

__all__ = ["define", "run_by"]

_NAMESPACE = "onnx_parity"
_library = torch.library.Library(_NAMESPACE, "DEF")


def define(schema: str, shapes: Callable[..., Any]) -> OpOverload:
    """The operator of a schema such as `f(Tensor x) -> Tensor`; `shapes` makes its results from fake tensors."""
    name, _, overload = schema.partition("(")[0].partition(".")
    _library.define(schema)
    singleton.find(f"{_NAMESPACE}::{name}" + (f".{overload}" if overload else "")).fake_impl.register(
        shapes, source=__name__, lib=_library
    )
    operator: OpOverload = getattr(getattr(getattr(torch.ops, _NAMESPACE), name), overload or "default")
    return operator


def run_by(operator: OpOverload, function: Callable[..., Any]) -> None:
    """What the operator does with tensors that have values."""
    _library.impl(operator, function, "CompositeExplicitAutograd")

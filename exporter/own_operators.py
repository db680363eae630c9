"""Custom operators of this package: they are recorded for computations that torch has no operator for.

`torch.library.register_fake` is not used, because it searches for its caller in the sources of all loaded modules,
which takes 50 ms of a process's first export.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, register_fake_results

__all__ = ["define", "run_by"]

_NAMESPACE = "onnx_parity"
_library = torch.library.Library(_NAMESPACE, "DEF")


def define(schema: str, shapes: Callable[..., Any]) -> OpOverload:
    """Define the operator of a schema, `f(Tensor x) -> Tensor`; `shapes` computes its results for fake tensors."""
    name, _, overload = schema.partition("(")[0].partition(".")
    _library.define(schema)
    register_fake_results(f"{_NAMESPACE}::{name}" + (f".{overload}" if overload else ""), shapes, _library)
    operator: OpOverload = getattr(getattr(getattr(torch.ops, _NAMESPACE), name), overload or "default")
    return operator


def run_by(operator: OpOverload, function: Callable[..., Any]) -> None:
    """Set the function that computes the operator."""
    _library.impl(operator, function, "CompositeExplicitAutograd")

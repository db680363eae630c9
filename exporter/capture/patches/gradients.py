"""Patches the entries of autograd, so that a program that asks for gradients is recorded where autograd sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.capture.gradients import NeedsGradients, is_transformed
from onnx_parity.exporter.capture.graph.origin import refused_here
from onnx_parity.exporter.capture.patches.patch import FunctionCode, Patch

__all__ = ["PATCHES"]


def _grad(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not is_transformed():
        raise NeedsGradients
    return torchs(*args, **kwargs)


def _backward(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    raise refused_here(
        "the program calls backward(), which adds to the .grad of tensors: ONNX has nothing to add to. "
        "Use torch.autograd.grad(result, inputs, create_graph=True), which returns the gradients"
    )


PATCHES: tuple[Patch, ...] = (
    FunctionCode(lambda: torch.autograd.grad, _grad),
    FunctionCode(lambda: torch.autograd.backward, _backward),
)

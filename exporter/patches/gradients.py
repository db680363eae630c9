"""Patches the entries of autograd, so that a program that asks for gradients is recorded where autograd sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.dispatch.gradients import is_transformed
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.torch_inside.patch import FunctionCode, Patch
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.torch_inside.transforms import keeping_requires_grad

__all__ = ["PATCHES"]


def _grad(torchs: Callable[..., Any], outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    # Where autograd sees the weights of the module, other tensors are in their place.
    weights = [each for each in tree_leaves(inputs) if isinstance(each, torch.nn.Parameter)]
    if weights:
        refusal = refused_here(
            "the program asks for gradients by a parameter that does not belong to the module that is exported: make "
            "it a parameter of the module, or an input"
        )
        raise Reconsider(Decision.GRADIENTS, refusal=refusal, weights=map(id, weights))
    if not is_transformed():
        raise Reconsider(Decision.GRADIENTS)
    # Autograd's engine leaves another state than it found, in which `requires_grad_()` is refused.
    with keeping_requires_grad():
        return torchs(outputs, inputs, *args, **kwargs)


def _backward(torchs: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    raise refused_here(
        "the program calls backward(), which adds to the .grad of tensors: ONNX has nothing to add to. "
        "Use torch.autograd.grad(result, inputs, create_graph=True), which returns the gradients"
    )


PATCHES: tuple[Patch, ...] = (
    FunctionCode(torch.autograd, "grad", _grad),
    FunctionCode(torch.autograd, "backward", _backward),
)

"""Patches the entries of autograd, so that a program that asks for gradients is recorded where autograd sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from onnx_parity.exporter.dispatch.gradients import is_transformed
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, FunctionCode, Patch
from onnx_parity.exporter.torch_inside.pytree import tree_leaves, tree_map
from onnx_parity.exporter.torch_inside.this_thread import recorder_here
from onnx_parity.exporter.torch_inside.transforms import (
    derivatives,
    is_gradtrackingtensor,
    keeping_requires_grad,
    tracked_leaves,
)

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


def _backward(
    torchs: Callable[..., Any],
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add to the `.grad` of the tensors that the program made leaves of, by `requires_grad_()`.

    Weights of the module are not among them: no model keeps their gradients.
    """
    if not is_transformed():
        raise Reconsider(Decision.GRADIENTS)
    roots = [tensors] if isinstance(tensors, torch.Tensor) else [*tensors]
    leaves = tracked_leaves(roots) if inputs is None else [inputs] if isinstance(inputs, torch.Tensor) else [*inputs]
    if not leaves:
        raise refused_here(
            "the program calls backward(), which adds to the .grad of weights of the module: ONNX has nothing to add "
            "to. Use torch.autograd.grad(result, weights), which returns the gradients"
        )
    recorder_here().weights.are_added_to = True
    with keeping_requires_grad():
        found = torch.autograd.grad(
            roots, leaves, grad_tensors, retain_graph=retain_graph, create_graph=create_graph, allow_unused=True
        )
    for leaf, gradient in zip(leaves, found, strict=True):
        if gradient is not None:
            leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient


def _retain_grad(torchs: Callable[..., Any], tensor: torch.Tensor) -> None:
    """Note the gradient of a tensor that is no leaf. torch refuses to retain it within a transform."""
    if tensor.is_leaf or not is_gradtrackingtensor(tensor):
        return

    def keep(gradient: torch.Tensor) -> None:
        kept = tensor.grad
        tensor.grad = gradient if kept is None else kept + gradient

    tensor.register_hook(keep)


def _jacobian(
    torchs: Callable[..., Any], func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """All rows of the Jacobian at once, where torch computes one after the other, for as many as the example has.

    Those of several results are not computed at once: NaN in one would reach the rows of the others.
    """
    if strict or not (vectorize or recorder_here().fakes.symbols is not None):
        return torchs(func, inputs, create_graph, strict, vectorize, strategy)
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    places = tuple(range(len(arguments))) if isinstance(inputs, tuple) else 0
    differentiate = torch.func.jacfwd if strategy == "forward-mode" else torch.func.jacrev
    results: list[Any] = []

    def noting(*given: Any) -> Any:
        results.append(func(*given))
        return results[-1]

    found = differentiate(noting, argnums=places)(*arguments)
    if isinstance(results[-1], tuple) and len(results[-1]) > 1 and not vectorize:
        found = tuple(
            differentiate(lambda *given, n=number: func(*given)[n], argnums=places)(*arguments)
            for number in range(len(results[-1]))
        )
    return found if create_graph else tree_map(torch.Tensor.detach, found)


def _unit_vectors(
    torchs: Callable[..., Any], results: Any, counts: Any, chunk_size: int | None = None
) -> Iterable[tuple[torch.Tensor, ...]]:
    """The columns of a unit matrix that belong to each result, all rows at once if their number is not known."""
    if all(isinstance(count, int) for count in counts):
        yield from torchs(results, counts, chunk_size)
        return
    rows, first, columns = torch.arange(sum(counts)).unsqueeze(-1), 0, []
    for result, count in zip(results, counts, strict=True):
        own = rows == torch.arange(first, first + count)
        columns.append(own.to(result.device, result.dtype).view(-1, *result.shape))
        first += count
    yield tuple(columns)


PATCHES: tuple[Patch, ...] = (
    FunctionCode(derivatives, "_chunked_standard_basis_for_", _unit_vectors),
    FunctionCode(torch.autograd.functional, "jacobian", _jacobian),
    FunctionAttribute(torch.Tensor, "retain_grad", _retain_grad),
    FunctionCode(torch.autograd, "grad", _grad),
    FunctionCode(torch.autograd, "backward", _backward),
)

"""Gradients inside a program: `torch.autograd.grad` in its forward, as in a model of forces, and `torch.func`.

`functionalize` hands tensors to a program whose operators autograd does not see. A program that asks autograd for
gradients is therefore recorded once more, inside a level of the transform that `torch.func.grad` is made of. Autograd
sees the operators on the tensors of that level, and what it calls to differentiate them is recorded like everything
else. No operator is kept whole at such a level, because autograd knows the derivatives of torch's own operators only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.dispatch.functional import Called
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.torch_inside.transforms import (
    Transform,
    innermost_transform,
    is_gradtrackingtensor,
    level_of_gradients,
    transforms,
    without_gradients,
)
from onnx_parity.exporter.torch_inside.transforms import with_gradients as tracked_by_autograd

__all__ = [
    "ASKS_FOR_GRADIENTS",
    "WeightsUsed",
    "differentiates_once",
    "is_differentiated",
    "is_seen_once",
    "is_transformed",
    "needs_derivative",
    "refuse_to_differentiate",
    "with_gradients",
]

_DIFFERENTIATING = (Transform.Grad, Transform.Jvp)

#: What torch says of `requires_grad_()` on the tensors of a recording without gradients.
ASKS_FOR_GRADIENTS = "Tensor.requires_grad_()"


class WeightsUsed:
    """The weights that a program uses, and their gradients from before, as far as it asks for gradients."""

    def __init__(self) -> None:
        #: The ids of those in whose place autograd sees other tensors, so that gradients by them can be computed.
        self.differentiated: frozenset[int] = frozenset()
        #: Whether the program called `backward()`, which adds to the gradients of the others: these are not computed.
        self.are_added_to = False
        self._gradients: dict[int, torch.Tensor] = {}

    def take(self, tensor: torch.Tensor, name_of: Callable[[torch.Tensor], str]) -> None:
        """Note a tensor that the program owns and uses. Refuses one that is not what autograd would make of it."""
        if id(tensor) in self.differentiated:
            raise refused_here(
                f"the program asks for gradients by weights, and uses {name_of(tensor)} otherwise than as an "
                "attribute of its module. The gradients would lack this use: use the attribute"
            )
        if self.are_added_to and id(tensor) in self._gradients:
            raise refused_here(
                "the program uses the .grad of a weight, which it has from before the export, and to which the program "
                "adds by backward(): use torch.autograd.grad(result, weights), which returns the gradients"
            )
        if isinstance(tensor, torch.nn.Parameter) and tensor.grad is not None:
            self._gradients[id(tensor.grad)] = tensor.grad


def is_transformed() -> bool:
    """Whether operators are differentiated or mapped: whether the innermost transform is another than functionalize."""
    innermost: Any = innermost_transform()
    return innermost is not None and bool(innermost.key() != Transform.Functionalize)


def is_differentiated() -> bool:
    """Whether any of the transforms around operators differentiates them."""
    return any(each.key() in _DIFFERENTIATING for each in transforms())


def differentiates_once() -> bool:
    """Whether there is no other transform than that of gradients, so that autograd sees each operator once."""
    stack = transforms()
    return len(stack) == 2 and bool(stack[-1].key() == Transform.Grad)


def needs_derivative(arguments: Iterable[object]) -> bool:
    """Whether the program asks for gradients, or for tangents, through a call with these arguments."""
    if not is_transformed():
        return False
    tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
    if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        return True
    has_tangents = any(each.key() == Transform.Jvp for each in transforms())
    return has_tangents and any(map(is_gradtrackingtensor, tensors))


def is_seen_once(arguments: object) -> bool:
    """Whether no transform has to look into a call with these arguments: nothing maps it, and no gradient passes.

    Parameters that autograd does not track require gradients too, for which the program does not ask.
    """
    if not is_transformed():
        return True
    tensors = [each for each in tree_leaves(arguments) if isinstance(each, torch.Tensor)]
    tracked = [each for each in tensors if is_gradtrackingtensor(each)]
    return differentiates_once() and not needs_derivative(tracked)


def refuse_to_differentiate(what: str, arguments: Iterable[object]) -> None:
    """Refuse a call whose derivative is not known, if the program asks for it. Torch would leave it out."""
    if needs_derivative(arguments):
        raise refused_here(
            f"the program asks for gradients through {what}, whose derivative is not recorded: write it with operators "
            "of torch, or call it with x.detach() if its gradient is not needed"
        )


def with_gradients(called: Called, require: Sequence[bool], held_require: Sequence[bool]) -> Called:
    """The same call on tensors that autograd tracks: `require` says which of the first tensors require gradients, and
    `held_require` which of those that the module holds."""

    def call(tensors: Sequence[torch.Tensor], buffers: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with level_of_gradients() as level:
            given, held = ([tracked_by_autograd(each, level) for each in some] for some in (tensors, buffers))
            for tensor, requires in zip([*given, *held], [*require, *held_require], strict=True):
                tensor.requires_grad_(requires)
            return [without_gradients(result, level) for result in called(given, held)]

    return call

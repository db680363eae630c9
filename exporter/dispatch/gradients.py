"""Gradients inside a program: `torch.autograd.grad` in its forward, as in a model of forces, and `torch.func`.

`functionalize` hands tensors to a program whose operators autograd does not see. A program that asks autograd for
gradients is therefore recorded once more, inside a level of the transform that `torch.func.grad` is made of. Autograd
sees the operators on the tensors of that level, and what it calls to differentiate them is recorded like everything
else. No operator is kept whole at such a level, because autograd knows the derivatives of torch's own operators only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_parity.exporter.dispatch.functional import Called
from onnx_parity.exporter.graph.origin import refused_here

__all__ = [
    "ASKS_FOR_GRADIENTS",
    "differentiates_once",
    "is_differentiated",
    "is_seen_once",
    "is_transformed",
    "needs_derivative",
    "refuse_to_differentiate",
    "with_gradients",
]

_functorch = torch._C._functorch
_DIFFERENTIATING = (_functorch.TransformType.Grad, _functorch.TransformType.Jvp)

#: What torch says of `requires_grad_()` on the tensors of a recording without gradients.
ASKS_FOR_GRADIENTS = "Tensor.requires_grad_()"


def is_transformed() -> bool:
    """Whether operators are differentiated or mapped: whether the innermost transform is another than functionalize."""
    # torch declares that there is always one.
    innermost: Any = _functorch.peek_interpreter_stack()
    return innermost is not None and bool(innermost.key() != _functorch.TransformType.Functionalize)


def is_differentiated() -> bool:
    """Whether any of the transforms around operators differentiates them."""
    stack: Any = _functorch.get_interpreter_stack()
    return any(each.key() in _DIFFERENTIATING for each in stack or ())


def differentiates_once() -> bool:
    """Whether there is no other transform than that of gradients, so that autograd sees each operator once."""
    stack: Any = _functorch.get_interpreter_stack()
    return len(stack) == 2 and bool(stack[-1].key() == _functorch.TransformType.Grad)


def needs_derivative(arguments: Iterable[object]) -> bool:
    """Whether the program asks for gradients, or for tangents, through a call with these arguments."""
    if not is_transformed():
        return False
    tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
    if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        return True
    stack: Any = _functorch.get_interpreter_stack()
    has_tangents = any(each.key() == _functorch.TransformType.Jvp for each in stack)
    return has_tangents and any(map(_functorch.is_gradtrackingtensor, tensors))


def is_seen_once(arguments: object) -> bool:
    """Whether no transform has to look into a call with these arguments: nothing maps it, and no gradient passes.

    Parameters that autograd does not track require gradients too, for which the program does not ask.
    """
    if not is_transformed():
        return True
    tensors = [each for each in pytree.tree_leaves(arguments) if isinstance(each, torch.Tensor)]
    tracked = [each for each in tensors if _functorch.is_gradtrackingtensor(each)]
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
        with _level() as level:
            given, held = ([_functorch._wrap_for_grad(each, level) for each in some] for some in (tensors, buffers))
            for tensor, requires in zip([*given, *held], [*require, *held_require], strict=True):
                tensor.requires_grad_(requires)
            return [_functorch._unwrap_for_grad(result, level) for result in called(given, held)]

    return call


@contextmanager
def _level() -> Iterator[int]:
    allowed = _functorch.get_inplace_requires_grad_allowed()
    # Autograd is off outside of the level, so that it sees the operators once.
    with torch.no_grad():
        level: int = _functorch._grad_increment_nesting()
        try:
            _functorch.set_inplace_requires_grad_allowed(True)
            with torch.enable_grad():
                yield level
        finally:
            _functorch.set_inplace_requires_grad_allowed(allowed)
            _functorch._grad_decrement_nesting()

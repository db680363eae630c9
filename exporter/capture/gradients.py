"""Gradients inside a program: `torch.autograd.grad` in its forward, as in a model of forces, and `torch.func`.

`functionalize` hands tensors to a program whose operators autograd does not see. A program that asks autograd for
gradients is therefore recorded once more, inside a level of the transform that `torch.func.grad` is made of. Autograd
sees the operators on the tensors of that level, and what it calls to differentiate them is recorded like everything
else. No operator is kept whole at such a level, because autograd knows the derivatives of torch's own operators only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onnx_parity.exporter.capture.graph.origin import refused_here

__all__ = ["ASKS_FOR_GRADIENTS", "NeedsGradients", "is_transformed", "refuse_to_differentiate", "with_gradients"]

_functorch = torch._C._functorch

#: What torch says of `requires_grad_()` on the tensors of a recording without gradients.
ASKS_FOR_GRADIENTS = "Tensor.requires_grad_()"

_Called = Callable[[list[torch.Tensor], list[torch.Tensor]], list[torch.Tensor]]


class NeedsGradients(Exception):
    """The program asks autograd for gradients."""


def is_transformed() -> bool:
    """Whether operators are differentiated or mapped: whether the innermost transform is another than functionalize."""
    # torch declares that there is always one.
    innermost: Any = _functorch.peek_interpreter_stack()
    return innermost is not None and bool(innermost.key() != _functorch.TransformType.Functionalize)


def refuse_to_differentiate(what: str, arguments: Iterable[object]) -> None:
    """Refuse a call whose derivative is not known, if the program asks for it. Torch would leave it out."""
    tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
    if is_transformed() and torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        raise refused_here(
            f"the program asks for gradients through {what}, whose derivative is not recorded: write it with operators "
            "of torch, or call it with x.detach() if its gradient is not needed"
        )


def with_gradients(called: _Called, require: Sequence[bool]) -> _Called:
    """The same call on tensors that autograd tracks. `require` says which of the first tensors require gradients."""

    def call(tensors: list[torch.Tensor], buffers: list[torch.Tensor]) -> list[torch.Tensor]:
        with _level() as level:
            given, held = ([_functorch._wrap_for_grad(each, level) for each in some] for some in (tensors, buffers))
            for tensor, requires in zip(given, require, strict=True):
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

"""Attributes of torch's tensors, generators and modules that have no public name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, cast

import torch
from torch._C import TensorBase
from torch.nested._internal import nested_tensor as nested_tensors
from torch.nn.functional import _canonical_mask as canonical_mask

__all__ = [
    "TensorBase",
    "as_parameter",
    "buffers_of",
    "canonical_mask",
    "flat_weights_of",
    "hooks_of",
    "identity_of_memory",
    "is_default_generator",
    "memory_of_constant",
    "modules_of",
    "nested_tensors",
    "overlap",
    "parameters_of",
    "shares_memory",
    "tables_of_hooks",
]  # fmt: skip

#: The buffers, the parameters and the modules that a module holds itself, by their names: the dicts that it reads.
buffers_of = cast("Callable[[torch.nn.Module], dict[str, torch.Tensor | None]]", attrgetter("_buffers"))
parameters_of = cast("Callable[[torch.nn.Module], dict[str, torch.nn.Parameter | None]]", attrgetter("_parameters"))
modules_of = cast("Callable[[torch.nn.Module], dict[str, torch.nn.Module | None]]", attrgetter("_modules"))


def flat_weights_of(module: torch.nn.Module) -> list[Any]:
    """The list of parameters with which a recurrent layer computes; an empty one for any other module."""
    weights: list[Any] = module._flat_weights if isinstance(module, torch.nn.RNNBase) else []
    return weights


def as_parameter(tensor: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """A tensor, made into one that is a parameter to torch."""
    tensor._is_param = True
    return tensor.requires_grad_(requires_grad) if requires_grad else tensor


def hooks_of(module: torch.nn.Module) -> Iterator[Callable[..., Any]]:
    """What a module calls before and after its forward."""
    yield from module._forward_hooks.values()
    yield from module._forward_pre_hooks.values()


#: By what a module finds its hooks, and how they are called.
_HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip


def tables_of_hooks(module: torch.nn.Module) -> list[dict[int, Any]]:
    """The dicts that a module keeps its hooks in, by their numbers."""
    attributes = vars(module)
    return [attributes[name] for name in _HOOKS if name in attributes]


def identity_of_memory(tensor: torch.Tensor) -> int:
    """A number that tensors with the same memory have in common."""
    identity: int = tensor.untyped_storage()._cdata
    return identity


def shares_memory(tensor: torch.Tensor) -> bool:
    """Whether there is another tensor with the same memory."""
    memory = tensor.untyped_storage()
    held: int = torch._C._storage_Use_Count(memory._cdata)
    return held > 2  # By the tensor, and by what it was asked with.


def memory_of_constant(constant: torch.Tensor | None) -> int | None:
    """The same number for dense tensors with the same memory; None for anything else, and where there are no
    elements."""
    is_dense = constant is not None and constant.layout is torch.strided and constant.numel() > 0
    return identity_of_memory(cast("torch.Tensor", constant)) if is_dense else None


def overlap(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two tensors with the same memory lie in the same part of it."""
    ranges: list[tuple[int, int]] = []
    for each in (one, other):
        assert each is not None
        start = int(each.storage_offset())
        last = start + sum((size - 1) * step for size, step in zip(each.shape, each.stride(), strict=True))
        ranges.append((start * each.element_size(), last * each.element_size()))
    (first, last), (other_first, other_last) = ranges
    return first <= other_last and other_first <= last


def is_default_generator(generator: torch.Generator) -> bool:
    """Whether it is torch's generator of random numbers for the CPU, which may be another object of Python."""
    return bool(generator._cdata == torch.default_generator._cdata)  # type: ignore[attr-defined]

"""torch's transforms of calls: functionalization, and the levels of gradients, with the tensors that they wrap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import torch
from torch import _functionalize_has_metadata_mutation as has_other_shape
from torch import _functionalize_mutation_counter as number_of_writes
from torch import _functionalize_replace as replace_value
from torch import _functionalize_sync as apply_writes
from torch import _is_functional_tensor as is_functional_tensor
from torch._C import _are_functorch_transforms_active as are_transforms_active
from torch._C._functorch import TransformType as Transform
from torch._C._functorch import _func_decrement_nesting as end_functionalizing
from torch._C._functorch import _func_increment_nesting as begin_functionalizing
from torch._C._functorch import (
    _grad_decrement_nesting,
    _grad_increment_nesting,
    _unwrap_functional_tensor,
    get_inplace_requires_grad_allowed,
    is_functionaltensor,
    is_gradtrackingtensor,
    set_inplace_requires_grad_allowed,
)
from torch._C._functorch import _propagate_functional_input_mutation as copy_write_to_input
from torch._C._functorch import _unwrap_for_grad as without_gradients
from torch._C._functorch import _wrap_for_grad as with_gradients
from torch._C._functorch import _wrap_functional_tensor as functional_tensor
from torch._C._functorch import get_unwrapped as inside_of_wrapper
from torch._C._functorch import is_functorch_wrapped_tensor as is_wrapped
from torch._C._functorch import maybe_current_level as current_level
from torch._C._functorch import peek_interpreter_stack as innermost_transform
from torch._functorch import eager_transforms as derivatives
from torch._functorch.utils import enable_single_level_autograd_function as with_applied_functions
from torch.autograd.function import _SingleLevelFunction as BaseFunction

__all__ = [
    "BaseFunction", "Transform", "apply_writes", "are_transforms_active", "begin_functionalizing",
    "copy_write_to_input", "current_level", "derivatives", "end_functionalizing", "functional_tensor",
    "has_other_shape", "innermost_transform",
    "inside_before_writes", "inside_of_functional", "inside_of_wrapper", "is_functional_tensor",
    "is_functionaltensor", "is_gradtrackingtensor", "is_wrapped", "keeping_requires_grad", "level_of_gradients",
    "number_of_writes", "replace_value", "runs_backward", "tracked_leaves", "transforms",
    "with_applied_functions", "with_gradients", "without_gradients",
]  # fmt: skip


def transforms() -> Sequence[Any]:
    """The transforms of the calls that are made now, the outermost first."""
    # torch declares that there is always one.
    return cast("Sequence[Any] | None", torch._C._functorch.get_interpreter_stack()) or ()


def runs_backward() -> bool:
    """Whether autograd computes gradients now."""
    return torch._C._current_graph_task_id() != -1


def tracked_leaves(roots: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that autograd would add to the `.grad` of, where it starts from `roots`."""
    leaves: dict[int, torch.Tensor] = {}
    reached, left = set(), [root.grad_fn for root in roots]
    leaves.update((id(root), root) for root in roots if root.requires_grad and root.is_leaf)
    while left:
        function = left.pop()
        if function is None or function in reached:
            continue
        reached.add(function)
        variable = getattr(function, "variable", None)
        if variable is not None:
            leaves.setdefault(id(variable), variable)
        left += [following for following, _ in function.next_functions]
    return [each for each in leaves.values() if is_gradtrackingtensor(each)]


def inside_of_functional(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor inside functionalization's wrapper, with all writes through views applied."""
    apply_writes(tensor)
    return _unwrap_functional_tensor(tensor, True)


def inside_before_writes(tensor: torch.Tensor) -> torch.Tensor:
    """The same, without writes that have not been applied yet, for which operators are called."""
    return _unwrap_functional_tensor(tensor, False)


@contextmanager
def level_of_gradients() -> Iterator[int]:
    """A context in which autograd sees the operators on tensors of a new level, whose number is yielded."""
    # Autograd is off outside of the level, so that it sees the operators once.
    with torch.no_grad():
        allowed = get_inplace_requires_grad_allowed()
        level: int = _grad_increment_nesting()
        try:
            set_inplace_requires_grad_allowed(True)
            with torch.enable_grad():
                yield level
        finally:
            set_inplace_requires_grad_allowed(allowed)
            _grad_decrement_nesting()


@contextmanager
def functionalizing_within() -> Iterator[None]:
    """A context in which writes in place can be followed within what functionalization has called."""
    keys = torch._C.DispatchKey
    with ExitStack() as stack:
        for key in (keys.Functionalize, keys.FuncTorchDynamicLayerFrontMode, keys.FuncTorchDynamicLayerBackMode):
            stack.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
        yield


@contextmanager
def keeping_requires_grad() -> Iterator[None]:
    """A context after which `requires_grad_()` is allowed or refused within transforms as it was before."""
    allowed = get_inplace_requires_grad_allowed()
    try:
        yield
    finally:
        set_inplace_requires_grad_allowed(allowed)

"""Turns views and writes in place into operators without side effects, as `torch.func.functionalize` does.

That function takes structures of any kind, and walks through them eight times. This one takes two lists of tensors, and
a third of the time. What it saves is a twentieth of the time that the export of a single operator takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import same_size
from onnx_parity.exporter.torch_inside.frames import calls_the_program
from onnx_parity.exporter.torch_inside.modes import without_function_overrides
from onnx_parity.exporter.torch_inside.transforms import (
    apply_writes,
    begin_functionalizing,
    copy_write_to_input,
    end_functionalizing,
    functional_tensor,
    has_other_shape,
    inside_of_functional,
    inside_of_wrapper,
    is_functional_tensor,
    is_functionaltensor,
    is_gradtrackingtensor,
)

__all__ = ["Called", "functionalized", "inside_of_gradients", "is_functional", "unwrapped"]

#: A call of the program: the tensors among its arguments and the buffers of its module to the tensors that it returns.
Called = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], list[torch.Tensor]]


def functionalized(called: Called) -> Called:
    """The same call without writes in place. Those to the arguments are recorded at the end, as copies to them."""
    return functools.partial(_functionalized, called)


def _functionalized(
    called: Called, tensors: Sequence[torch.Tensor], buffers: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    # Views are called again on what was written, rather than replaced by copies.
    level = begin_functionalizing(True)
    try:
        given, held = ([functional_tensor(each, level) for each in some] for some in (tensors, buffers))
        results = [_unwrapped(result) for result in called(given, held)]
        if any(map(has_other_shape, given)):  # As by `x.unsqueeze_(0)`, which is one for a view of the input too.
            raise Reconsider(Decision.VIEWS_OF_INPUTS)
        wrapped = [*given, *held]
        # The program has ended: what is asked now are no questions of it.
        with without_function_overrides():
            for tensor in wrapped:
                apply_writes(tensor)
            for before, after in zip([*tensors, *buffers], wrapped, strict=True):
                _refuse_other_sizes(before, inside_of_functional(after))
                copy_write_to_input(before, after)
        return results
    finally:
        end_functionalizing()


calls_the_program(_functionalized)


def _refuse_other_sizes(before: torch.Tensor, after: torch.Tensor) -> None:
    if before.dim() != after.dim() or not all(map(same_size, before.shape, after.shape)):
        raise CaptureError(
            "the program gives other sizes to an input or a buffer in place, as out= does where the result has not "
            "those of the given tensor: give out= a tensor of the result's sizes, with the same dynamic axes, or "
            "create it in the program"
        )


def _unwrapped(result: torch.Tensor) -> torch.Tensor:
    # A tensor of the program itself, which it returns as it is, was never wrapped.
    return inside_of_functional(result) if is_functional_tensor(result) else result


def is_functional(value: object) -> bool:
    """Whether it is a tensor of real numbers whose writes in place are followed."""
    return isinstance(value, torch.Tensor) and is_functional_tensor(value) and not value.is_complex()


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The recorder's tensor inside functionalization's wrapper, with all writes through views applied."""
    tensor = inside_of_gradients(tensor)
    return inside_of_functional(tensor) if is_functionaltensor(tensor) else tensor


def inside_of_gradients(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that autograd's levels have wrapped, which has the memory that writes are followed in."""
    while is_gradtrackingtensor(tensor):
        tensor = inside_of_wrapper(tensor)
    return tensor

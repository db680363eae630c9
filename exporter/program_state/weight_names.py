"""The weights of a module: parameters and buffers in the order of its state dict, and their names in a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

__all__ = ["name_finder", "named_weights", "weights_of"]


def weights_of(program: object) -> list[torch.Tensor]:
    """The parameters and buffers in the order of the state dict, without repetition."""
    if not isinstance(program, torch.nn.Module):
        return []
    return list({id(tensor): tensor for tensor in program.state_dict(keep_vars=True).values()}.values())


def named_weights(program: object, requested: Sequence[str]) -> list[tuple[str, torch.Tensor]]:
    """The parameters and buffers in the order of the state dict, without repetition, with their recorded names."""
    name_of = name_finder(program, requested)
    return [(name_of(tensor), tensor) for tensor in weights_of(program)]


def name_finder(program: object, requested: Sequence[str]) -> Callable[[torch.Tensor], str]:
    """A function from a tensor to its name: the requested one, else the module's own, else the empty string."""
    if not isinstance(program, torch.nn.Module):
        return lambda tensor: ""
    weights = weights_of(program) if requested else ()
    names = {id(tensor): name for tensor, name in zip(weights, requested, strict=False)}
    for name, parameter in program.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), name)
    for name, buffer in program.named_buffers(remove_duplicate=False):
        names.setdefault(id(buffer), name)
    return lambda tensor: names.get(id(tensor), "")

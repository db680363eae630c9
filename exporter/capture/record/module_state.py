"""Restores modules after a recording: buffers, which stand-ins replace meanwhile, and attributes that it assigned."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Buffer", "attribute_at", "buffers_of", "compiled_attributes", "preserved"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of a module, by its name from the root."""

    path: str
    owner: torch.nn.Module
    name: str
    tensor: torch.Tensor


def buffers_of(program: object) -> list[Buffer]:
    """Buffers may be written to, and functionalization must see it: they go in as arguments."""
    if not isinstance(program, torch.nn.Module):
        return []
    return [
        Buffer(f"{path}.{name}" if path else name, module, name, buffer)
        for path, module in program.named_modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]


@contextmanager
def preserved(
    program: object,
    buffers: Sequence[Buffer],
    stand_ins: Sequence[torch.Tensor],
    was_read: Callable[[torch.Tensor], bool],
) -> Iterator[dict[str, Any]]:
    """Stand-ins in the place of buffers; afterwards every module has its own buffers and attributes again.

    Yields a dict that will hold what was assigned anew and matters: buffers, and tensors whose old value the program
    has read. (A tensor assigned without having been read is a result kept for later, as `weight_norm` does.)
    """
    modules = list(program.named_modules()) if isinstance(program, torch.nn.Module) else []
    before = [(path, module, module.__dict__.copy()) for path, module in modules]
    assigned: dict[str, Any] = {}
    try:
        for buffer, stand_in in zip(buffers, stand_ins, strict=True):
            buffer.owner._buffers[buffer.name] = stand_in
        yield assigned
        for buffer, stand_in in zip(buffers, stand_ins, strict=True):
            # A compiled module's are in no dict of Python's, and have no `get`.
            new = dict(buffer.owner._buffers.items()).get(buffer.name)
            if new is not stand_in:
                assigned[buffer.path] = new
        for path, module, attributes in before:
            for name in _changed(module.__dict__, attributes):
                old = attributes.get(name)
                if isinstance(old, torch.Tensor) and was_read(old):
                    assigned[f"{path}.{name}" if path else name] = module.__dict__.get(name)
    finally:
        for buffer in buffers:
            buffer.owner._buffers[buffer.name] = buffer.tensor
        for _, module, attributes in before:
            for name in _changed(module.__dict__, attributes):
                old = attributes.get(name)
                if name in attributes:
                    module.__dict__[name] = old
                else:
                    del module.__dict__[name]


def attribute_at(root: torch.nn.Module, path: str) -> Any:
    """A buffer or attribute by its name from the root, whatever else the root's class calls so."""
    *parts, name = path.split(".")
    for part in parts:
        root = root._modules[part]  # type: ignore[assignment]
    if isinstance(root, torch.jit.ScriptModule):
        return root._c.getattr(name)
    return root._buffers[name] if name in root._buffers else root.__dict__[name]


def compiled_attributes(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """What a compiled module holds beside parameters and other modules. Lists and dicts are copies."""
    attributes = module._concrete_type.get_attributes()
    return {name: module._c.getattr(name) for name, (_, is_parameter) in attributes.items() if not is_parameter}


def _changed(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Attributes that are another object than before, or new, or gone."""
    if now.keys() == before.keys() and all(map(operator.is_, now.values(), before.values())):
        return []
    return [name for name in {**before, **now} if now.get(name, now) is not before.get(name, before)]

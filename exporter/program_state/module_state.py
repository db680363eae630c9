"""Restores modules after a recording: the buffers, which are replaced while it runs, hooks, and assigned attributes.

A write to a buffer, attribute or input is visible as a final `copy_`, or as another object in its place. An ONNX model
has no state, so capture warns about such a write, or makes it an output with `return_written=True`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_  # Python's own, also while that of the program asks about sizes.
from typing import Any

import msgspec
import torch
from msgspec.structs import replace

from onnx_parity.exporter.kinds.sparse import stand_in_for
from onnx_parity.exporter.recording.evaluate import outside_of_recording
from onnx_parity.exporter.torch_inside.tensors import buffers_of as own_buffers
from onnx_parity.exporter.torch_inside.tensors import flat_weights_of, tables_of_hooks
from onnx_parity.exporter.torch_inside.tensors import modules_of as own_modules
from onnx_parity.exporter.torch_inside.tensors import parameters_of as own_parameters
from onnx_parity.exporter.torch_inside.torchscript import attribute_of as compiled_attribute

__all__ = ["Buffer", "attribute_at", "attribute_path", "buffers_of", "one_of_each", "parameters_of", "preserved"]


class Buffer(msgspec.Struct, frozen=True):
    """A buffer of a module, by its name from the root, or a parameter that the program asks for gradients by."""

    path: str
    #: The dicts and lists that it is in, which belong to modules, with its name or its index there.
    places: Sequence[tuple[Any, Any]]
    tensor: torch.Tensor


def buffers_of(program: object) -> list[Buffer]:
    """The buffers of a module. They are passed as arguments, so that functionalization sees writes to them."""
    if not isinstance(program, torch.nn.Module):
        return []
    return [
        Buffer(f"{path}.{name}" if path else name, [(own_buffers(module), name)], buffer)
        for path, module in program.named_modules()
        for name, buffer in own_buffers(module).items()
        if buffer is not None and buffer.layout is torch.strided
    ]


def _sparse_tensors(modules: Iterable[tuple[str, torch.nn.Module]]) -> Iterator[tuple[Any, str, torch.Tensor]]:
    """The sparse buffers and attributes of modules, with the dicts that they are in and their names there."""
    for _, module in modules:
        for held in (own_buffers(module), {} if isinstance(module, torch.jit.ScriptModule) else module.__dict__):
            for name, value in held.items():
                if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
                    yield held, name, value


def parameters_of(program: object) -> list[Buffer]:
    """The parameters of a module. One that several modules share is one tensor, by which there is one gradient."""
    if not isinstance(program, torch.nn.Module):
        return []
    found: dict[int, Buffer] = {}
    for path, module in program.named_modules():
        for name, parameter in own_parameters(module).items():
            if parameter is not None:
                new = Buffer(f"{path}.{name}" if path else name, [], parameter)
                known = found.get(id(parameter), new)
                found[id(parameter)] = replace(known, places=[*known.places, (own_parameters(module), name)])
        # A recurrent layer computes with the parameters in this list.
        weights = flat_weights_of(module)
        for index, parameter in enumerate(weights):
            if id(parameter) in found:
                known = found[id(parameter)]
                found[id(parameter)] = replace(known, places=[*known.places, (weights, index)])
    return list(found.values())


def one_of_each(buffers: Sequence[Buffer], stand_ins: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The stand-ins for buffers, of which one that several modules have needs the same one in all of them."""
    first: dict[int, torch.Tensor] = {}
    return [first.setdefault(id(each.tensor), own) for each, own in zip(buffers, stand_ins, strict=True)]


@contextmanager
def preserved(
    program: object,
    buffers: Sequence[Buffer],
    stand_ins: Sequence[torch.Tensor],
    was_read: Callable[[torch.Tensor], bool],
) -> Iterator[dict[str, Any]]:
    """A context in which buffers are replaced by stand-ins. On exit all buffers and attributes are restored.

    Yields a dict that is filled with the assigned buffers and attributes that are state: buffers, and tensors whose old
    value the program has read. (A tensor that is assigned without having been read is a cached result, as in
    `weight_norm`.)
    """
    modules = list(program.named_modules()) if isinstance(program, torch.nn.Module) else []
    before = [(path, module, module.__dict__.copy()) for path, module in modules]
    # A program may add hooks when it is first called, and remember in an attribute that it has.
    hooks = [(table, table.copy()) for _, module in modules for table in tables_of_hooks(module)]
    # It may also make a parameter anew, such as a table of positions that is too short.
    unscripted = [(path, module) for path, module in modules if not isinstance(module, torch.jit.ScriptModule)]
    parameters = [(path, own_parameters(module), own_parameters(module).copy()) for path, module in unscripted]
    assigned: dict[str, Any] = {}
    sparse = [*_sparse_tensors(modules)]
    try:
        for held, name, tensor in sparse:
            with outside_of_recording():
                held[name] = stand_in_for(tensor)
        for buffer, stand_in in zip(buffers, stand_ins, strict=True):
            for held, name in buffer.places:
                held[name] = stand_in
        yield assigned
        for buffer, stand_in in zip(buffers, stand_ins, strict=True):
            for held, name in buffer.places:
                # The buffers of a scripted module are not in a dict, and have no `get`.
                new = dict(enumerate(held) if isinstance(held, list) else held.items()).get(name)
                if new is not stand_in:
                    assigned[buffer.path] = new
        for path, held, attributes in [*((path, each.__dict__, kept) for path, each, kept in before), *parameters]:
            for name in _changed(held, attributes):
                old, new = attributes.get(name), held.get(name)
                # What takes a weight's place while gradients by it are recorded is no parameter.
                is_stand_in = isinstance(old, torch.nn.Parameter) and not isinstance(new, torch.nn.Parameter)
                if isinstance(old, torch.Tensor) and was_read(old) and not is_stand_in:
                    assigned[f"{path}.{name}" if path else name] = new
    finally:
        for _, held_now, held_before in parameters:
            if _changed(held_now, held_before):
                held_now.clear()
                held_now.update(held_before)
        for held, name, tensor in sparse:
            held[name] = tensor
        for buffer in buffers:
            for held, name in buffer.places:
                held[name] = buffer.tensor
        for _, module, attributes in before:
            for name in _changed(module.__dict__, attributes):
                old = attributes.get(name)
                if name in attributes:
                    module.__dict__[name] = old
                else:
                    del module.__dict__[name]
        for table, known in hooks:
            if table != known:
                table.clear()
                table.update(known)


def attribute_at(root: torch.nn.Module, path: str) -> Any:
    """A buffer or attribute by its path from the root. Methods and class attributes of the same name are ignored."""
    *parts, name = path.split(".")
    for part in parts:
        root = own_modules(root)[part]  # type: ignore[assignment]
    if isinstance(root, torch.jit.ScriptModule):
        return compiled_attribute(root, name)
    return own_buffers(root)[name] if name in own_buffers(root) else root.__dict__[name]


def attribute_path(root: object, tensor: torch.Tensor) -> str:
    """The path of the attribute that this tensor is; an empty one if it is none, but a buffer, say."""
    for path, module in root.named_modules() if isinstance(root, torch.nn.Module) else ():
        for name, value in vars(module).items():
            if value is tensor:
                return f"{path}.{name}" if path else name
    return ""


def _changed(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """The names of attributes that were added, removed, or assigned another object."""
    if now.keys() == before.keys() and all(map(is_, now.values(), before.values())):
        return []
    return [name for name in {**before, **now} if now.get(name, now) is not before.get(name, before)]

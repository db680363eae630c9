"""The attributes of the objects that the variables of a loop lead to, which it carries if it changes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import UNSET, Leaf, is_number, share_memory
from onnx_parity.exporter.recording.python_loops.kept_state import objects_within
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.tensors import buffers_of
from onnx_parity.exporter.torch_inside.transforms import is_wrapped

__all__ = ["Attributes", "Changed", "plain_values"]

_PLAIN = frozenset({bool, int, float, str})


class Changed(NamedTuple):
    """An attribute whose value is another one after an iteration."""

    holder: dict[str, Any]
    name: str
    #: Its value before the loop.
    start: Any
    #: What that, a list or a dict, held then.
    held: Any = None


class Attributes:
    """The attributes of the objects among some values, as they are before a loop."""

    def __init__(self, blocks: Blocks, values: Iterable[Any]) -> None:
        self._blocks = blocks
        self.objects = _objects_in(values)
        self._before = [(held, {**held}) for each in self.objects for held in _attributes_of(each)]
        self._containers = [
            (held, name, value, value.copy())
            for held, before in self._before
            for name, value in before.items()
            if type(value) in (list, dict)
        ]
        #: The tensors that the program has made, each with the one of the recorder that it is.
        self._tensors = [
            (held, name, value, blocks.take(value))
            for held, before in self._before
            for name, value in before.items()
            if isinstance(value, torch.Tensor) and is_wrapped(value)
        ]

    def share_memory(self, tensor: torch.Tensor, leaves: Sequence[Leaf]) -> bool:
        """Whether a tensor shares memory with one of the leaves, or with one that is in an attribute."""
        others = [*leaves, *(each for _, _, each, _ in self._tensors)]
        return any(isinstance(each, torch.Tensor) and share_memory(tensor, each) for each in others)

    def changed(self, carried: Collection[tuple[int, str | None]], leaves: Sequence[Leaf]) -> list[Changed]:
        """Those that are not carried yet, and that have another tensor or number, a list or a dict with other items, or
        a tensor that was written to, which no variable leads to."""
        found = [
            Changed(held, name, before.get(name, UNSET))
            for held, before in self._before
            for name, value in held.items()
            if (id(held), name) not in carried and _is_other(value, before.get(name, UNSET))
        ]
        of_variables = {id(leaf) for leaf in leaves}
        found += [
            Changed(holder, name, container, held)
            for holder, name, container, held in self._containers
            if holder.get(name) is container and id(container) not in of_variables and not _holds(container, held)
        ]
        for holder, name, tensor, before in self._tensors:
            is_carried = (id(holder), name) in carried or holder.get(name) is not tensor
            if is_carried or self._blocks.take(tensor) is before or self._has_another_name(tensor, leaves):
                continue
            found.append(Changed(holder, name, self._blocks.give(before)))
        return found

    def _has_another_name(self, tensor: torch.Tensor, leaves: Sequence[Leaf]) -> bool:
        others = [value for held in self._before for value in held[1].values()]
        names = [each for each in (*leaves, *others) if isinstance(each, torch.Tensor) and is_wrapped(each)]
        return sum(share_memory(tensor, each) for each in names) > 1


def _holds(container: Any, held: Any) -> bool:
    """Whether a list or a dict holds still what it held."""
    if len(container) != len(held):
        return False
    if isinstance(container, list):
        return all(one is other for one, other in zip(container, held, strict=True))
    return all(key in held and value is held[key] for key, value in container.items())


def _objects_in(values: Iterable[Any]) -> list[Any]:
    """The objects with attributes that variables lead to."""
    return [each for each in objects_within(values) if hasattr(each, "__dict__")]


def _attributes_of(value: Any) -> list[dict[str, Any]]:
    """The dicts that have the attributes of an object; of a module also its buffers."""
    return [vars(value), buffers_of(value)] if isinstance(value, torch.nn.Module) else [vars(value)]


def _is_other(value: Any, before: Any) -> bool:
    """Whether an attribute has another tensor or number than before, or another list, tuple or dict of these."""
    if type(value) in (int, float):
        return type(before) is not type(value) or value != before
    if value is before or not isinstance(value, (list, tuple, dict)):
        return (isinstance(value, torch.Tensor) or is_number(value)) and value is not before
    leaves, spec = pytree.tree_flatten(value)
    if not leaves or not all(isinstance(leaf, torch.Tensor) or is_number(leaf) for leaf in leaves):
        return False
    known, spec_before = pytree.tree_flatten(before)
    return spec != spec_before or any(_is_other(*pair) for pair in zip(leaves, known, strict=True))


def plain_values(objects: Sequence[Any]) -> dict[tuple[int, str], Any]:
    """The numbers and texts in attributes of objects, and in the lists, dicts and sets there."""
    found: dict[tuple[int, str], Any] = {}
    for each in objects:
        for name, held in vars(each).items():
            if type(held) in _PLAIN:
                found[id(vars(each)), name] = held
            elif type(held) in (list, dict, set):
                items = [*held.values()] if isinstance(held, dict) else [*held]
                found[id(vars(each)), name] = len(items), [item for item in items if type(item) in _PLAIN]
    return found

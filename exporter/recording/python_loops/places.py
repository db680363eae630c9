"""The places whose values a loop of Python may carry: variables, attributes and containers, with their structures."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import msgspec
import torch

from onnx_parity.exporter.containers import closed, opened
from onnx_parity.exporter.expressions.expression import Expression
from onnx_parity.exporter.recording.leaves import UNSET, Leaf
from onnx_parity.exporter.recording.python_loops.columns import is_list
from onnx_parity.exporter.recording.python_loops.grown_list import GrownList, Stacked, Unfilled
from onnx_parity.exporter.recording.python_loops.watched_list import WatchedList
from onnx_parity.exporter.sizes.looped import Parts
from onnx_parity.exporter.sizes.size_node import expression_of_size
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.frames import FrameType
from onnx_parity.exporter.torch_inside.loops.loops_of_python import assign
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__ = [
    "Form",
    "FormOfItems",
    "Place",
    "SharedParts",
    "assign_all",
    "containers_in",
    "copied",
    "fill",
    "items_before",
    "together",
    "with_differing",
    "with_objects_opened",
]


#: The classes of containers whose items a program may change.
_CONTAINERS = (list, WatchedList, dict, OrderedDict, defaultdict)


class FormOfItems(NamedTuple):
    """The structure of the items of a list that loops have filled."""

    spec: pytree.TreeSpec
    #: For each leaf, whether it is a number, and whether its sizes differ from item to item.
    of_numbers: tuple[bool, ...]
    differ: tuple[bool, ...]
    #: How many there are, if they are None.
    length: Expression | None = None
    may_have_none: bool = False

    @classmethod
    def of(cls, items: Stacked) -> FormOfItems:
        length = expression_of_size(items.length) if isinstance(items, Unfilled) else None
        return cls(items.spec, tuple(items.of_numbers), tuple(map(is_list, items.stacks)), length, items.may_have_none)

    def together(self, leaves: Iterator[Leaf]) -> Stacked:
        symbols = recorder_here().fakes.symbols
        if self.length is not None and symbols is not None:
            return Unfilled(symbols.size_of(self.length))
        items = Stacked(self.spec, [next(leaves) for _ in self.of_numbers], self.of_numbers)
        return items.with_none(self.may_have_none)


class Form(NamedTuple):
    """The structure of a value; for each leaf of it that is a list that loops have filled, the structure of an item."""

    spec: pytree.TreeSpec
    lists: tuple[FormOfItems | None, ...]
    #: Whether it is a `torch.Size`, which torch puts together again as a tuple.
    is_size: bool

    @property
    def is_leaf(self) -> bool:
        return self.lists == (None,) and not self.spec.num_children


class Place(msgspec.Struct, eq=False):
    """A variable, an attribute, or a container, whose value a loop may carry."""

    #: The value at the head of the loop: of a container a copy.
    start: Any
    form: Form
    leaves: list[Leaf]
    #: The name of the variable or the attribute; None for a container.
    name: str | None = None
    #: The frame that has the variable, or the dict that has the attribute.
    holder: FrameType | dict[str, Any] | None = None
    container: Any = None
    #: The list whose items it has, if they are carried as a whole.
    container_before: Any = None
    #: The lists that loops have filled within its value before the loop, which are other variables' too.
    lists: list[GrownList] = []
    #: For a list, what the program finds in its place.
    watched: WatchedList | None = None
    #: For a list, how many items an iteration adds, and their structure.
    added: tuple[int, pytree.TreeSpec, tuple[bool, ...]] | None = None
    #: Those leaves of the added items whose sizes differ, by their numbers, with the places that have a list of each.
    differing: dict[int, Place] = {}
    #: Whether each iteration adds these.
    is_added_to_always: bool = True
    #: Whether the body reads the list on one of its paths, and whether it adds to it on one.
    is_read: bool = False
    is_added_to: bool = False
    #: The structures that a variable without a value at first has had.
    forms: list[Form] = []

    @property
    def stacked_leaves(self) -> list[int]:
        """The leaves of the items that are added, by their numbers, whose sizes are the same in all iterations."""
        return [] if self.added is None else [leaf for leaf in range(len(self.added[2])) if leaf not in self.differing]

    def value(self, variables: Mapping[FrameType, Mapping[str, Any]]) -> Any:
        """Its value now: of a container a copy."""
        if self.name is None:
            return copied(self.container)
        held = variables[self.holder] if isinstance(self.holder, FrameType) else self.holder
        return (held or {}).get(self.name, UNSET)


class SharedParts(msgspec.Struct):
    parts: Parts
    #: The tensor before the loop.
    whole: torch.Tensor
    #: Whether the body writes to it, so that the parts that follow are other ones.
    is_written: bool = False


def together(
    form: Form, leaves: Iterator[Leaf], replaced: Mapping[int, list[Any]], lists: Iterable[GrownList] = ()
) -> Any:
    """A value of a structure. Lists that loops have filled are those that are given, with other items, or new ones."""
    parts: list[Any] = []
    own = iter(lists)
    for each in form.lists:
        if each is not None:
            items = each.together(leaves)
            held = next(own, None)
            parts.append(GrownList(items) if held is None else held.become(items))
        else:
            leaf = next(leaves)
            parts.append(replaced.get(id(leaf), leaf))
    value = closed(pytree.tree_unflatten(parts, form.spec))
    return torch.Size(value) if form.is_size else value


def lists_in(value: Any, kept: Container[int] = ()) -> list[GrownList]:
    """The lists that loops have filled within a value, but for those within containers of these identities."""
    parts, _ = pytree.tree_flatten(value, is_leaf=lambda each: id(each) in kept and each is not value)
    return [part for part in parts if isinstance(part, GrownList)]


def with_differing(value: Any, form: Form) -> Any:
    """A list that loops have filled, with those leaves as lists of the model that are such in a structure."""
    of_items = form.lists[0] if len(form.lists) == 1 else None
    return value.with_lists(of_items.differ) if isinstance(value, GrownList) and of_items is not None else value


def with_objects_opened(value: Any, kept: Container[int], before: Sequence[Leaf] = ()) -> Any:
    """A value with the objects of dataclasses within it taken apart, but for those that it had before, and for those
    within containers of these identities."""
    parts, spec = pytree.tree_flatten(value, is_leaf=lambda each: id(each) in kept and each is not value)
    known = {*map(id, before)}
    is_new = [is_dataclass(part) and not isinstance(part, type) and id(part) not in known for part in parts]
    if not any(is_new):
        return value
    return pytree.tree_unflatten(
        [opened(part) if opens else part for part, opens in zip(parts, is_new, strict=True)], spec
    )


def fill(container: Any, value: Any) -> None:
    """Give a container the items of a value, but for those that are not set yet."""
    if isinstance(container, list):
        list.__setitem__(container, slice(None), [*filter(_is_set, list.__getitem__(value, slice(None)))])
    else:
        container.clear()
        container.update({key: held for key, held in value.items() if _is_set(held)})


def items_before(value: Any, start: Any) -> Any:
    """Those items of a list or dict that it had at the start, if others follow them; None otherwise."""
    if len(value) <= len(start):
        return None
    if isinstance(value, list):
        return value[: len(start)]
    return {key: value[key] for key in start} if [*start] == [*value][: len(start)] else None


def _is_set(item: Any) -> bool:
    return all(leaf is not UNSET for leaf in pytree.tree_leaves(item))


def containers_in(value: Any, found: dict[int, Any]) -> None:
    """The lists and dicts in a value, which a program may change."""
    if type(value) in _CONTAINERS and id(value) not in found:
        found[id(value)] = value
    elif not isinstance(value, tuple):
        return
    for each in copied(value).values() if isinstance(value, dict) else copied(value):
        containers_in(each, found)


def assign_all(values: Mapping[int, Any], places: Sequence[Place]) -> None:
    """Give variables and attributes the values that there are for their places, by identity."""
    variables: dict[FrameType, dict[str, Any]] = {}
    for place in places:
        value = values.get(id(place), UNSET)
        if isinstance(place.holder, FrameType):
            if value is not UNSET:
                variables.setdefault(place.holder, {})[str(place.name)] = value
        elif place.holder is not None and value is UNSET:
            place.holder.pop(str(place.name), None)
        elif place.holder is not None:
            place.holder[str(place.name)] = value
    for frame, of_frame in variables.items():
        assign(frame, of_frame)


def copied(container: Any) -> Any:
    """A copy of a container, of which nobody is told."""
    return list.__getitem__(container, slice(None)) if isinstance(container, list) else copy(container)

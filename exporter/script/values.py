"""Values of a script: lists, dicts, tuples and optionals. They are split into leaves, and assembled from leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size, same_shape
from onnx_parity.exporter.recording import recorded_lists
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import EMPTY, UNSET, Leaf

__all__ = [
    "Form",
    "Instance",
    "Maybe",
    "ScriptList",
    "as_sequence",
    "as_stack",
    "form_of",
    "join_forms",
    "known_items",
    "leaves_of",
    "make_value",
    "parts_of",
    "put_back",
    "stacks",
]


class ScriptList(msgspec.Struct, eq=False):
    """A list. It has `items`; or, if their number depends on values, a `stack` of all items along the first axis of one
    tensor; or, if their sizes also differ, a `sequence`, which is a list of the graph.
    """

    items: list[Any] = []
    stack: Leaf = None
    sequence: Leaf = None

    @property
    def is_known(self) -> bool:
        """Whether the number of items does not depend on values."""
        return self.stack is None and self.sequence is None

    def become(self, items: list[Any], stack: Leaf = None, sequence: Leaf = None) -> None:
        """Take the items of another list."""
        self.items, self.stack, self.sequence = items, stack, sequence


class Instance(msgspec.Struct, eq=False):
    """An object of a compiled class."""

    attributes: dict[str, Any] = {}


class Maybe(msgspec.Struct, frozen=True, eq=False):
    """A value that may be None. Whether it is None is only known when the model runs."""

    present: Leaf
    value: Any


@dataclass(frozen=True, slots=True)
class Form:
    """The structure of a value. Two values of the same form differ only in their leaves."""

    kind: str
    parts: tuple[Form, ...] = ()
    keys: tuple[Any, ...] = ()
    #: For a list, the known shapes of its items. Only items of the same shape can be stacked.
    shapes: tuple[Sequence[Size], ...] = field(default=(), compare=False)


_LEAF, _SEQUENCE = Form("leaf"), Form("sequence")
_NONE, _UNSET = Form("none"), Form("unset")


def form_of(value: Any) -> Form:
    match value:
        case None:
            return _NONE
        case ScriptList(items=items, stack=None, sequence=None):
            return Form("list", tuple(map(form_of, items)), shapes=_shapes_in(value))
        case ScriptList():
            return Form("stack", shapes=_shapes_in(value)) if value.sequence is None else _SEQUENCE
        case tuple():
            return Form("tuple", tuple(map(form_of, value)))
        case dict():
            return Form("dict", tuple(map(form_of, value.values())), tuple(value))
        case Instance(attributes=attributes):
            return Form("object", tuple(map(form_of, attributes.values())), tuple(attributes))
        case Maybe(value=inner):
            return Form("maybe", (form_of(inner),))
    return _UNSET if value is UNSET else _LEAF


def join_forms(one: Form, other: Form) -> Form | None:
    """A form to which values of both forms can be converted; None if there is none."""
    if one == other or other is _UNSET:
        return one
    if one is _UNSET:
        return other
    if {one.kind, other.kind} & {"none", "maybe"}:
        inner = join_forms(
            *(_UNSET if form is _NONE else form.parts[0] if form.kind == "maybe" else form for form in (one, other))
        )
        return inner and Form("maybe", (inner,))
    lists = {one.kind, other.kind} <= {"list", "stack", "sequence"}
    if lists and (one.kind != other.kind or len(one.parts) != len(other.parts)):
        if any(part is not _LEAF for part in (*one.parts, *other.parts)):
            return None
        shapes = (*one.shapes, *other.shapes)
        return Form("stack", shapes=shapes) if _SEQUENCE not in (one, other) and _alike(shapes) else _SEQUENCE
    if one.kind != other.kind or one.keys != other.keys or len(one.parts) != len(other.parts):
        return None
    parts = tuple(join_forms(a, b) for a, b in zip(one.parts, other.parts, strict=True))
    return None if None in parts else Form(one.kind, parts, one.keys)  # type: ignore[arg-type]


def _shapes_in(value: ScriptList) -> tuple[Sequence[Size], ...]:
    if value.stack is None:
        return tuple(tuple(item.shape) if isinstance(item, torch.Tensor) else () for item in value.items)
    return () if value.stack is EMPTY else (tuple(value.stack.shape[1:]),)


def _alike(shapes: Sequence[Sequence[Size]]) -> bool:
    return all(same_shape(shapes[0], shape) for shape in shapes[1:])


def stacks(value: ScriptList, *more: ScriptList) -> bool:
    """Whether all items of some lists are known to have the same shape."""
    return value.sequence is None and _alike([shape for each in (value, *more) for shape in _shapes_in(each)])


def leaves_of(value: Any, form: Form, blocks: Blocks) -> Iterator[Leaf]:
    """The leaves of a value in a form that it has or can be converted to."""
    match form.kind:
        case "leaf":
            yield value
        case "stack":
            yield value if value is UNSET else as_stack(value, blocks)
        case "sequence":
            yield value if value is UNSET else as_sequence(value, blocks)
        case "maybe":
            yield value.present if isinstance(value, Maybe) else value is not UNSET and value is not None
            inner = value.value if isinstance(value, Maybe) else UNSET if value is None else value
            yield from leaves_of(inner, form.parts[0], blocks)
        case _:
            for part, item in zip(form.parts, parts_of(value) or [UNSET] * len(form.parts), strict=True):
                yield from leaves_of(item, part, blocks)


def parts_of(value: Any) -> list[Any]:
    """The values in a list, a dict, an object or a tuple; none in any other value."""
    match value:
        case ScriptList(items=items):
            return items
        case dict():
            return list(value.values())
        case Instance(attributes=attributes):
            return list(attributes.values())
        case tuple():
            return list(value)
    return []


def make_value(form: Form, leaves: Iterator[Leaf]) -> Any:
    """A value of this form, made of the leaves."""
    match form.kind:
        case "leaf":
            return next(leaves)
        case "stack":
            return ScriptList([], next(leaves))
        case "sequence":
            return ScriptList(sequence=next(leaves))
        case "none":
            return None
        case "unset":
            return UNSET
        case "maybe":
            return Maybe(next(leaves), make_value(form.parts[0], leaves))
    parts = [make_value(part, leaves) for part in form.parts]
    match form.kind:
        case "list":
            return ScriptList(parts)
        case "tuple":
            return tuple(parts)
        case "dict":
            return dict(zip(form.keys, parts, strict=True))
    return Instance(dict(zip(form.keys, parts, strict=True)))


def put_back(original: Any, value: Any) -> None:
    """Change a container to what a block has made of its own copy."""
    match original:
        case ScriptList():
            assert isinstance(value, ScriptList)
            for old, new in zip(original.items, value.items, strict=False):
                put_back(old, new)
            original.become(_keep_containers(original.items, value.items), value.stack, value.sequence)
        case dict():
            for key in original.keys() & value.keys():
                put_back(original[key], value[key])
            items = dict(
                zip(value, _keep_containers([original.get(key) for key in value], list(value.values())), strict=True)
            )
            original.clear()
            original.update(items)
        case Instance():
            put_back(original.attributes, value.attributes)
        case tuple():
            for old, new in zip(original, value, strict=True):
                put_back(old, new)


def _keep_containers(old: list[Any], new: list[Any]) -> list[Any]:
    """The new items, except that containers that existed before remain the same objects."""
    same = [a if isinstance(a, (ScriptList, dict, Instance)) else b for a, b in zip(old, new, strict=False)]
    return [*same, *new[len(same) :]]


def as_sequence(value: ScriptList, blocks: Blocks) -> Leaf:
    """All items as one list of the graph."""
    if value.sequence is not None:
        return value.sequence
    if value.stack is EMPTY or (value.stack is None and not value.items):
        return EMPTY
    if value.stack is not None:
        return recorded_lists.unstack(blocks, value.stack)
    return recorded_lists.make_list(blocks, [*map(blocks.as_tensor, value.items)])


def as_stack(value: ScriptList, blocks: Blocks) -> Leaf:
    """All items of a list in one tensor."""
    if value.stack is not None:
        return value.stack
    if value.sequence is not None:
        raise blocks.error(
            "the script uses a list whose length depends on values and whose items may differ in size: only torch.cat, "
            "torch.stack, len, append, insert, pop, an index and a loop can be applied to it"
        )
    return torch.stack([*map(blocks.as_tensor, value.items)]) if value.items else EMPTY


def known_items(value: ScriptList, blocks: Blocks, use: str, advice: str) -> list[Any]:
    """The items of a list. The error says what use the script makes of it, and what it can do instead."""
    if not value.is_known:
        raise blocks.error(f"the script {use} a list whose length depends on values: {advice}")
    return value.items

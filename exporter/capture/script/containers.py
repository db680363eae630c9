"""Lists, dicts, tuples and what may be None, as a script holds them: taken apart into leaves, and made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from exporter.capture.blocks import Blocks
from exporter.capture.leaves import EMPTY, UNSET, Leaf

__all__ = [
    "Form",
    "Instance",
    "Maybe",
    "ScriptList",
    "form_of",
    "joined",
    "leaves_of",
    "made_of",
    "put_back",
    "stacked",
]


@dataclass(slots=True, eq=False)
class ScriptList:
    """A list: its items; or, where their number depends on values, all of them in one tensor, along its first axis."""

    items: list[Any] = field(default_factory=list)
    stack: Leaf = None


@dataclass(slots=True, eq=False)
class Instance:
    """An object of a class that was compiled too."""

    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Maybe:
    """A value that may be None: whether there is one is known when the model runs."""

    present: Leaf
    value: Any


@dataclass(frozen=True, slots=True)
class Form:
    """How something is made of leaves. Two things of one form differ in their leaves only."""

    kind: str
    parts: tuple[Form, ...] = ()
    keys: tuple[Any, ...] = ()


_LEAF, _STACK, _NONE, _UNSET = Form("leaf"), Form("stack"), Form("none"), Form("unset")


def form_of(value: Any) -> Form:
    match value:
        case None:
            return _NONE
        case ScriptList(items=items, stack=None):
            return Form("list", tuple(map(form_of, items)))
        case ScriptList():
            return _STACK
        case tuple():
            return Form("tuple", tuple(map(form_of, value)))
        case dict():
            return Form("dict", tuple(map(form_of, value.values())), tuple(value))
        case Instance(attributes=attributes):
            return Form("object", tuple(map(form_of, attributes.values())), tuple(attributes))
        case Maybe(value=inner):
            return Form("maybe", (form_of(inner),))
    return _UNSET if value is UNSET else _LEAF


def joined(one: Form, other: Form) -> Form | None:
    """A form that what has either can be given; None where there is none."""
    if one == other or other is _UNSET:
        return one
    if one is _UNSET:
        return other
    if {one.kind, other.kind} & {"none", "maybe"}:
        inner = joined(
            *(_UNSET if form is _NONE else form.parts[0] if form.kind == "maybe" else form for form in (one, other))
        )
        return inner and Form("maybe", (inner,))
    if {one.kind, other.kind} <= {"list", "stack"} and (one.kind != other.kind or len(one.parts) != len(other.parts)):
        return _STACK if all(part is _LEAF for part in (*one.parts, *other.parts)) else None
    if one.kind != other.kind or one.keys != other.keys or len(one.parts) != len(other.parts):
        return None
    parts = tuple(joined(a, b) for a, b in zip(one.parts, other.parts, strict=True))
    return None if None in parts else Form(one.kind, parts, one.keys)  # type: ignore[arg-type]


def leaves_of(value: Any, form: Form, blocks: Blocks) -> Iterator[Leaf]:
    """The leaves of a value, in a form that it has or can be given."""
    match form.kind:
        case "leaf":
            yield value
        case "stack":
            yield value if value is UNSET else stacked(value, blocks)
        case "maybe":
            yield value.present if isinstance(value, Maybe) else value is not UNSET and value is not None
            inner = value.value if isinstance(value, Maybe) else UNSET if value is None else value
            yield from leaves_of(inner, form.parts[0], blocks)
        case _:
            for part, item in zip(form.parts, _parts_of(value, form), strict=True):
                yield from leaves_of(item, part, blocks)


def _parts_of(value: Any, form: Form) -> list[Any]:
    match value:
        case ScriptList(items=items):
            return items
        case dict():
            return list(value.values())
        case Instance(attributes=attributes):
            return list(attributes.values())
        case tuple():
            return list(value)
    return [UNSET] * len(form.parts)


def made_of(form: Form, leaves: Iterator[Leaf]) -> Any:
    """A value of a form, of these leaves."""
    match form.kind:
        case "leaf":
            return next(leaves)
        case "stack":
            return ScriptList([], next(leaves))
        case "none":
            return None
        case "unset":
            return UNSET
        case "maybe":
            return Maybe(next(leaves), made_of(form.parts[0], leaves))
    parts = [made_of(part, leaves) for part in form.parts]
    match form.kind:
        case "list":
            return ScriptList(parts)
        case "tuple":
            return tuple(parts)
        case "dict":
            return dict(zip(form.keys, parts, strict=True))
    return Instance(dict(zip(form.keys, parts, strict=True)))


def put_back(original: Any, value: Any) -> None:
    """Make a container what a block has made of its own copy of it."""
    match original:
        case ScriptList():
            assert isinstance(value, ScriptList)
            for old, new in zip(original.items, value.items, strict=False):
                put_back(old, new)
            original.items, original.stack = _kept(original.items, value.items), value.stack
        case dict():
            for key in original.keys() & value.keys():
                put_back(original[key], value[key])
            kept = dict(zip(value, _kept([original.get(key) for key in value], list(value.values())), strict=True))
            original.clear()
            original.update(kept)
        case Instance():
            put_back(original.attributes, value.attributes)
        case tuple():
            for old, new in zip(original, value, strict=True):
                put_back(old, new)


def _kept(old: list[Any], new: list[Any]) -> list[Any]:
    """The new items, but containers that were there before stay the objects that they are."""
    same = [a if isinstance(a, (ScriptList, dict, Instance)) else b for a, b in zip(old, new, strict=False)]
    return [*same, *new[len(same) :]]


def stacked(value: ScriptList, blocks: Blocks) -> Leaf:
    """All items of a list in one tensor."""
    if value.stack is not None:
        return value.stack
    if not value.items:
        return EMPTY
    return torch.stack(
        [item if isinstance(item, torch.Tensor) else blocks.give(blocks.tensor(item)) for item in value.items]
    )

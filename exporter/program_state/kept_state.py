"""What a program has changed in its Python objects, by name: attributes, items of lists and dicts, globals, variables.

Most of it is no state, such as caches and counters: whether the program computes with it in a later call is found out
by recording that call (`tracing/second_call.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch

from onnx_parity.exporter.program_state.saved_objects import (
    ABSENT,
    Cell,
    ClassAttributes,
    Entries,
    Globals,
    Items,
    Members,
    Place,
    Slots,
    content_of,
    copied,
)
from onnx_parity.exporter.torch_inside.bytecode import line_writing
from onnx_parity.exporter.torch_inside.code_objects import code_of, names_in, variables_of
from onnx_parity.exporter.torch_inside.tensors import buffers_of, modules_of, parameters_of

__all__ = ["Kept", "changed_in", "named"]

#: The number of objects at which the search for a name ends.
_MOST = 20_000


class Kept(NamedTuple):
    """A part of an object that is another now: the entry of a dict, an attribute, or the object as a whole."""

    holder: Any
    #: The key or the name; None for a whole.
    key: str | int | None


def changed_in(places: Iterable[Place], program: object) -> list[Kept]:
    """What is other than it was, but for the buffers of a module, which a recording replaces."""
    modules = program.modules() if isinstance(program, torch.nn.Module) else ()
    passed = {id(each) for module in modules for each in (buffers_of(module), parameters_of(module))}
    return [each for place in places for each in _changes(place) if id(each.holder) not in passed]


def _changes(place: Place) -> Iterator[Kept]:
    match place:
        case Globals():
            yield from (Kept(place.now, name) for name in place.changed())
        case Entries():
            now, before = copied(place.now), place.before
            if now.keys() != before.keys() or any(now[key] is not before[key] for key in before):
                for key in {**before, **now}:
                    if now.get(key, ABSENT) is not before.get(key, ABSENT):
                        yield Kept(place.now, key if type(key) in (str, int) else None)
        case Items() if [*map(id, place.now)] != [*map(id, place.before)]:
            yield Kept(place.now, None)
        case Members() if {*map(id, place.now)} != {*map(id, place.before)}:
            yield Kept(place.now, None)
        case Cell() if content_of(place.cell) is not place.before:
            yield Kept(place.cell, None)
        case Slots():
            for name, value in place.before.items():
                if getattr(place.owner, name, ABSENT) is not value:
                    yield Kept(place.owner, name)
        case ClassAttributes():
            now = dict(vars(place.cls))
            yield from (Kept(place.cls, n) for n in now if now[n] is not place.before.get(n, ABSENT))


def named(
    changes: Sequence[Kept], program: object, functions: Sequence[FunctionType]
) -> list[tuple[str, tuple[str, int]]]:
    """The names of what has changed, and the file and the line of the program that writes to each; `"", 0` where that
    is not found."""
    paths = _paths(program, functions, {id(each.holder) for each in changes})
    found: dict[str, tuple[str, int]] = {}
    for each in changes:
        path, owner = paths.get(id(each.holder), ("", None))
        is_entry = isinstance(each.holder, dict) and owner is each.holder
        if isinstance(each.holder, type):
            path = each.holder.__qualname__
        last = path.rpartition(".")[2] if each.key is None or is_entry else str(each.key)
        if each.key is not None:
            path = f"{path}[{each.key!r}]" if is_entry else f"{path}.{each.key}" if path else str(each.key)
        if path:
            found.setdefault(path, line_writing(last.partition("[")[0], functions))
    return [*found.items()]


def _paths(program: object, functions: Sequence[FunctionType], wanted: set[int]) -> dict[int, tuple[str, object]]:
    """The paths from a program, and from the globals of its functions, to objects, by their ids, with the object that
    has each as its attributes."""
    found: dict[int, tuple[str, object]] = {}
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque([("", program)])
    for each in functions:
        names = sorted(names_in(code_of(each)) & each.__globals__.keys())
        waiting += [(name, each.__globals__[name]) for name in names]
    while waiting and len(seen) < _MOST and len(found) < len(wanted):
        path, value = waiting.popleft()
        if id(value) in seen or isinstance(value, (torch.Tensor, str, int, float, type, ModuleType)):
            continue
        seen.add(id(value))
        if id(value) in wanted:
            found.setdefault(id(value), (path, value))
        if isinstance(value, dict):
            waiting += [(f"{path}[{key!r}]", each) for key, each in copied(value).items() if type(key) in (str, int)]
        elif isinstance(value, (list, tuple, deque)):
            waiting += [(f"{path}[{place}]", each) for place, each in enumerate(value)]
        elif isinstance(value, MethodType):
            waiting += [(path, value.__self__), (path, value.__func__)]
        elif isinstance(value, FunctionType):
            for name, cell in variables_of(value):
                waiting += [(name, cell), (name, content_of(cell))]
        else:
            attributes = getattr(value, "__dict__", None)
            if isinstance(attributes, dict):
                if id(attributes) in wanted:
                    found.setdefault(id(attributes), (path, value))
                prefix = f"{path}." if path else ""
                waiting += [(f"{prefix}{name}", each) for name, each in attributes.items() if name[:1] != "_"]
                waiting += [(f"{prefix}{name}", each) for name, each in attributes.items() if name[:1] == "_"]
                if isinstance(value, torch.nn.Module):
                    waiting.extendleft((f"{prefix}{name}", each) for name, each in modules_of(value).items())
    return found

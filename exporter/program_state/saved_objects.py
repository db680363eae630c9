"""Objects that a program can write to, with their contents before a recording, which are restored after it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, MutableSequence, Set
from operator import is_
from types import MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

import msgspec

from onnx_parity.exporter.torch_inside.code_objects import CachedFunction, CellType, empty, fill, filled_with
from onnx_parity.exporter.torch_inside.garbage import get_referents
from onnx_parity.exporter.torch_inside.patch import is_replacement

__all__ = [
    "ABSENT",
    "Cache",
    "Cell",
    "ClassAttributes",
    "Entries",
    "Globals",
    "Items",
    "Kept",
    "Members",
    "Place",
    "Slots",
    "content_now",
    "content_of",
    "copied",
    "slots_of",
]

ABSENT: Any = object()


class Kept(NamedTuple):
    """A part of an object that is another now: the entry of a dict, an attribute, or the object as a whole."""

    holder: Any
    #: The key or the name; None for a whole.
    key: str | int | None


class Place(msgspec.Struct, eq=False):
    """An object that can be written to, and its contents when it was saved."""

    def changes(self) -> Iterator[Kept]:
        """What is other than it was, as far as a later call may compute with it."""
        raise NotImplementedError

    def new_values(self) -> Iterator[Any]:
        """What it holds now that it did not hold."""
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError


class Entries(Place, eq=False):
    now: dict[Any, Any]
    before: dict[Any, Any]

    def _is_changed(self) -> bool:
        now, before = copied(self.now), self.before
        return len(now) != len(before) or not _same(now.values(), before.values()) or not _same(now, before)

    def changes(self) -> Iterator[Kept]:
        now, before = copied(self.now), self.before
        for key in {**before, **now}:
            if now.get(key, ABSENT) is not before.get(key, ABSENT):
                yield Kept(self.now, key if type(key) in (str, int) else None)

    def new_values(self) -> Iterator[Any]:
        if self._is_changed():
            for key, value in copied(self.now).items():
                if self.before.get(key, ABSENT) is not value:
                    yield key
                    yield value

    def restore(self) -> None:
        if not self._is_changed():
            return
        # Entry by entry, because other threads may read the globals of a file in the meantime.
        write = _base(self.now)
        for key in [key for key in copied(self.now) if key not in self.before]:
            write.__delitem__(self.now, key)
        for key, value in self.before.items():
            write.__setitem__(self.now, key, value)
        if not _same(copied(self.now), self.before):
            write.clear(self.now)
            write.update(self.now, self.before)


class Globals(Place, eq=False):
    """Globals of a file that functions name."""

    now: dict[str, Any]
    names: set[str] = set()
    before: dict[str, Any] = {}
    #: Names that were not saved yet.
    named: list[Set[str]] = []

    def save_named(self) -> tuple[Set[str], list[Any]]:
        """Save the values of the names that were not saved yet, and return these names and values."""
        names = set().union(*self.named)
        names -= self.names
        self.named.clear()
        self.names |= names
        values = {name: self.now[name] for name in names & self.now.keys()}
        self.before |= values
        return names, [*values.values()]

    def changed(self) -> list[str]:
        """The names whose value is another, or is there now and was not, or the other way round."""
        now, before = self.now, self.before
        changed = [name for name, value in before.items() if now.get(name, ABSENT) is not value]
        added = (self.names & now.keys()) - before.keys()
        # A module that the program has imported stays: another import would not put it there again.
        return [*changed, *(name for name in added if type(now[name]) is not ModuleType)]

    def changes(self) -> Iterator[Kept]:
        yield from (Kept(self.now, name) for name in self.changed())

    def new_values(self) -> Iterator[Any]:
        yield from [self.now[name] for name in self.changed() if name in self.now]

    def restore(self) -> None:
        for name in self.changed():
            if name in self.before:
                self.now[name] = self.before[name]
            else:
                del self.now[name]


class Cache(Place, eq=False):
    """What `functools.lru_cache` keeps. It can only be emptied, which costs no more than computing it again."""

    cache: CachedFunction[Any]
    misses: int

    def changes(self) -> Iterator[Kept]:
        return iter(())  # What it gives is what it would compute.

    def new_values(self) -> Iterator[Any]:
        if self.cache.cache_info().misses != self.misses:
            # It has no other way to its entries.
            yield from get_referents(self.cache)

    def restore(self) -> None:
        if self.cache.cache_info().misses != self.misses:
            self.cache.cache_clear()


class Items(Place, eq=False):
    now: MutableSequence[Any]
    before: list[Any]

    def _is_changed(self) -> bool:
        return len(self.now) != len(self.before) or not _same(list(self.now), self.before)

    def changes(self) -> Iterator[Kept]:
        if self._is_changed():
            yield Kept(self.now, None)

    def new_values(self) -> Iterator[Any]:
        if self._is_changed():
            known = set(map(id, self.before))
            yield from [item for item in list(self.now) if id(item) not in known]

    def restore(self) -> None:
        if self._is_changed():
            self.now.clear()
            self.now.extend(self.before)


class Members(Place, eq=False):
    now: set[Any]
    before: set[Any]

    def _is_changed(self) -> bool:
        return set(map(id, list(self.now))) != set(map(id, self.before))

    def changes(self) -> Iterator[Kept]:
        if self._is_changed():
            yield Kept(self.now, None)

    def new_values(self) -> Iterator[Any]:
        known = set(map(id, self.before))
        yield from [item for item in list(self.now) if id(item) not in known]

    def restore(self) -> None:
        if self._is_changed():
            self.now.clear()
            self.now.update(self.before)


class Cell(Place, eq=False):
    """A variable in the closure of a function."""

    cell: CellType
    before: Any

    def changes(self) -> Iterator[Kept]:
        if content_of(self.cell) is not self.before:
            yield Kept(self.cell, None)

    def new_values(self) -> Iterator[Any]:
        now = content_of(self.cell)
        if now is not self.before:
            yield now

    def restore(self) -> None:
        if content_of(self.cell) is self.before:
            return
        if self.before is ABSENT:
            empty(self.cell)
        else:
            fill(self.cell, self.before)


class ClassAttributes(Place, eq=False):
    cls: type
    before: dict[str, Any]

    def changes(self) -> Iterator[Kept]:
        now = dict(vars(self.cls))
        changed = [name for name in now if now[name] is not self.before.get(name, ABSENT)]
        yield from (Kept(self.cls, name) for name in changed if not is_replacement(now[name]))

    def new_values(self) -> Iterator[Any]:
        now = dict(vars(self.cls))
        yield from [value for name, value in now.items() if self.before.get(name, ABSENT) is not value]

    def restore(self) -> None:
        now = dict(vars(self.cls))
        for name in now.keys() | self.before.keys():
            _set(self.cls, name, now.get(name, ABSENT), self.before.get(name, ABSENT), type)


class Slots(Place, eq=False):
    owner: Any
    before: dict[str, Any]

    def changes(self) -> Iterator[Kept]:
        for name, value in self.before.items():
            if getattr(self.owner, name, ABSENT) is not value:
                yield Kept(self.owner, name)

    def new_values(self) -> Iterator[Any]:
        now = {name: getattr(self.owner, name, ABSENT) for name in self.before}
        yield from [value for name, value in now.items() if self.before[name] is not value]

    def restore(self) -> None:
        for name, before in self.before.items():
            # `setattr` would fail for a frozen dataclass.
            _set(self.owner, name, getattr(self.owner, name, ABSENT), before, object)


def _base(entries: dict[Any, Any]) -> type[dict[Any, Any]]:
    """The class whose methods read and write the entries, so that overriding methods of a subclass are not called."""
    return OrderedDict if isinstance(entries, OrderedDict) else dict


def copied(entries: dict[Any, Any]) -> dict[Any, Any]:
    return dict(_base(entries).items(entries))


def _set(owner: Any, name: str, now: Any, before: Any, by: Any) -> None:
    if now is before:
        return
    if before is ABSENT:
        by.__delattr__(owner, name)
    else:
        by.__setattr__(owner, name, before)


def _same(now: Iterable[Any], before: Iterable[Any]) -> bool:
    """Whether two sequences of the same length contain the same objects."""
    return all(map(is_, now, before))


def content_of(cell: CellType) -> Any:
    return filled_with(cell, ABSENT)


def slots_of(cls: type) -> list[str]:
    """The names of the slots of an object. A property of a subclass that has the name of a slot is none: what it makes
    is new each time."""
    slots = (vars(base).get("__slots__", ()) for base in cls.__mro__)
    names = [name for each in slots for name in ([each] if isinstance(each, str) else each) if name[:2] != "__"]
    return [name for name in names if isinstance(_attribute_of(cls, name), MemberDescriptorType)]


def _attribute_of(cls: type, name: str) -> object:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def content_now(holder: Any, key: str | int | None) -> int:
    """The identity of what is at a place; of a whole that of all that it has."""
    if key is None:
        items = [content_of(holder)] if isinstance(holder, CellType) else [*holder]
        return hash(tuple(map(id, items)))
    return id(holder.get(key) if isinstance(holder, dict) else getattr(holder, str(key), None))

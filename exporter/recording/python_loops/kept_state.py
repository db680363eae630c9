"""What the variables of a loop lead to besides tensors and numbers: flags, texts, and containers of other kinds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import torch

__all__ = ["KeptState", "objects_within"]

#: What has no state of its own that is looked at.
_OTHERS = (
    torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, type,
    FunctionType, BuiltinFunctionType, MethodType, ModuleType,
)  # fmt: skip
_CONTAINERS = (list, tuple, set, frozenset, deque, bytearray, dict, MappingProxyType)
_FLAGS = frozenset({bool, str, bytes, type(None)})
_PLAIN = _FLAGS | {int, float}
#: How many objects are looked at.
_MOST = 2000


class KeptState:
    """The state of the objects that some values lead to, as it is before a loop.

    Containers whose identities are among the carried ones are left out, and so are numbers in attributes, which a loop
    carries too.
    """

    def __init__(
        self,
        values: Iterable[Any],
        carried: Set[int],
        named: Sequence[tuple[Mapping[str, Any], str]] = (),
        changes: Callable[[], Mapping[Any, int]] = dict,
    ) -> None:
        """`named` are globals and attributes of classes, each with what has it. `changes` returns what is now where the
        program has changed the objects that it had before the recording, closures among them."""
        self._named = [(holder, name, holder.get(name)) for holder, name in named]
        own = objects_within(values, carried)
        self._objects = own + objects_within([value for *_, value in self._named], carried | {*map(id, own)})
        self._before = [*map(_state, self._objects)]
        self._changes, self._changed = changes, changes()

    def leave_out(self, container: Any) -> None:
        """Do not look at a container any more."""
        places = [number for number, each in enumerate(self._objects) if each is not container]
        self._objects = [self._objects[number] for number in places]
        self._before = [self._before[number] for number in places]

    def has_changed(self, carried: Set[tuple[int, str | None]], containers: Set[int]) -> bool:
        """Whether the program has changed one of the objects, apart from the attributes, and the containers with these
        identities, that are carried."""
        if any(holder.get(name) is not value for holder, name, value in self._named):
            return True
        now = self._changes()
        others = [each for each in {*now, *self._changed} - carried if each[0] not in containers]
        if any(now.get(each) != self._changed.get(each) for each in others):
            return True
        return any(
            _without(carried, each, _state(each)) != _without(carried, each, before)
            for each, before in zip(self._objects, self._before, strict=True)
        )


def _without(carried: Set[tuple[int, str | None]], value: Any, state: Any) -> Any:
    """The state of an object, without the attributes that are carried."""
    if isinstance(value, _CONTAINERS):
        return state
    holder = id(vars(value))
    return {name: each for name, each in state.items() if (holder, name) not in carried}


def objects_within(values: Iterable[Any], but: Set[int] = frozenset()) -> list[Any]:
    """The containers and the objects with attributes that some values lead to, but for those with these identities."""
    found: list[Any] = []
    waiting, seen = deque(values), {*but}
    while waiting and len(found) < _MOST:
        value = waiting.popleft()
        if type(value) in _PLAIN or isinstance(value, _OTHERS) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, _CONTAINERS):
            waiting.extend(_items(value))
        elif hasattr(value, "__dict__"):
            waiting.extend(vars(value).values())
        else:
            continue
        found.append(value)
    return found


def _items(container: Any) -> list[Any]:
    """What a container holds, by the methods of Python's own classes: those of a class that is derived from them may do
    anything, such as importing all modules of a library."""
    if isinstance(container, dict):
        return [*dict.keys(container), *dict.values(container)]
    if isinstance(container, MappingProxyType):
        return [*container, *container.values()]
    return [*next(each for each in _CONTAINERS if isinstance(container, each)).__iter__(container)]


def _state(value: Any) -> Any:
    if not isinstance(value, _CONTAINERS):
        return {name: each for name, each in vars(value).items() if type(each) in _FLAGS}
    items = _items(value)
    plain = [each for each in items if type(each) in _PLAIN]
    return len(items), {*plain} if isinstance(value, (set, frozenset)) else plain

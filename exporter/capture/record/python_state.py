"""The contents of the Python objects that a program can reach, saved before a recording and restored after it.

Modules are restored by `module_state.py`. This file covers everything else that a program may write to: dicts, lists,
objects, closures, attributes of classes, and the globals of the program's files. Tensors are not copied, because writes
to the program's own tensors are refused.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import OrderedDict, UserDict, UserList, deque
from collections.abc import Iterable, MutableSequence
from dataclasses import dataclass
from pathlib import Path
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch

__all__ = ["PythonState"]

#: The number of values at which the search ends. Programs of a thousand modules have a tenth; data sets have more.
_MOST = 20_000

_ABSENT: Any = object()
#: Types whose values contain nothing that a program can write to.
_ATOMS = frozenset(
    {
        int, float, complex, bool, str, bytes, type(None), torch.Tensor, torch.nn.Parameter, torch.dtype, torch.device,
        torch.Size, torch.Generator, range, slice, type(len), type(Ellipsis), type(NotImplemented),
    }
)  # fmt: skip
#: The attributes that every module has. Programs do not store their own values in them.
_STANDARD = frozenset(vars(torch.nn.Module()))
#: Packages whose modules do not store what a program computes.
_LIBRARIES = frozenset(
    {
        "torch",
        "torchvision",
        "numpy",
        "onnx",
        "onnxruntime",
        "onnx_ir",
        "onnx_parity",
        "sympy",
        *sys.stdlib_module_names,
    }
) - {"__main__"}
_PACKAGES_OF_SCRIPTS = frozenset({"__main__", "__mp_main__"})
#: Folders that packages are installed into.
_INSTALLED = frozenset({"site-packages", "dist-packages"})
#: Tuples instead of unions, because `issubclass` takes much longer with a union.
_LISTS, _FIXED = (list, deque), (tuple, frozenset)
#: Classes of the standard library whose objects contain what programs put into them.
_CONTAINERS = (SimpleNamespace, UserDict, UserList, threading.local, functools.partial)


class PythonState:
    """The contents of all objects that are reachable from some objects, as they were when this was created."""

    def __init__(self, roots: Iterable[Any], *, follows_code: bool = False) -> None:
        """With `follows_code`, also the attributes of classes, and the globals, defaults and closures of functions."""
        self._follows_code = follows_code
        self._places: list[_Place] = []
        self._waiting: deque[Any] = deque()
        self._seen: set[int] = set()
        self._left = _MOST
        #: The packages that the program is written in. Other installed packages are not saved, because others use them.
        self._packages = set(_PACKAGES_OF_SCRIPTS)
        roots = list(roots)
        for root in roots:
            self._packages.add(_package(getattr(root, "__module__", None)))
            self._packages.add(_package(type(root).__module__))
        self._packages -= _LIBRARIES
        self._wait_for(roots)
        while self._waiting and self._left > 0:
            self._look_into(self._waiting.popleft())

    def restore(self) -> None:
        """Restore the contents of all objects."""
        for place in self._places:
            place.restore()

    def _is_users(self, module: str | None) -> bool:
        """Whether a module belongs to the program, rather than to Python or to an installed package."""
        package = _package(module)
        return package in self._packages or not _is_installed(package)

    def _wait_for(self, values: Iterable[Any]) -> None:
        waiting = [value for value in values if type(value) not in _ATOMS]
        self._left -= len(waiting)
        self._waiting.extend(waiting)

    def _look_into(self, value: Any) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        # isinstance is avoided, because it would load objects that are only imported when they are first used.
        kind = type(value)
        if issubclass(kind, torch.nn.Module):
            self._look_into_module(value)
        elif issubclass(kind, dict):
            self._save_dict(value)
        elif issubclass(kind, _LISTS):
            items = list(value)
            self._places.append(_Items(value, items))
            self._wait_for(items)
        elif issubclass(kind, set):
            self._places.append(_Set(value, set(value)))
        elif issubclass(kind, _FIXED):
            self._wait_for(value)
        elif kind is FunctionType:
            self._look_into_function(value)
        elif kind is MethodType:
            self._wait_for((value.__self__, value.__func__))
        elif kind is staticmethod or kind is classmethod:
            self._wait_for((value.__func__,))
        elif issubclass(kind, type):
            self._look_into_class(value)
        elif not issubclass(kind, ModuleType):
            self._look_into_object(value)
        elif self._follows_code and self._is_users(vars(value).get("__name__")):
            self._save_dict(vars(value))

    def _save_dict(self, saved: dict[Any, Any]) -> None:
        values = _copied(saved)
        self._places.append(_Entries(saved, values))
        self._wait_for(values.values())

    def _look_into_module(self, module: torch.nn.Module) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            return
        self._waiting.extend(module._modules.values())
        if _package(type(module).__module__) in _LIBRARIES:
            return
        self._packages.add(_package(type(module).__module__))
        attributes = module.__dict__
        self._places += [_Entries(attributes, attributes.copy()), _Entries(module._buffers, module._buffers.copy())]
        if len(attributes) > len(_STANDARD):
            self._wait_for([attributes[name] for name in attributes.keys() - _STANDARD])
        if id(type(module)) not in self._seen:
            self._waiting.append(type(module))

    def _look_into_function(self, function: FunctionType) -> None:
        if not self._follows_code or not self._is_users(function.__module__):
            return
        self._wait_for(function.__defaults__ or ())
        self._wait_for((function.__kwdefaults__ or {}).values())
        for cell in function.__closure__ or ():
            content = _content(cell)
            self._places.append(_Cell(cell, content))
            self._wait_for((content,))
        if vars(function):
            self._save_dict(vars(function))
        if id(function.__globals__) not in self._seen:
            self._seen.add(id(function.__globals__))
            self._save_dict(function.__globals__)

    def _look_into_class(self, cls: type) -> None:
        if self._follows_code and self._is_users(cls.__module__):
            attributes = dict(vars(cls))
            self._places.append(_ClassAttributes(cls, attributes))
            self._wait_for(attributes.values())
            self._wait_for(cls.__bases__)

    def _look_into_object(self, value: Any) -> None:
        cls = type(value)
        if not self._is_users(cls.__module__) and not isinstance(value, _CONTAINERS):
            if isinstance(value, functools._lru_cache_wrapper):
                self._wait_for((value.__wrapped__,))
            return
        if isinstance(value, functools.partial):
            self._wait_for((value.func, *value.args, *value.keywords.values()))
            return
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._save_dict(attributes)
        slots = {name: getattr(value, name, _ABSENT) for name in _slots(cls)}
        if slots:
            self._places.append(_Slots(value, slots))
            self._wait_for(slots.values())
        self._wait_for((cls,))


class _Place:
    """An object that can be written to, and its contents when it was saved."""

    __slots__ = ()

    def restore(self) -> None:
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class _Entries(_Place):
    now: dict[Any, Any]
    before: dict[Any, Any]

    def _is_changed(self) -> bool:
        now, before = _copied(self.now), self.before
        return len(now) != len(before) or not _same(now.values(), before.values()) or not _same(now, before)

    def restore(self) -> None:
        if not self._is_changed():
            return
        # Entry by entry, because other threads may read the globals of a file in the meantime.
        write = _base(self.now)
        for key in [key for key in _copied(self.now) if key not in self.before]:
            write.__delitem__(self.now, key)
        for key, value in self.before.items():
            write.__setitem__(self.now, key, value)
        if not _same(_copied(self.now), self.before):
            write.clear(self.now)
            write.update(self.now, self.before)


@dataclass(slots=True, eq=False)
class _Items(_Place):
    now: MutableSequence[Any]
    before: list[Any]

    def restore(self) -> None:
        if len(self.now) != len(self.before) or not _same(list(self.now), self.before):
            self.now.clear()
            self.now.extend(self.before)


@dataclass(slots=True, eq=False)
class _Set(_Place):
    now: set[Any]
    before: set[Any]

    def restore(self) -> None:
        if set(map(id, list(self.now))) != set(map(id, self.before)):
            self.now.clear()
            self.now.update(self.before)


@dataclass(slots=True, eq=False)
class _Cell(_Place):
    """A variable in the closure of a function."""

    cell: CellType
    before: Any

    def restore(self) -> None:
        if _content(self.cell) is self.before:
            return
        if self.before is _ABSENT:
            del self.cell.cell_contents
        else:
            self.cell.cell_contents = self.before


@dataclass(slots=True, eq=False)
class _ClassAttributes(_Place):
    cls: type
    before: dict[str, Any]

    def restore(self) -> None:
        now = dict(vars(self.cls))
        for name in now.keys() | self.before.keys():
            _set(self.cls, name, now.get(name, _ABSENT), self.before.get(name, _ABSENT), type)


@dataclass(slots=True, eq=False)
class _Slots(_Place):
    owner: Any
    before: dict[str, Any]

    def restore(self) -> None:
        for name, before in self.before.items():
            # `setattr` would fail for a frozen dataclass.
            _set(self.owner, name, getattr(self.owner, name, _ABSENT), before, object)


def _base(entries: dict[Any, Any]) -> type[dict[Any, Any]]:
    """The class whose methods read and write the entries, so that overriding methods of a subclass are not called."""
    return OrderedDict if isinstance(entries, OrderedDict) else dict


def _copied(entries: dict[Any, Any]) -> dict[Any, Any]:
    return dict(_base(entries).items(entries))


def _set(owner: Any, name: str, now: Any, before: Any, by: Any) -> None:
    if now is before:
        return
    if before is _ABSENT:
        by.__delattr__(owner, name)
    else:
        by.__setattr__(owner, name, before)


def _same(now: Iterable[Any], before: Iterable[Any]) -> bool:
    """Whether two sequences of the same length contain the same objects."""
    return all(one is other for one, other in zip(now, before, strict=False))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # The cell is empty.
        return _ABSENT


def _slots(cls: type) -> list[str]:
    slots = (vars(base).get("__slots__", ()) for base in cls.__mro__)
    names = [name for each in slots for name in ([each] if isinstance(each, str) else each)]
    return [name for name in names if name not in ("__dict__", "__weakref__") and not name.startswith("__")]


def _package(module: str | None) -> str:
    return (module or "").partition(".")[0]


@functools.cache
def _is_installed(package: str) -> bool:
    """Whether a package belongs to Python or is installed in `site-packages`, rather than being part of the program."""
    if package in _PACKAGES_OF_SCRIPTS:
        return False
    if package in _LIBRARIES or package in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return not _INSTALLED.isdisjoint(Path(file).parts)

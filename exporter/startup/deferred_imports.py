"""Placeholders for modules that are slow to import and that few programs need.

onnx_ir imports sympy for sizes that are expressions, which programs with static sizes never use, and onnx imports its
checker and its schemas, which an export does not ask. Such imports were most of a process's first export of a small
model. A placeholder is in `sys.modules` only within `standing_in`, so code that imports the module at any other time
gets the real one, as does code that asks the module's package for it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

__all__ = ["StandIn", "standing_in"]


#: By packages: their attributes that are imported when they are asked for, with the module and what is taken from it.
_deferred: dict[str, dict[str, tuple[str, Later | None]]] = {}


class Later:
    """Stands for an object that a package takes from a module (`from module import name`) until it is used."""

    def __init__(self, module: str, name: str) -> None:
        self.taken_from = module
        self.name = name

    def found(self) -> Any:
        value = getattr(importlib.import_module(self.taken_from), self.name)
        if "__module__" in vars(self):
            # onnx_ir lets its public classes name the package as their module.
            value.__module__ = self.__module__
        return value


class StandIn(ModuleType):
    """A placeholder for a module. Access to an attribute other than the `known` ones imports the module."""

    def __init__(self, name: str, *, later: Collection[str] = (), **known: Any) -> None:
        """`later` are names that the module's package takes from it and that it only uses when it is asked for them."""
        super().__init__(name)
        vars(self).update(known)
        vars(self).update((each, Later(name, each)) for each in later)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{self.__name__} has not been imported yet, so it has no attribute {name}")
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


@contextmanager
def standing_in(*modules: str | StandIn) -> Iterator[None]:
    """A context in which an import of these modules gives a placeholder.

    Modules that are already imported are not replaced. A module inside of another comes after it.
    """
    stand_ins = [StandIn(module) if isinstance(module, str) else module for module in modules]
    put = [stand_in for stand_in in stand_ins if stand_in.__name__ not in sys.modules]
    for stand_in in put:
        sys.modules[stand_in.__name__] = stand_in
        package, last = _split(stand_in.__name__)
        if package is not None:
            vars(package).setdefault(last, stand_in)
    try:
        yield
    finally:
        for stand_in in reversed(put):
            if sys.modules.get(stand_in.__name__) is stand_in:
                del sys.modules[stand_in.__name__]
            _import_when_asked_for(stand_in)


def _split(name: str) -> tuple[ModuleType | None, str]:
    """The package of a module, if it has been imported, and the module's name in it."""
    package, _, last = name.rpartition(".")
    return sys.modules.get(package), last


def _import_when_asked_for(stand_in: StandIn) -> None:
    """Let the module's package import it when it is asked for the module, or for what it takes from it."""
    package, last = _split(stand_in.__name__)
    if package is None or isinstance(package, StandIn):
        return
    held = vars(package)
    if held.get(last, stand_in) is stand_in:
        held.pop(last, None)
        if stand_in.__name__ in sys.modules:
            held[last] = sys.modules[stand_in.__name__]
        else:
            _defer(package, last, stand_in.__name__)
    for later in [value for value in vars(stand_in).values() if isinstance(value, Later)]:
        if held.get(later.name) is later:
            del held[later.name]
            _defer(package, later.name, later.taken_from, later)


def _defer(package: ModuleType, name: str, module: str, later: Later | None = None) -> None:
    deferred = _deferred.setdefault(package.__name__, {})
    if not deferred:
        other = vars(package).get("__getattr__")

        def ask(asked: str) -> Any:
            found = deferred.get(asked)
            if found is not None:
                return _imported(package, asked, *found)
            if other is not None:
                return other(asked)
            raise AttributeError(f"module {package.__name__!r} has no attribute {asked!r}")

        vars(package)["__getattr__"] = ask
    deferred[name] = module, later


def _imported(package: ModuleType, name: str, module: str, later: Later | None) -> Any:
    try:
        value = importlib.import_module(module) if later is None else later.found()
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}") from error
    setattr(package, name, value)
    return value

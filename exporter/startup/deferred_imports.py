"""Placeholders for modules that are slow to import and that few programs need.

onnx_ir imports sympy for sizes that are expressions, which programs with static sizes never use. This import takes
0.2 s, which was half of a process's first export of a small model. A placeholder is in `sys.modules` only within
`standing_in`, so code that imports the module at any other time gets the real one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

__all__ = ["StandIn", "standing_in"]


#: Modules that their packages import when they are asked for the attribute.
_asked_for: set[str] = set()


class StandIn(ModuleType):
    """A placeholder for a module. Access to an attribute other than the `known` ones imports the module."""

    def __init__(self, name: str, **known: Any) -> None:
        super().__init__(name)
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{self.__name__} has not been imported yet, so it has no attribute {name}")
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


@contextmanager
def standing_in(*names: str, **known: Any) -> Iterator[None]:
    """A context in which an import of these modules gives a placeholder with the attributes in `known`.

    Modules that are already imported are not replaced.
    """
    put = [name for name in names if name not in sys.modules]
    sys.modules.update((name, StandIn(name, **known)) for name in put)
    try:
        yield
    finally:
        for name in put:
            if isinstance(sys.modules.get(name), StandIn):
                del sys.modules[name]
                _import_when_asked_for(name)


def _import_when_asked_for(name: str) -> None:
    """Let a package import the module `name` when it is asked for the attribute, which `import a.b` has not set."""
    package, _, last = name.rpartition(".")
    within = sys.modules.get(package)
    if within is None or last in vars(within) or name in _asked_for:
        return
    _asked_for.add(name)
    other = vars(within).get("__getattr__")

    def ask(asked: str) -> Any:
        if asked == last:
            return importlib.import_module(name)
        if other is not None:
            return other(asked)
        raise AttributeError(f"module {package!r} has no attribute {asked!r}")

    vars(within)["__getattr__"] = ask

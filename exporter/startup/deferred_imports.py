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
            placeholder = sys.modules.get(name)
            if isinstance(placeholder, StandIn):
                del sys.modules[name]
                # `import a.b` finds the module as an attribute of `a`, which Python sets when it imports the real one.
                package, _, last = name.rpartition(".")
                if package in sys.modules and not hasattr(sys.modules[package], last):
                    setattr(sys.modules[package], last, placeholder)

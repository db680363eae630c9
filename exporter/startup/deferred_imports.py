"""Stand-ins for modules that are slow to import, and that few programs need.

onnx_ir imports sympy at its top, 0.2 s, for sizes that are expressions. That was half of a process's first export of a
small model of static sizes. Nothing stands in `sys.modules` but while who needs none of it imports it, or asks one
question: others have the real one.
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
    """Whatever is asked of it and is not known beforehand imports the module, and is remembered."""

    def __init__(self, name: str, **known: Any) -> None:
        super().__init__(name)
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{self.__name__} has not been imported yet, and so has no {name}")
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


@contextmanager
def standing_in(*names: str, **known: Any) -> Iterator[None]:
    """Who imports these gets stand-ins, which know this much of them, but for those that were imported before."""
    put = [name for name in names if name not in sys.modules]
    sys.modules.update((name, StandIn(name, **known)) for name in put)
    try:
        yield
    finally:
        for name in put:
            if isinstance(sys.modules.get(name), StandIn):
                del sys.modules[name]

"""A loader of a module that calls a function as soon as the module is there, before other threads can use it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["LoaderAndThen"]


class LoaderAndThen(Loader):
    """Loads a module as its own loader does, and then calls a function."""

    def __init__(self, loader: Loader, afterwards: Callable[[], None]) -> None:
        self._loader = loader
        self._afterwards = afterwards

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        # What the module learns about its origin is what it learns otherwise.
        spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._afterwards()

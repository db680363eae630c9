"""Imports that wait until the module is used: of sympy, 0.2 s, which programs of static sizes need nothing of.

onnx_ir imports it at its top, and torch's fake tensors at every operator. That is half of what a process's first export
takes. Here `import sympy` makes the module, with its place and its name, and its code runs when something of it is
asked for: an attribute, or a module inside of it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["defer"]

_lock = threading.RLock()
_running: list[ModuleType] = []


def defer(*names: str) -> None:
    """Put off the imports of these, which is of no effect on those that were imported before."""
    sys.meta_path.insert(0, _Finder(frozenset(names)))


class _Deferred(ModuleType):
    """A module whose code has not run, or is running."""

    def __getattr__(self, name: str) -> Any:
        _run(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def _run(module: ModuleType) -> None:
    """Run the module's code. Other threads wait for that; the one that does so sees what there is by now."""
    with _lock:
        deferring = module.__loader__
        if not isinstance(deferring, _Deferring) or module in _running:
            return
        _running.append(module)
        try:
            deferring.loader.exec_module(module)
        finally:
            _running.remove(module)
        # It is the module that it would have been.
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = deferring.loader
        module.__class__ = ModuleType


class _Finder(MetaPathFinder):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self._names and fullname not in sys.modules:
            spec = PathFinder.find_spec(fullname, path)
            if spec is not None and spec.loader is not None:
                spec.loader = _Deferring(spec.loader)
            return spec
        package = sys.modules.get(fullname.partition(".")[0])
        if isinstance(package, _Deferred) and fullname not in sys.modules:
            # The package's code comes before that of what is inside of it, which it mostly imports itself.
            _run(package)
            if fullname in sys.modules:
                return _spec_as_is(sys.modules[fullname])
        return None


class _Deferring(Loader):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual one."""

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Deferred


class _AsItIs(Loader):
    """Of a module that was imported while it was looked for."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def _spec_as_is(module: ModuleType) -> ModuleSpec:
    spec = ModuleSpec(module.__name__, _AsItIs(module))
    # Of a module that is there by now, importlib goes by the module's own.
    module.__spec__ = spec
    return spec

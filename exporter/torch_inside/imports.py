"""Modules that have been imported, and placeholders for modules that are slow to import and that few programs need.

onnx_ir imports sympy for sizes that are expressions, which programs with static sizes never use, and onnx for its
messages, which an export does not create. Such imports were most of a process's first export of a small model. A
placeholder is in `sys.modules` only within `standing_in`, so code that imports the module at any other time gets the
real one, as does code that asks the module's package for it. What has got a placeholder imports the real module when it
asks for one of its attributes.

A package may also take objects out of such a module (`from onnx_ir._multi_device import ShardingSpec`), without using
them. It gets a `Later` for each, which is taken out of it when it has been imported: the package then imports the
module when it is asked for the object. Other threads do not see a `Later`, for they wait until the package has been
imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from functools import cache
from importlib._bootstrap import _DeadlockError, _ModuleLockManager  # type: ignore[attr-defined]
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

__all__ = [
    "LoaderAndThen", "StandIn", "add_finders", "attribute_of", "file_of_module", "imported", "is_imported",
    "load_alone", "modules_among", "remove_finders", "standing_in",
]  # fmt: skip


#: By packages and names in these: modules that are imported when they are asked for, and objects out of such modules.
_deferred: WeakKeyDictionary[ModuleType, dict[str, str | Later]] = WeakKeyDictionary()
#: Attributes that the standard library asks all modules for.
_ASKED_OF_ALL = frozenset({"__file__", "__path__", "__warningregistry__", "__wrapped__"})
#: Held while a placeholder is removed, because another thread may be importing the module.
_lock = threading.Lock()
#: Held while the list of finders is replaced.
_finders_lock = threading.Lock()
#: Seconds to wait before an import is tried again that would have had to wait for a thread that waits for this one.
_WAITS = (0.001, 0.01, 0.1, 1)


def imported(name: str) -> Any:
    """A module if it has been imported, or what stands for it; None for any other."""
    return sys.modules.get(name)


def is_imported(name: str) -> bool:
    """Whether a module has been imported, or something stands for it."""
    return name in sys.modules


def attribute_of(module: str, name: str) -> Any:
    """An attribute of a module; None if it has none, or has not been imported."""
    return vars(sys.modules.get(module, sys)).get(name)


def file_of_module(name: str) -> str | None:
    """The file of a module that has been imported."""
    return getattr(sys.modules.get(name), "__file__", None)


def modules_among(names: Set[str]) -> list[ModuleType]:
    """The modules that have been imported and have one of these names."""
    modules = [sys.modules.get(name) for name in names & sys.modules.keys()]
    return [each for each in modules if isinstance(each, ModuleType) and not isinstance(each, StandIn)]


def load_alone(name: str, path: Path) -> None:
    """Load a module without the package that it is in. A placeholder for the package has this module alone."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    package, _, last = name.rpartition(".")
    stand_in = StandIn(package)
    vars(stand_in)[last] = module
    above, _, inner = package.rpartition(".")
    setattr(sys.modules[above], inner, stand_in)


class Later:
    """Stands for an object that a package takes out of a module, until the package is asked for it."""

    def __init__(self, module: str, name: str) -> None:
        self.module_of_value = module
        self.name = name

    def value(self) -> Any:
        value = getattr(importlib.import_module(self.module_of_value), self.name)
        if "__module__" in vars(self):
            # onnx_ir says of all its public classes that they are the package's.
            value.__module__ = self.__module__
        return value


@cache
def _spec_of(name: str, path: tuple[str, ...] | None) -> ModuleSpec | None:
    """The spec of a module, which each recording with dynamic sizes asks for, and which takes 0.1 ms to find."""
    return PathFinder.find_spec(name, path)


class StandIn(ModuleType):
    """A placeholder for a module. Access to an attribute other than the `known` ones imports the module.

    The module's package may take the objects of the names `later` out of it without importing it. At the top of the
    module `named_at_the_top_of`, which needs types for its aliases, attributes are references to be resolved later.
    """

    def __init__(
        self, name: str, *later: str, known: Mapping[str, Any] | None = None, named_at_the_top_of: str = ""
    ) -> None:
        super().__init__(name)
        self.__named_in = named_at_the_top_of
        vars(self).update(known or {})
        vars(self).update((each, Later(name, each)) for each in later)
        package, last = _package_and_name(name)
        spec = None
        path = getattr(package, "__path__", None)
        if path is not None or name == last:
            spec = _spec_of(name, None if path is None else tuple(path))
        if spec is not None:
            # Programs ask whether there is such a module, and Python looks for those of a package.
            self.__spec__, self.__loader__, self.__file__ = spec, spec.loader, spec.origin
            if spec.submodule_search_locations is not None:
                self.__path__ = list(spec.submodule_search_locations)

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED_OF_ALL:
            raise AttributeError(f"{self.__name__} has not been imported yet, so it has no attribute {name}")
        if self.__named_in and sys._getframe(1).f_globals.get("__name__") == self.__named_in:
            module = sys.modules.get(self.__named_in)
            if getattr(getattr(module, "__spec__", None), "_initializing", False):
                # `typing` makes a ForwardRef of it.
                return f"{self.__name__}.{name}"
        value = getattr(self.real(), name)
        setattr(self, name, value)
        return value

    def real(self) -> ModuleType:
        """The module itself, which is imported now if it has not been."""
        for wait in _WAITS:
            try:
                return self.imported()
            except _DeadlockError:
                # Another thread imports a module of this package. It goes on, now that this import has been given up.
                time.sleep(wait)
        return self.imported()

    def imported(self) -> ModuleType:
        """The module itself; an error of Python where it is imported by a thread that waits for this one."""
        package, _ = _package_and_name(self.__name__)
        if isinstance(package, StandIn):
            package.imported()
        # Held before others can import the module, so that none does where this thread, half-way through, needs it.
        with _ModuleLockManager(self.__name__):
            with _lock:
                # Also those of modules inside: a compiled module would take them for its own.
                for name, module in [*sys.modules.items()]:
                    is_inside = name.startswith(f"{self.__name__}.") and isinstance(module, StandIn)
                    if module is self or is_inside:
                        del sys.modules[name]
            return importlib.import_module(self.__name__)


class LoaderAndThen(Loader):
    """Loads a module as its own loader does, and then calls a function, before other threads can use the module."""

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


class _OfPackages(MetaPathFinder, Loader):
    """Finds the modules of packages that have a placeholder; to load one is to import the package first.

    Finding imports nothing, because Python holds the lock of all imports while it asks its finders: a thread that
    waited for a module there, and another that needs that lock for it, would wait for each other forever.
    """

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        package = sys.modules.get(fullname.partition(".")[0])
        if not isinstance(package, StandIn) or not path:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        return found and ModuleSpec(fullname, self, origin=found.origin)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        package = sys.modules.get(spec.name.partition(".")[0])
        if isinstance(package, StandIn):
            # A thread that imports the package may be waiting for this module, which then comes before its package.
            with suppress(_DeadlockError):
                package.imported()
        found = importlib.import_module(spec.name)
        spec.loader_state = (found, found.__spec__)
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Python has given the module the spec of this loader: it gets its own again."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state[1]


class _Packages(MetaPathFinder):
    """Finds packages that have modules among the placeholders, for which they have to import the real ones later."""

    def __init__(self, stand_ins: Mapping[str, Iterable[StandIn]]) -> None:
        """With the placeholders by the names of their packages."""
        self._stand_ins = stand_ins

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        inside = self._stand_ins.get(fullname)
        spec = None if inside is None else PathFinder.find_spec(fullname, path, target)
        if inside is not None and spec is not None and spec.loader is not None:
            spec.loader = LoaderAndThen(spec.loader, lambda: _import_when_asked_for(inside))
        return spec


def add_finders(*finders: MetaPathFinder) -> None:
    """Let Python ask these finders first.

    The list of finders is replaced, never changed: another thread may be going through it for an import, and would
    leave out a finder, so that it does not find a module that is there.
    """
    with _finders_lock:
        sys.meta_path = [*finders, *sys.meta_path]


def remove_finders(*finders: MetaPathFinder) -> None:
    """Let Python ask these finders no longer."""
    with _finders_lock:
        sys.meta_path = [each for each in sys.meta_path if each not in finders]


@contextmanager
def standing_in(*modules: str | StandIn) -> Iterator[None]:
    """A context in which an import of these modules gives a placeholder, in other threads too.

    Modules that are already imported are not replaced.
    """
    stand_ins = [
        StandIn(module) if isinstance(module, str) else module
        for module in modules
        if str(getattr(module, "__name__", module)) not in sys.modules
    ]
    inside: defaultdict[str, list[StandIn]] = defaultdict(list)
    for stand_in in stand_ins:
        inside[stand_in.__name__.rpartition(".")[0]].append(stand_in)
    finders = [_OfPackages(), _Packages(inside)]
    add_finders(*finders)
    put: list[StandIn] = []
    try:
        # Another thread that began to import a package without these finders gets none of the placeholders.
        for name in {stand_in.__name__.partition(".")[0] for stand_in in stand_ins}:
            _wait_for_other_threads(name)
        for stand_in in stand_ins:
            if sys.modules.setdefault(stand_in.__name__, stand_in) is stand_in:
                put.append(stand_in)
                package, last = _package_and_name(stand_in.__name__)
                if package is not None:
                    vars(package).setdefault(last, stand_in)
        yield
    finally:
        remove_finders(*finders)
        with _lock:
            for stand_in in put:
                if sys.modules.get(stand_in.__name__) is stand_in:
                    del sys.modules[stand_in.__name__]
        _import_when_asked_for(put)


def _wait_for_other_threads(module: str) -> None:
    """Wait until no other thread imports a module, unless that thread waits for this one."""
    with suppress(_DeadlockError), _ModuleLockManager(module):
        pass


def _package_and_name(module: str) -> tuple[ModuleType | None, str]:
    """The package of a module, if it has been imported, and the module's name in it."""
    package, _, last = module.rpartition(".")
    return sys.modules.get(package), last


def _import_when_asked_for(stand_ins: Iterable[StandIn]) -> None:
    """Let the packages of these modules import them when asked for a module, or for what is taken out of one."""
    for stand_in in stand_ins:
        package, last = _package_and_name(stand_in.__name__)
        if package is not None and vars(package).get(last, stand_in) is stand_in:
            vars(package).pop(last, None)
            found = sys.modules.get(stand_in.__name__, stand_in)
            if isinstance(found, StandIn):
                _deferred_of(package)[last] = stand_in.__name__
            else:
                vars(package)[last] = found
        for later in [value for value in vars(stand_in).values() if isinstance(value, Later)]:
            del vars(stand_in)[later.name]
            if package is not None and vars(package).get(later.name) is later:
                del vars(package)[later.name]
                _deferred_of(package)[later.name] = later


def _deferred_of(package: ModuleType) -> dict[str, str | Later]:
    """What a package imports when it is asked for it, by the names; the package is changed so that it does."""
    found = _deferred.get(package)
    if found is None:
        found = _deferred[package] = {}
        held = vars(package)
        held["__getattr__"] = _importing(package, found, held.get("__getattr__"))
        held["__dir__"] = _listing(package, found, held.get("__dir__"))
    return found


def _importing(
    package: ModuleType, deferred: Mapping[str, str | Later], other: Callable[[str], Any] | None
) -> Callable[[str], Any]:
    """A package's `__getattr__` that imports what is deferred, and asks the package's `other` for the rest."""

    def get(name: str) -> Any:
        found = deferred.get(name)
        if isinstance(found, Later):
            vars(package)[name] = value = found.value()
            return value
        if found is not None:
            try:
                return importlib.import_module(found)
            except ModuleNotFoundError as error:
                if error.name != found:
                    raise
        elif other is not None:
            return other(name)
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")

    return get


def _listing(
    package: ModuleType, deferred: Collection[str], other: Callable[[], Iterable[str]] | None
) -> Callable[[], list[str]]:
    """A package's `__dir__` that lists what is deferred too."""
    return lambda: sorted({*(vars(package) if other is None else other()), *deferred})

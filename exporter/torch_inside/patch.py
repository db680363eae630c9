"""Patches of torch and other libraries, which are applied while programs are recorded. The rules are:

1. Patches are applied when the first recording starts and undone when the last one ends, in whatever order recordings
   start, end and fail. `Patches` counts them, under one lock.
2. All threads see the patches, but only threads that record must be affected. So the replacement is called if this
   thread is recording, and torch's own function otherwise. `FunctionCode` and `FunctionAttribute` ensure this; an
   object that replaces an `Attribute`, or another kind of `Patch`, has to ensure it itself (`this_thread.py`).
3. If other code has patched the same function in the meantime, its patch is not undone. The replacement below it
   remains, which does no harm because of the second rule.
"""

from __future__ import annotations

import builtins
import functools
import logging
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, FunctionType, ModuleType
from typing import Any

from onnx_parity.exporter.torch_inside.code_objects import code_that_calls, copied_function
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller
from onnx_parity.exporter.torch_inside.imports import LoaderAndThen, imported
from onnx_parity.exporter.torch_inside.this_thread import records_here

__all__ = ["Attribute", "FunctionAttribute", "FunctionCode", "LogFilter", "OnImport", "Patch", "Patches", "of_module"]

asks_for_its_caller(__file__)

#: The replacement, called in a thread that records, with torch's own function and then the arguments.
Ours = Callable[..., Any]
#: Returns the object to patch, or None if it does not exist yet.
Finder = Callable[[], Any]

_lock = threading.RLock()
_ABSENT: Any = object()


class Patch(ABC):
    """One patch of torch or another library."""

    @property
    @abstractmethod
    def target(self) -> str:
        """What is changed: `torch.chunk`. Empty if it does not exist, as in `put_in`."""

    @abstractmethod
    def put_in(self) -> bool:
        """Apply the patch. False if the object to patch does not exist, because a library has not been imported."""

    @abstractmethod
    def take_out(self) -> None:
        """Undo the patch."""


class Patches:
    """Patches that are applied for the first user of `in_place` and undone after the last."""

    def __init__(self, *patches: Patch) -> None:
        self._in_use = 0
        self._put_in: list[Patch] = []
        #: The others, in their order. (From a dict they are removed at once.)
        self._not_yet = dict.fromkeys(patches)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        with _lock:
            self._in_use += 1
            try:
                # All patches are tried at each start, because a library may have been imported since the last one.
                for patch in tuple(self._not_yet):
                    if patch.put_in():
                        del self._not_yet[patch]
                        self._put_in.append(patch)
            except BaseException:
                self._leave()
                raise
        try:
            yield
        finally:
            with _lock:
                self._leave()

    def _leave(self) -> None:
        self._in_use -= 1
        if self._in_use == 0:
            for patch in reversed(self._put_in):
                patch.take_out()
            self._not_yet.update(dict.fromkeys(self._put_in))
            self._put_in = []


def of_module(module: str) -> Finder:
    """A finder of a module, which finds it if it has been imported."""
    return functools.partial(imported, module)


class Attribute(Patch):
    """Replaces an attribute of a module, a class or an object.

    `made_of` is called with torch's own value and returns the replacement, which must behave like torch's own value in
    all threads that do not record.
    """

    def __init__(self, owner: Finder, name: str, made_of: Callable[[Any], Any]) -> None:
        self._find_owner = owner
        self._name = name
        self._made_of = made_of
        self._owner: Any = None
        self._torchs = _ABSENT
        self._ours = _ABSENT

    @property
    def target(self) -> str:
        owner = self._find_owner()
        return "" if owner is None else f"{_name_of(owner)}.{self._name}"

    def put_in(self) -> bool:
        owner = self._find_owner()
        if owner is None:
            return False
        found = vars(owner).get(self._name, _ABSENT)
        if owner is not self._owner or (found is not self._torchs and found is not self._ours):
            # A name that a module does not have is looked up among the builtins.
            reached = getattr(owner, self._name, getattr(builtins, self._name, None))
            self._owner, self._torchs, self._ours = owner, found, self._made_of(reached)
        setattr(owner, self._name, self._ours)
        return True

    def take_out(self) -> None:
        if vars(self._owner).get(self._name) is not self._ours:
            return
        if self._torchs is _ABSENT:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._torchs)


class FunctionAttribute(Attribute):
    """Replaces a function or method that is an attribute, which may be written in C.

    `ours` is called instead, with torch's own function before the arguments. Code that has stored a reference to
    torch's function still calls that: see `FunctionCode`.
    """

    def __init__(self, owner: Finder, name: str, ours: Ours) -> None:
        super().__init__(owner, name, functools.partial(_chosen_by_thread, ours, records_here))


class FunctionCode(Patch):
    """Replaces the code of a Python function, so that `ours` is called however the function was imported.

    `ours` is called with a copy of torch's own function and then the arguments, in threads in which `here()` is True.
    """

    def __init__(self, function: Finder, ours: Ours, *, here: Callable[[], bool] = records_here) -> None:
        self._find_function = function
        self._make = functools.partial(_chosen_by_thread, ours, here)
        self._function: Any = None
        self._torchs: Any = None
        self._ours: CodeType | None = None

    @property
    def target(self) -> str:
        function = self._find_function()
        return _name_of(function) if isinstance(function, FunctionType) else ""

    def put_in(self) -> bool:
        function = self._find_function()
        if not isinstance(function, FunctionType):
            return False
        code = function.__code__
        if function is not self._function or (code is not self._torchs.__code__ and code is not self._ours):
            self._function, self._torchs = function, copied_function(function)
            self._ours = code_that_calls(self._make(self._torchs), code.co_freevars)
        assert self._ours is not None
        # Code that reads the source of the function, as TorchScript does to compile it, has to find torch's own.
        function.__dict__.setdefault("__wrapped__", self._torchs)
        function.__code__ = self._ours
        return True

    def take_out(self) -> None:
        if self._function.__code__ is self._ours:
            self._function.__code__ = self._torchs.__code__
        if self._function.__dict__.get("__wrapped__") is self._torchs:
            del self._function.__wrapped__


class OnImport(Patch, MetaPathFinder):
    """A patch of a module that is applied at once, or as soon as the module is imported, which a program may do."""

    def __init__(self, module: str, patch: Patch) -> None:
        self._module = module
        self._patch = patch
        self._applied = False

    @property
    def target(self) -> str:
        return self._module

    def put_in(self) -> bool:
        if self._module in sys.modules:
            self._applied = self._patch.put_in()
            return self._applied
        sys.meta_path.insert(0, self)
        return True

    def take_out(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self._applied:
            self._patch.take_out()
            self._applied = False

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Python's own way to the module, followed by the patch."""
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LoaderAndThen(spec.loader, self._imported)
        return spec

    def _imported(self) -> None:
        with _lock:
            # The last export may have ended while another thread was importing.
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._applied = self._patch.put_in()


class LogFilter(Patch):
    """Silences a logger of torch in threads that record."""

    def __init__(self, logger: str) -> None:
        self._logger = logging.getLogger(logger)

    @property
    def target(self) -> str:
        return f"the logger {self._logger.name}"

    def put_in(self) -> bool:
        self._logger.addFilter(_is_to_be_logged)
        return True

    def take_out(self) -> None:
        self._logger.removeFilter(_is_to_be_logged)


def _name_of(owner: Any) -> str:
    """The name of a module, a class or a function, with the module that it is in."""
    return owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"


def _is_to_be_logged(record: logging.LogRecord) -> bool:
    return not records_here()


def _chosen_by_thread(ours: Ours, here: Callable[[], bool], torchs: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls `ours` if `here()` is True in the calling thread, and torch's own function otherwise."""

    @functools.wraps(torchs)
    def call(*args: Any, **kwargs: Any) -> Any:
        return ours(torchs, *args, **kwargs) if here() else torchs(*args, **kwargs)

    return call

"""The contents of the Python objects that a program can reach, saved before a recording and restored after it.

Modules are restored by `module_state.py`. This file covers everything else that a program may write to: dicts, lists,
objects, closures, attributes of classes, and the globals that its functions name. Tensors are not copied, because
writes to the program's own tensors are refused.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
from collections import UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.program_state.changed_objects import changed_in
from onnx_parity.exporter.program_state.saved_objects import (
    ABSENT,
    Cache,
    Cell,
    ClassAttributes,
    Entries,
    Globals,
    Items,
    Kept,
    Members,
    Place,
    Slots,
    content_now,
    content_of,
    copied,
    slots_of,
)
from onnx_parity.exporter.torch_inside.code_objects import (
    CachedFunction,
    CodeType,
    cells_of,
    code_of,
    functions_with,
    names_in,
)
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.frames import is_library_file
from onnx_parity.exporter.torch_inside.imports import file_of_module, imported, is_imported, modules_among
from onnx_parity.exporter.torch_inside.tensors import buffers_of, hooks_of, modules_of
from onnx_parity.exporter.torch_inside.transforms import is_wrapped

__all__ = ["PythonState", "is_installed"]

#: The number of values at which the search ends. Programs of a thousand modules have a tenth; data sets have more.
_MOST = 20_000
#: Of more values than these, tuples of what cannot be written to are left out.
_MANY = 1000
#: The number of functions of libraries at which the search ends. Those that a program calls are among the first; the
#: others are looked into if it fails without them.
_MOST_OF_LIBRARIES = 300
#: How deep a new value is searched.
_DEPTH = 6

#: Types whose values contain nothing that a program can write to.
_ATOMS = frozenset(
    {
        int, float, complex, bool, str, bytes, type(None), torch.Tensor, torch.nn.Parameter, torch.dtype, torch.device,
        torch.Size, torch.Generator, range, slice, type(len), type(Ellipsis), type(NotImplemented),
    }
)  # fmt: skip
#: The attributes that every module has. Programs do not store their own values in them.
_STANDARD = frozenset(vars(torch.nn.Module()))
#: Packages that are not the program: their modules do not store what it computes, and their code is not followed.
_LIBRARIES = frozenset(
    {
        "torch",
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
#: The types of what a class calls by name.
_METHODS = (FunctionType, classmethod, staticmethod, property)
#: Methods that make an object, and are not called for one that is there.
_MAKING = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__", "__class_getitem__"})
_OF_CODE = (type, ModuleType, MethodType, type(len), type(list.append), type(type.__dict__["__doc__"]))
#: Tuples instead of unions, because `issubclass` takes much longer with a union.
_LISTS, _FIXED = (list, deque), (tuple, frozenset)
#: Classes of the standard library whose objects contain what programs put into them.
_CONTAINERS = (SimpleNamespace, UserDict, UserList, threading.local, functools.partial)


class _MethodsOf(msgspec.Struct, frozen=True):
    """A class of an object that is there, whose methods may be called."""

    cls: type


_Code = FunctionType | type | _MethodsOf


def _may_change(value: Any) -> bool:
    """Whether something is no function, class or module."""
    return not isinstance(value, (*_METHODS, *_OF_CODE))


class PythonState:
    """The contents of all objects that are reachable from some objects, as they were when this was created."""

    def __init__(self, roots: Iterable[Any], *, follows_code: bool = False) -> None:
        """With `follows_code`, also the attributes of classes, and the defaults and closures of functions, and the
        globals that functions name.
        """
        self._follows_code = follows_code
        self._places: list[Place] = []
        #: What was found in code of libraries.
        self._places_of_libraries: list[Place] = []
        self._waiting: list[Any] = []
        #: Functions and classes of packages that the program only calls, which are looked into last, and globals of
        #: these packages with the names that the program has for them.
        self._called: list[_Code] = []
        self._named: list[tuple[dict[str, Any], Set[str]]] = []
        self._is_in_libraries = False
        self._most_of_libraries = math.inf
        self._seen: set[int] = set()
        self._with_methods: set[type] = set()
        #: The names in the functions that were looked into, and methods of libraries that have none of these names.
        self._names: set[str] = set()
        self._unnamed: defaultdict[str, list[Any]] = defaultdict(list)
        #: Globals that functions name, by the identity of their dict.
        self._globals: dict[int, Globals] = {}
        #: The modules among them that may belong to the program.
        self._modules: defaultdict[int, list[ModuleType]] = defaultdict(list)
        #: The functions of the program that were looked into, with the names in them.
        self.functions: list[tuple[FunctionType, Set[str]]] = []
        #: Those of libraries that it may call.
        self.functions_of_libraries: list[tuple[FunctionType, Set[str]]] = []
        self._left = _MOST
        #: Whether what modules hold is saved.
        self._programs: dict[str | None, bool] = {}
        #: The packages that the program is written in. Other installed packages are libraries, which others use too.
        self._packages = set(_PACKAGES_OF_SCRIPTS)
        roots = list(roots)
        if not roots:
            return
        for root in roots:
            self._add_package(root)
            self._add_package(type(root))
        self._wait_for(roots)
        self._look_into_waiting()
        while belated := [each for each in self._called if self._is_programs(_module_of(each))]:
            # Of a package that was found to be one of the program's only later.
            self._called = [each for each in self._called if not self._is_programs(_module_of(each))]
            self._waiting = belated
            self._look_into_waiting()
        self._is_in_libraries, self._most_of_libraries = True, _MOST_OF_LIBRARIES
        self._waiting, self._called = self._called, []
        for entries, names in self._named:
            self._globals_of(entries).named.append(names)
        self._look_into_globals()
        self._look_into_waiting()

    def copies(self) -> Iterator[int]:
        """The ids of the copies of dicts, lists and sets that are restored from."""
        places = (*self._places, *self._places_of_libraries)
        return (id(place.before) for place in places if isinstance(place, (Entries, Items, Members)))

    def changed(self, program: object) -> list[Kept]:
        """What is other than it was, without what is in code of libraries."""
        return changed_in(self._places, program)

    def changes(self, program: object) -> dict[tuple[int, str | int | None], int]:
        """What is other than it was, by the identity of the object and the name, with the identity of what is there."""
        return {(id(holder), key): content_now(holder, key) for holder, key in self.changed(program)}

    def globals_named(self) -> Iterator[tuple[Mapping[str, Any], str]]:
        """The globals that functions name, and the attributes of classes, that a program may write to: each with what
        has it, without functions, classes and modules."""
        for place in (*self._places, *self._places_of_libraries):
            if isinstance(place, Globals | ClassAttributes):
                holder = place.now if isinstance(place, Globals) else vars(place.cls)
                yield from ((holder, name) for name, value in place.before.items() if _may_change(value))

    def holds_new(self, is_meant: Callable[[Any], bool]) -> bool:
        """Whether something is held now that was not, and that is meant or holds what is meant."""
        seen: _Seen = {}
        return any(_holds(value, is_meant, seen) for place in self._places for value in place.new_values())

    def restore(self) -> None:
        """Restore the contents of all objects, without those of libraries."""
        for place in self._places:
            place.restore()

    def restore_libraries(self, is_meant: Callable[[Any], bool]) -> None:
        """Restore the objects of libraries that hold what is meant. The others may be used by other programs."""
        seen: _Seen = {}
        for place in self._places_of_libraries:
            if any(_holds(value, is_meant, seen) for value in place.new_values()):
                place.restore()

    def _is_programs(self, module: str | None) -> bool:
        """Whether a module belongs to the program itself, rather than to Python or to another installed package."""
        known = self._programs.get(module)
        if known is None:
            package = _package(module)
            known = self._programs[module] = package in self._packages or not is_installed(package)
        return known

    def follow(self, codes: Iterable[tuple[str, CodeType]]) -> bool:
        """Look into the functions of these codes, into all of their modules, and into all that libraries may call.
        Returns whether there are any that were not looked into before.
        """
        before = len(self.functions) + len(self.functions_of_libraries)
        self._most_of_libraries = math.inf
        codes = [each for each in codes if _may_be_programs(each[0])]
        functions = functions_with(codes)
        # Those that a recording made, which may close over its tensors, are made anew in the next one.
        lasting = [each for each in functions if not any(map(_is_of_recording, map(content_of, cells_of(each))))]
        self._wait_for(lasting)
        for module in {module for module, _ in codes}:
            attributes = vars(imported(module)) if is_imported(module) else {}
            made = [each for each in attributes.values() if getattr(each, "__module__", "") == module]
            self._wait_for(made)
            self._wait_for([value for each in made if isinstance(each, type) for value in vars(each).values()])
        self._look_into_waiting()
        return len(self.functions) + len(self.functions_of_libraries) > before or len(lasting) < len(functions)

    def _look_into_waiting(self) -> None:
        while self._waiting and self._left > 0 and len(self.functions_of_libraries) < self._most_of_libraries:
            waiting, self._waiting = self._waiting, []
            for value in waiting:
                if self._left > 0:
                    self._look_into(value)
            self._look_into_globals()

    def _save(self, *places: Place) -> None:
        (self._places_of_libraries if self._is_in_libraries else self._places).extend(places)

    def _add_package(self, value: Any) -> None:
        package = _package(getattr(value, "__module__", None))
        if package not in self._packages and package not in _LIBRARIES:
            self._packages.add(package)
            self._programs.clear()

    def _wait_for(self, values: Iterable[Any]) -> None:
        seen = self._seen
        waiting = [value for value in values if type(value) not in _ATOMS and id(value) not in seen]
        if not waiting:
            return
        if len(waiting) > _MANY:
            # Such as the pairs that a tokenizer merges.
            waiting = [
                value for value in waiting if type(value) is not tuple or not _ATOMS.issuperset(map(type, value))
            ]
        self._left -= len(waiting)
        if self._left > 0:
            self._seen.update(map(id, waiting))
            self._waiting += waiting

    def _look_into(self, value: Any) -> None:
        # isinstance is avoided, because it would load objects that are only imported when they are first used.
        kind = type(value)
        if kind is FunctionType:
            self._look_into_function(value)
        elif issubclass(kind, torch.nn.Module):
            self._look_into_module(value)
        elif issubclass(kind, dict):
            self._save_dict(value)
        elif issubclass(kind, _LISTS):
            items = list(value)
            self._save(Items(value, items))
            self._wait_for(items)
        elif issubclass(kind, set):
            self._save(Members(value, set(value)))
        elif issubclass(kind, _FIXED):
            self._wait_for(value)
        elif kind is MethodType:
            self._wait_for((value.__self__, value.__func__))
        elif kind is staticmethod or kind is classmethod:
            self._wait_for((value.__func__,))
        elif kind is property:
            self._wait_for((value.fget, value.fset, value.fdel))
        elif kind is _MethodsOf:
            self._look_into_methods(value)
        elif issubclass(kind, type):
            self._look_into_class(value)
        elif not issubclass(kind, ModuleType):
            self._look_into_object(value)

    def _save_dict(self, saved: dict[Any, Any]) -> None:
        values = copied(saved)
        self._save(Entries(saved, values))
        self._wait_for(values.values())

    def _look_into_module(self, module: torch.nn.Module) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            return
        self._wait_for(modules_of(module).values())
        self._wait_for(hooks_of(module))
        if not _may_be_programs(type(module).__module__):
            return
        self._add_package(type(module))
        attributes, buffers = module.__dict__, buffers_of(module)
        self._save(Entries(attributes, attributes.copy()), Entries(buffers, buffers.copy()))
        if len(attributes) > len(_STANDARD):
            self._wait_for([attributes[name] for name in attributes.keys() - _STANDARD])
        self._wait_for_methods(type(module))

    def _is_followed(self, code: _Code) -> bool:
        """Whether code is looked into now. That of a library is looked into after the program's own."""
        module = _module_of(code)
        if not self._follows_code or not _may_be_programs(module):
            return False
        if not self._is_in_libraries and not self._is_programs(module):
            self._called.append(code)
            return False
        return True

    def _look_into_function(self, function: FunctionType) -> None:
        if not self._is_followed(function):
            return
        if function.__defaults__:
            self._wait_for(function.__defaults__)
        if function.__kwdefaults__:
            self._wait_for(function.__kwdefaults__.values())
        if cells := [Cell(cell, content_of(cell)) for cell in cells_of(function)]:
            self._save(*cells)
            self._wait_for([cell.before for cell in cells])
        if attributes := function.__dict__:
            self._save_dict(attributes)
        names = names_in(code_of(function))
        found = self.functions if self._is_programs(function.__module__) else self.functions_of_libraries
        found.append((function, names))
        self._globals_of(function.__globals__).named.append(names)
        # It may import a module itself, or the function around it may.
        for module in (*modules_among(names), *(cell.before for cell in cells if type(cell.before) is ModuleType)):
            if _may_be_programs(module.__name__):
                self._wait_for_names(names, module)
        if not names <= self._names:
            for name in (names - self._names) & self._unnamed.keys():
                self._wait_for(self._unnamed.pop(name))
            self._names |= names

    def _globals_of(self, entries: dict[str, Any]) -> Globals:
        place = self._globals.get(id(entries))
        if place is None:
            place = self._globals[id(entries)] = Globals(entries)
            self._save(place)
        return place

    def _wait_for_names(self, names: Set[str], module: ModuleType) -> None:
        """Wait for what a module has by these names."""
        if self._is_in_libraries or self._is_programs(module.__name__):
            self._globals_of(module.__dict__).named.append(names)
        else:
            self._named.append((module.__dict__, frozenset(names)))

    def _look_into_globals(self) -> None:
        """Look into the globals that functions name. Not into all of a file, because most files are long."""
        while changed := [place for place in self._globals.values() if place.named]:
            for place in changed:
                names, values = place.save_named()
                self._wait_for(values)
                # A function may name an attribute of a module that it names: `layers` and `SCALE` in `layers.SCALE`.
                modules = self._modules[id(place)]
                known = len(modules)
                modules += [each for each in values if type(each) is ModuleType and _may_be_programs(each.__name__)]
                for number, module in enumerate(modules if names else ()):
                    self._wait_for_names(names if number < known else place.names, module)

    def _wait_for_methods(self, cls: type) -> None:
        if cls not in self._with_methods:
            self._with_methods.add(cls)
            self._waiting.append(_MethodsOf(cls))

    def _look_into_class(self, cls: type) -> None:
        """Look into a class that the program names, of which it may make an object."""
        if self._is_followed(cls):
            self._wait_for_methods(cls)
            self._wait_for(cls.__bases__)
            if not issubclass(cls, torch.nn.Module):
                self._wait_for([value for name, value in vars(cls).items() if name in _MAKING])

    def _look_into_methods(self, of_class: _MethodsOf) -> None:
        """Look into a class that the program has an object of."""
        if not self._is_followed(of_class):
            return
        cls = of_class.cls
        attributes = dict(vars(cls))
        self._save(ClassAttributes(cls, attributes))
        for base in cls.__bases__:
            self._wait_for_methods(base)
        if not is_installed(_package(cls.__module__)):
            self._wait_for(attributes.values())
            return
        # Most methods of large libraries, such as those that load and store a network, are not part of a program. Those
        # that are have a name that is in a function, or that a class of another library has, whose code may call it.
        others = [_attributes_of(base) for base in cls.__mro__ if not _may_be_programs(base.__module__)]
        called = []
        for name, value in attributes.items():
            is_called = name in self._names or name.startswith("__") or any(name in names for names in others)
            if name in _MAKING:
                continue
            if is_called or type(value) not in _METHODS:
                called.append(value)
            else:
                self._unnamed[name].append(value)
        self._wait_for(called)

    def _look_into_object(self, value: Any) -> None:
        cls = type(value)
        if not _may_hold_tensors(cls.__module__) and not isinstance(value, _CONTAINERS):
            if isinstance(value, CachedFunction):
                self._save(Cache(value, value.cache_info().misses))
                self._wait_for((value.__wrapped__,))
            return
        if isinstance(value, functools.partial):
            self._wait_for((value.func, *value.args, *value.keywords.values()))
            return
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._save_dict(attributes)
        slots = {name: getattr(value, name, ABSENT) for name in slots_of(cls)}
        if slots:
            self._save(Slots(value, slots))
            self._wait_for(slots.values())
        self._wait_for_methods(cls)


def _module_of(code: _Code) -> str | None:
    return code.cls.__module__ if type(code) is _MethodsOf else code.__module__


@functools.lru_cache(_MOST)
def _attributes_of(cls: type) -> frozenset[str]:
    return frozenset(vars(cls))


#: Objects by their identity that hold nothing that is meant, and how deep they were looked into.
_Seen = dict[int, tuple[int, Any]]


def _holds(value: Any, is_meant: Callable[[Any], bool], seen: _Seen, depth: int = _DEPTH) -> bool:
    if is_meant(value):
        return True
    kind = type(value)
    if kind in _ATOMS or not depth or seen.get(id(value), (0, None))[0] >= depth:
        return False
    inner: Iterable[Any] = ()
    if issubclass(kind, dict):
        inner = [part for entry in copied(value).items() for part in entry]
    elif issubclass(kind, (*_LISTS, *_FIXED, set)):
        inner = list(value)
    elif issubclass(kind, _CONTAINERS) or _may_hold_tensors(kind.__module__):
        attributes = getattr(value, "__dict__", None)
        inner = [*(attributes.values() if isinstance(attributes, Mapping) else ())]
        inner += [getattr(value, name, None) for name in slots_of(kind)]
    if any(_holds(each, is_meant, seen, depth - 1) for each in inner):
        return True
    seen[id(value)] = depth, value
    return False


def _may_be_programs(module: str | None) -> bool:
    package = _package(module)
    # The declarations of the harness are programs too.
    return package not in _LIBRARIES or (package == "onnx_parity" and ".exporter." not in f"{module}.")


def _is_of_recording(value: Any) -> bool:
    """Whether a value is a tensor of a recording."""
    return isinstance(value, torch.Tensor) and (is_wrapped(value) or isinstance(value, FakeTensor))


def _may_hold_tensors(module: str) -> bool:
    """Whether objects of the classes of a module may be filled by a program while it runs."""
    return _may_be_programs(module) or module.startswith("torch.distributions.")


def _package(module: str | None) -> str:
    return (module or "").partition(".")[0]


@functools.cache
def is_installed(package: str) -> bool:
    """Whether a package belongs to Python or is installed in `site-packages`, rather than being part of the program."""
    if package in _PACKAGES_OF_SCRIPTS:
        return False
    if package in _LIBRARIES or package in sys.stdlib_module_names:
        return True
    return is_library_file(file_of_module(package) or "")

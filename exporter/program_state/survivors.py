"""Removes fake tensors that a program has stored during a recording: in a cache, a global, an attribute.

Fake tensors have no values, so the program would fail with them afterwards. Weak references tell in microseconds
whether any fake tensor is alive when the recording has ended. Usually none is, because the recorder holds none in a
reference cycle. Otherwise, the objects that the program can reach are restored (`python_state.py`); if a tensor is
still alive, garbage is collected; and if that does not free it, the garbage collector is asked what refers to it.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from types import ModuleType
from typing import Any

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.program_state.python_state import PythonState
from onnx_parity.exporter.recording.fakes.fake_mode import Fakes
from onnx_parity.exporter.recording.results import TensorList, TensorOrNone
from onnx_parity.exporter.torch_inside.code_objects import CachedFunction, CellType
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.frames import FrameType
from onnx_parity.exporter.torch_inside.garbage import collect, get_objects, get_referrers
from onnx_parity.exporter.torch_inside.imports import imported
from onnx_parity.exporter.torch_inside.transforms import inside_of_wrapper, is_wrapped

__all__ = ["KeptTensorError", "Survivors"]

#: The greatest number of objects between a tensor and the object that is searched for.
_STEPS = 8
#: How many tensors are searched at once, which takes a tenth of a second, and how often this is repeated.
_AT_ONCE, _ROUNDS = 50, 5
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class KeptTensorError(CaptureError):
    """The program has stored a fake tensor in a place that cannot be restored."""


class Survivors:
    """Weak references to the fake tensors of a recording."""

    def __init__(self) -> None:
        self._fakes: list[weakref.ref[FakeTensor]] = []
        self._mode: Fakes | None = None
        #: What the program can reach, with copies of what was there before, from which nothing is to be taken.
        self._state: PythonState | None = None
        #: The garbage collector lists objects in the order of their creation: those after this one are new.
        self._start: list[object] = []

    def watch(self, mode: Fakes, fakes: Iterable[FakeTensor]) -> None:
        self._mode = mode
        self._fakes = [weakref.ref(fake) for fake in fakes]

    def restore(self, state: PythonState) -> None:
        """Restore the objects that the program can reach if it has stored something of the recording in them."""
        self._state = state
        has_symbols = self._mode is not None and self._mode.symbols is not None
        # The program may also have stored symbolic sizes, to which there are no weak references.
        if has_symbols or self._any_left():
            state.restore_libraries(self._is_made)
            if state.holds_new(self._is_made):
                state.restore()

    def remove(self) -> bool:
        """Remove the fake tensors that are still alive from the objects that refer to them, and return whether there
        were any. Raises `KeptTensorError` if one cannot be removed.
        """
        if not self._any_left():
            return False
        young = self._made_since()
        # Recursive inner functions and exceptions are in reference cycles. Most of this garbage is young.
        for generation in (0, 2):
            collect(generation)
            if not self._any_left():
                return False
        for _ in range(_ROUNDS):
            if not self._take_away(young):
                # Only the frames of an error refer to them, which Python cannot clear of what functions close over.
                return False
            if not self._any_left():
                return True
        raise _refusal("a place that could not be found")

    def _any_left(self) -> bool:
        return any(fake() is not None for fake in self._fakes)

    def _is_made(self, value: Any) -> bool:
        """Whether a value that is new in its place was created by this recording."""
        if isinstance(value, torch.Tensor):
            return self._is_ours(value)
        if isinstance(value, _SYMBOLS):
            assert self._mode is not None
            return getattr(value.node, "shape_env", None) is self._mode.symbols is not None
        return isinstance(value, (TensorList, TensorOrNone))

    def _is_ours(self, tensor: torch.Tensor) -> bool:
        """Whether it is a fake tensor of this recording, or a wrapper of one, which is what the program sees."""
        while is_wrapped(tensor):
            tensor = inside_of_wrapper(tensor)
        return isinstance(tensor, FakeTensor) and tensor.fake_mode is self._mode

    def _take_away(self, young: Set[int]) -> bool:
        """Remove the tensors from older objects that refer to them, and return whether there are any."""
        found_older = False
        # `isinstance` would initialise objects that are initialised lazily.
        tensors = [each for each in get_objects() if issubclass(type(each), torch.Tensor)]
        found: list[Any] = [each for each in tensors if self._is_ours(each)]
        del tensors
        # The program refers to the wrappers, and each wrapper to a fake tensor.
        found.sort(key=lambda each: isinstance(each, FakeTensor))
        passed = {id(young), *(self._state.copies() if self._state is not None else ())}
        for _ in range(_STEPS):
            kept = set(map(id, found))
            passed |= {*kept, id(found)}
            above = [
                each
                for each in get_referrers(*found[:_AT_ONCE])
                if id(each) not in passed and not isinstance(each, FrameType)
            ]
            passed.add(id(above))
            # An object that was created by the recording, such as a tuple of tensors, is searched for in turn.
            found = [each for each in above if id(each) in young]
            for keeper in above:
                if id(keeper) not in young:
                    found_older |= _take_from(keeper, kept, passed)
            if not found:
                break
        return found_older

    def _made_since(self) -> Set[int]:
        """The ids of the objects that were created since this one, if it is still there to tell."""
        young: list[object] = []
        # A collection moves what it leaves to the end of the next generation.
        for generation in range(3):
            objects = get_objects(generation=generation)
            start = next((place for place, each in enumerate(objects) if each is self._start), None)
            if start is not None:
                return frozenset(map(id, [*objects[start + 1 :], *young]))
            young = [*objects, *young]
        return frozenset()


def _take_from(keeper: Any, kept: set[int], made: set[int]) -> bool:
    """Remove the objects with the ids `kept` from an object that is older than the recording, if it has any.

    `made` has the ids of all objects that the recording created and that refer to its tensors.
    """
    if isinstance(keeper, CachedFunction):
        keeper.cache_clear()
    elif isinstance(keeper, dict):
        return _take_from_dict(keeper, kept, made)
    elif isinstance(keeper, list | deque):
        while keeper and id(keeper[-1]) in kept:
            keeper.pop()
        if any(id(each) in kept for each in keeper):
            raise _refusal(f"a {type(keeper).__name__} of {len(keeper)} items")
    elif isinstance(keeper, set):
        keeper -= {each for each in keeper if id(each) in kept}
    elif isinstance(keeper, CellType):
        raise _refusal("a variable that a function closes over")
    else:
        attributes = getattr(keeper, "__dict__", None) or {}
        # A dict that held no objects before the recording looks new, so that the search came by it to its owner.
        names = _names_of(attributes, made if id(attributes) in kept else kept)
        for name in names:
            _take_attribute(keeper, name, made)
        return bool(names)
    return True


def _take_from_dict(keeper: dict[Any, Any], kept: set[int], made: set[int]) -> bool:
    names = _names_of(keeper, kept)
    if not names:
        return False
    module = _module_of(keeper)
    owner = None if module is not None else _owner(keeper)
    for name in names:
        if module is not None:
            if not _emptied(keeper[name], made):
                raise _refusal(f"{module}.{name}")
        elif owner is not None:
            _take_attribute(owner, name, made)
        elif any(type(each) is CachedFunction for each in get_referrers(keeper)):
            keeper.clear()
        else:
            del keeper[name]
    return True


def _emptied(value: Any, made: set[int]) -> bool:
    """Remove created objects from a dict. Usually it is a cache.

    A dict that was empty before the recording looks new: the garbage collector lists dicts once they refer to objects.
    """
    if not isinstance(value, dict):
        return False
    for name in _names_of(value, made):
        del value[name]
    return True


def _module_of(entries: dict[Any, Any]) -> str | None:
    """The name of the module whose globals these are."""
    name = entries.get("__name__")
    module = imported(name) if isinstance(name, str) else None
    return name if module is not None and vars(module) is entries else None


def _names_of(entries: Mapping[Any, Any], kept: set[int]) -> Sequence[Any]:
    return [name for name, value in list(entries.items()) if id(value) in kept or id(name) in kept]


def _owner(attributes: dict[Any, Any]) -> Any:
    """The object that has this dict as its `__dict__`, if one has."""
    for each in get_referrers(attributes):
        if not isinstance(each, ModuleType | FrameType) and getattr(each, "__dict__", None) is attributes:
            return each
    return None


def _take_attribute(owner: Any, name: str, made: set[int]) -> None:
    """Delete an attribute that has a default in the class. The earlier value of any other attribute is unknown."""
    if hasattr(type(owner), name):
        object.__delattr__(owner, name)
    elif not _emptied(vars(owner)[name], made):
        raise _refusal(f"the attribute {name!r} of an object of the class {type(owner).__qualname__}")


def _refusal(place: str) -> KeptTensorError:
    return KeptTensorError(
        f"the program stored a tensor in {place} while it was exported. That tensor has no values, and what was there "
        "before is unknown, so it cannot be restored: set it to its earlier value before you call the program again. "
        "To export the program, call it once before the export, so that the tensor is there already, or keep the "
        "tensor in a buffer or an attribute of the module."
    )

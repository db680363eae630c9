"""Finds what a recording made and the program has kept: in a cache, a global, an attribute. It would fail from then on.

Tensors of a recording have no values. A weak reference to each tells, in microseconds, whether any is left when the
recording has ended. As a rule none is: neither the recorder nor the harness may hold any in a cycle of references. Only
if one is left it is searched for who keeps it: first what the program can reach is compared with what was there before
(`python_state.py`), then garbage is collected, and at last the garbage collector is asked for those who refer to it.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from types import CellType, FrameType, ModuleType, TracebackType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from onnx_parity.exporter.capture.fakes.fake_mode import Fakes
from onnx_parity.exporter.capture.record.python_state import PythonState
from onnx_parity.exporter.capture.record.results import TensorList, TensorOrNone
from onnx_parity.exporter.errors import CaptureError

__all__ = ["KeptTensorError", "Survivors", "clear_locals"]

#: How many steps a tensor may lie below what keeps it.
_STEPS = 8
#: The garbage collector takes a tenth of a second to find who keeps so many tensors; all take so many rounds.
_AT_ONCE, _ROUNDS = 50, 5
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class KeptTensorError(CaptureError):
    """The program keeps a tensor of the recording in a place that cannot be restored."""


class Survivors:
    """Weak references to the tensors of a recording, to be asked when it has ended."""

    def __init__(self) -> None:
        self._fakes: list[weakref.ref[FakeTensor]] = []
        self._mode: Fakes | None = None
        #: The garbage collector lists objects in the order in which they were made: those after this one are new.
        self._start: list[object] = []

    def watch(self, mode: Fakes, fakes: Iterable[FakeTensor]) -> None:
        self._mode = mode
        self._fakes = [weakref.ref(fake) for fake in fakes]

    def remove(self, state: PythonState) -> None:
        """Take away what the program has kept. Raises `KeptTensorError` where that cannot be done."""
        has_symbols = self._mode is not None and self._mode.symbols is not None
        # Sizes may be kept, too, and to symbols there are no weak references.
        if not has_symbols and not self._any_left():
            return
        if state.holds_new(self._is_made):
            state.restore()
        if not self._any_left():
            return
        young = self._made_since()
        # Functions that call themselves, and exceptions, are in cycles. A recording's garbage is young.
        for generation in (0, 2):
            gc.collect(generation)
            if not self._any_left():
                return
        for _ in range(_ROUNDS):
            self._take_away(young)
            if not self._any_left():
                return
        raise _refusal("a place that could not be found")

    def _any_left(self) -> bool:
        return any(fake() is not None for fake in self._fakes)

    def _is_made(self, value: Any) -> bool:
        """Whether a value is of this recording. (It is new where it was found.)"""
        if isinstance(value, torch.Tensor):
            return self._is_ours(value)
        if isinstance(value, _SYMBOLS):
            assert self._mode is not None
            return getattr(value.node, "shape_env", None) is self._mode.symbols is not None
        return isinstance(value, (TensorList, TensorOrNone))

    def _is_ours(self, tensor: torch.Tensor) -> bool:
        """Whether it is a fake tensor of this recording, or the wrapper of one, which is what the program sees."""
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
        return isinstance(tensor, FakeTensor) and tensor.fake_mode is self._mode

    def _take_away(self, young: Set[int]) -> None:
        """Ask the garbage collector who keeps tensors of this recording, and have it let go of them."""
        # Not isinstance: what imports or computes itself when it is first used is asked for its class then.
        tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
        found: list[Any] = [each for each in tensors if self._is_ours(each)]
        del tensors
        # The program has the wrappers, and each of them has a fake tensor.
        found.sort(key=lambda each: isinstance(each, FakeTensor))
        passed = {id(young)}
        for _ in range(_STEPS):
            kept = set(map(id, found))
            passed |= {*kept, id(found)}
            above = [
                each
                for each in gc.get_referrers(*found[:_AT_ONCE])
                if id(each) not in passed and not isinstance(each, FrameType)
            ]
            passed.add(id(above))
            # What the recording made, such as a tuple of tensors, is kept in turn.
            found = [each for each in above if id(each) in young]
            for keeper in above:
                if id(keeper) not in young:
                    _take_from(keeper, kept, passed)
            if not found:
                return

    def _made_since(self) -> Set[int]:
        """The identities of what was made since this was, unless garbage was collected."""
        young = gc.get_objects(generation=0)
        start = next((place for place, each in enumerate(young) if each is self._start), len(young))
        return frozenset(map(id, young[start + 1 :]))


def clear_locals(error: BaseException) -> None:
    """Let go of the variables of the functions that a failed recording was in. The lines are still in the traceback."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__]
        place: TracebackType | None = each.__traceback__
        while place is not None:
            with suppress(RuntimeError):  # It still runs: it is one of those that called the export.
                place.tb_frame.clear()
            place = place.tb_next


def _take_from(keeper: Any, kept: set[int], made: set[int]) -> None:
    """Have an object that was there before the recording let go of what is kept, given by identity.

    `made` is all that was found to be made by the recording, and to hold tensors of it.
    """
    if isinstance(keeper, functools._lru_cache_wrapper):
        keeper.cache_clear()
    elif isinstance(keeper, dict):
        _take_from_dict(keeper, kept, made)
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
        for name in _names_of(getattr(keeper, "__dict__", None) or {}, kept):
            _take_attribute(keeper, name, made)


def _take_from_dict(keeper: dict[Any, Any], kept: set[int], made: set[int]) -> None:
    names = _names_of(keeper, kept)
    if not names:
        return
    module = _module_of(keeper)
    owner = None if module is not None else _owner(keeper)
    for name in names:
        if module is not None:
            if not _emptied(keeper[name], made):
                raise _refusal(f"{module}.{name}")
        elif owner is not None:
            _take_attribute(owner, name, made)
        elif any(type(each) is functools._lru_cache_wrapper for each in gc.get_referrers(keeper)):
            keeper.clear()
        else:
            del keeper[name]


def _emptied(value: Any, made: set[int]) -> bool:
    """Take what was made from a dict. One that held no objects before is not to be told from a new one: Python begins
    to collect its garbage only when it does. As a rule it is a cache.
    """
    if not isinstance(value, dict):
        return False
    for name in _names_of(value, made):
        del value[name]
    return True


def _module_of(entries: dict[Any, Any]) -> str | None:
    """The name of the module whose globals these are."""
    name = entries.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return name if module is not None and vars(module) is entries else None


def _names_of(entries: Mapping[Any, Any], kept: set[int]) -> Sequence[Any]:
    return [name for name, value in list(entries.items()) if id(value) in kept or id(name) in kept]


def _owner(attributes: dict[Any, Any]) -> Any:
    """The object that has this dict as its `__dict__`, if one has."""
    for each in gc.get_referrers(attributes):
        if not isinstance(each, ModuleType | FrameType) and getattr(each, "__dict__", None) is attributes:
            return each
    return None


def _take_attribute(owner: Any, name: str, made: set[int]) -> None:
    """Delete an attribute that has a default in the class. Of another one it is not known what it was before."""
    if hasattr(type(owner), name):
        object.__delattr__(owner, name)
    elif not _emptied(vars(owner)[name], made):
        raise _refusal(f"the attribute {name!r} of an object of the class {type(owner).__qualname__}")


def _refusal(place: str) -> KeptTensorError:
    return KeptTensorError(
        f"the program keeps a tensor that it computed in {place}, where it stays after the export. It has no values, "
        "and what was there before is not known. Keep it in a buffer or an attribute of the module, or call the "
        "program once before the export, so that it is there already; now set it back before the program is called."
    )

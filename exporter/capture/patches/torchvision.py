"""What is different in torchvision while a program is recorded: as many boxes as values have it, in Python.

Its detectors ask whether TorchScript traces them, and then take scripts for their loops over boxes; and they take the
`len` of tensors, and the `min` of numbers, which Python decides.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["put_back", "replace"]

#: Those that have scripts for their loops.
_WITH_SCRIPTS = frozenset({"torchvision.models.detection.roi_heads", "torchvision.ops.boxes"})
_COUNTING = ("torchvision.models.detection.roi_heads", "torchvision.models.detection._utils", "torchvision.ops.poolers")
_ABSENT = object()
#: What stands in each module where ours is put.
_before: dict[tuple[str, str], Any] = {}


def _length(of: Any) -> Any:
    return of.shape[0] if isinstance(of, torch.Tensor) and of.ndim else len(of)


def _least(*of: Any, **options: Any) -> Any:
    if any(isinstance(each, torch.SymInt) for each in of):
        return functools.reduce(torch.sym_min, of)
    return min(*of, **options)


def replace(is_recording: Callable[[], bool]) -> None:
    """Put ours into the modules that have been imported; what they had is remembered."""

    def is_tracing() -> bool:
        asker = sys._getframe(1).f_globals.get("__name__")
        return (asker in _WITH_SCRIPTS and is_recording()) or bool(torch._C._get_tracing_state())

    if "torchvision" not in sys.modules:
        return
    replaced: list[tuple[str, str, Any]] = [
        ("torchvision", "_is_tracing", is_tracing),
        ("torchvision.models.detection._utils", "min", _least),
    ]
    for module, name, ours in (*replaced, *((each, "len", _length) for each in _COUNTING)):
        names = _names_of(module)
        if names is not None and (module, name) not in _before:
            _before[module, name] = names.get(name, _ABSENT)
            names[name] = ours


def put_back() -> None:
    for module, name in list(_before):
        names, own = _names_of(module), _before.pop((module, name))
        if names is not None and own is _ABSENT:
            del names[name]
        elif names is not None:
            names[name] = own


def _names_of(module: str) -> dict[str, Any] | None:
    found = sys.modules.get(module)
    return None if found is None else vars(found)

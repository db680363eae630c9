"""torch's compiler, dynamo, kept from being imported while a program is captured, and from compiling what is recorded.

It takes a second of processor time to import, most of a process's first export of a small model. Torch's fake tensors
ask for it four times. Two are seen to in `fakes/fake_mode.py`, and two here: they ask to keep compilation out of
torch's reference kernels, which find the results of `abs` and `gt`, and to tell torch's trace, which nobody reads,
where each symbol was made.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
import torch._refs.fft
import torch._refs.linalg
import torch._refs.nn.functional
import torch._refs.special
from torch._compile import _disable_dynamo

from onnx_parity.exporter.capture.patches.patch import Attribute, FunctionCode, Patch, imported
from onnx_parity.exporter.capture.patches.this_thread import captures_here, records_here

__all__ = ["PATCHES"]

_PACKAGE = "torch._dynamo"

#: What torch keeps in a function once it has asked dynamo to be kept out of it.
_ASKED = "__dynamo_disable"

_REFERENCES = (torch._refs, torch._refs.fft, torch._refs.linalg, torch._refs.nn.functional, torch._refs.special)

#: Where torch logs what becomes of a program, symbol by symbol, if `TORCH_TRACE` names a folder.
_TRACE = logging.getLogger("torch.__trace")


# --- not imported -----------------------------------------------------------------------------------------------------


class _KeptOutOnceImported:
    """A function as it is, until dynamo is there to be kept out of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._kept_out: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._kept_out is None:
            disable = getattr(sys.modules.get(_PACKAGE), "disable", None)
            if disable is None:
                return self._function(*args, **kwargs)
            self._kept_out = disable(self._function, wrapping=False)
        return self._kept_out(*args, **kwargs)


class _KeptOutOfReferences(Patch):
    """The reference kernels are called as they are, unless dynamo is there.

    All threads may notice that: dynamo, once imported, is kept out of them all the same.
    """

    def __init__(self) -> None:
        self._spared: list[tuple[dict[str, Any], _KeptOutOnceImported]] = []

    def put_in(self) -> bool:
        if _PACKAGE in sys.modules:
            return False
        self._spared = _kept_from_dynamo()
        for attributes, spared in self._spared:
            attributes.setdefault(_ASKED, spared)
        return True

    def take_out(self) -> None:
        for attributes, spared in self._spared:
            if attributes.get(_ASKED) is spared:
                del attributes[_ASKED]


@functools.cache
def _kept_from_dynamo() -> list[tuple[dict[str, Any], _KeptOutOnceImported]]:
    """The attributes of each function that torch's `_disable_dynamo` has wrapped, and what spares it that."""
    marked = _disable_dynamo(_tell_trace).__code__
    found = {}
    for module in _REFERENCES:
        for reference in vars(module).values():
            # From wrapper to wrapped. (Torch's `__wrapped__` leave some out.)
            while isinstance(reference, FunctionType) and "fn" in reference.__code__.co_freevars:
                cells = zip(reference.__code__.co_freevars, reference.__closure__ or (), strict=True)
                wrapped = dict(cells)["fn"].cell_contents
                if reference.__code__ is marked:
                    found[id(wrapped)] = wrapped.__dict__, _KeptOutOnceImported(wrapped)
                reference = wrapped
    return list(found.values())


def _tell_trace(torchs: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """To tell where a symbol is made takes a millisecond: only where torch's trace goes to a file.

    It does not with torch's own handler that has no folder, nor with those that pytest puts on every logger.
    """
    if any(getattr(handler, "root_dir", None) for handler in _TRACE.handlers):
        torchs(*args, **kwargs)


# --- not compiling ----------------------------------------------------------------------------------------------------


class _Stance:
    """torch's stance towards compiling; where this thread records, a compiled part is recorded as it was written."""

    def __init__(self, torchs: Any) -> None:
        self._torchs = torchs

    def __getattr__(self, name: str) -> Any:
        return getattr(torch._dynamo.eval_frame.DynamoStance("force_eager") if records_here() else self._torchs, name)


PATCHES: tuple[Patch, ...] = (
    _KeptOutOfReferences(),
    FunctionCode(lambda: torch._logging._internal.trace_structured, _tell_trace, here=captures_here),
    # Whoever compiled a part has imported dynamo.
    Attribute(imported("torch._dynamo.eval_frame"), "_stance", _Stance),
)

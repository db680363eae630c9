"""Keeps torch's compiler, dynamo, from being imported during a capture, and from compiling what is recorded.

The import takes a second of processor time, more than half of a process's first export of a small model. torch's fake
tensors import it for four reasons. Two are avoided in `fakes/fake_mode.py`, and two here. The first is to exclude
torch's reference kernels, which compute the results of `abs` and `gt`, from compilation. The second is to write the
origin of each symbol to torch's structured trace.
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

#: The attribute in which torch stores the version of a function that is excluded from compilation.
_ASKED = "__dynamo_disable"

_REFERENCES = (torch._refs, torch._refs.fft, torch._refs.linalg, torch._refs.nn.functional, torch._refs.special)

#: The logger of torch's structured trace, which is written if `TORCH_TRACE` names a folder.
_TRACE = logging.getLogger("torch.__trace")


# --- avoiding the import ----------------------------------------------------------------------------------------------


class _KeptOutOnceImported:
    """Calls a function directly until dynamo has been imported, and after that the version that dynamo excludes."""

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
    """Reference kernels are called directly, unless dynamo has been imported.

    This affects all threads. It does no harm, because once imported, dynamo excludes the kernels as usual.
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
    """The attributes of each function that torch's `_disable_dynamo` has wrapped, and the replacement for each."""
    marked = _disable_dynamo(_tell_trace).__code__
    found = {}
    for module in _REFERENCES:
        for reference in vars(module).values():
            # Go from wrapper to wrapped function. (`__wrapped__` skips some wrappers.)
            while isinstance(reference, FunctionType) and "fn" in reference.__code__.co_freevars:
                cells = zip(reference.__code__.co_freevars, reference.__closure__ or (), strict=True)
                wrapped = dict(cells)["fn"].cell_contents
                if reference.__code__ is marked:
                    found[id(wrapped)] = wrapped.__dict__, _KeptOutOnceImported(wrapped)
                reference = wrapped
    return list(found.values())


def _tell_trace(torchs: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Write to torch's structured trace only if it goes to a file, because each entry for a symbol takes a millisecond.

    It does not go to a file if torch's own handler has no folder, or if the only handlers are those of pytest.
    """
    if any(getattr(handler, "root_dir", None) for handler in _TRACE.handlers):
        torchs(*args, **kwargs)


# --- avoiding compilation ---------------------------------------------------------------------------------------------


class _Stance:
    """torch's compilation stance. It is `force_eager` in a thread that records, so compiled parts run uncompiled."""

    def __init__(self, torchs: Any) -> None:
        self._torchs = torchs

    def __getattr__(self, name: str) -> Any:
        return getattr(torch._dynamo.eval_frame.DynamoStance("force_eager") if records_here() else self._torchs, name)


PATCHES: tuple[Patch, ...] = (
    _KeptOutOfReferences(),
    FunctionCode(lambda: torch._logging._internal.trace_structured, _tell_trace, here=captures_here),
    # Only needed if dynamo has been imported, as any program with compiled parts has done.
    Attribute(imported("torch._dynamo.eval_frame"), "_stance", _Stance),
)

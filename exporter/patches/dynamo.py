"""Keeps torch's compiler, dynamo, from being imported during a capture, and from compiling what is recorded.

The import takes a second of processor time, more than half of a process's first export of a small model. torch's fake
tensors import it for four reasons. Two are avoided in `fakes/fake_mode.py`, and two here. The first is to exclude
torch's reference kernels, which compute the results of `abs` and `gt`, from compilation. The second is to write the
origin of each symbol to torch's structured trace.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._compile

from onnx_parity.exporter.patches.patch import Attribute, FunctionCode, OnImport, Patch, imported
from onnx_parity.exporter.torch_inside.this_thread import captures_here, records_here

__all__ = ["PATCHES"]

_PACKAGE = "torch._dynamo"
_STANCES = "torch._dynamo.eval_frame"

#: The attribute in which torch stores the version of a function that dynamo does not compile.
_ASKED = "__dynamo_disable"

#: The logger of torch's structured trace, which is written if `TORCH_TRACE` names a folder.
_TRACE = logging.getLogger("torch.__trace")


# --- avoiding the import ----------------------------------------------------------------------------------------------


def _asking(torchs: Callable[..., Any]) -> Callable[..., Any]:
    """The `getattr` by which torch asks for the version of a function that dynamo does not compile. Until dynamo has
    been imported, it is the function itself, because nothing is compiled then."""

    def ask(value: Any, name: str, *default: Any) -> Any:
        found = torchs(value, name, *default)
        if found is None and name == _ASKED and captures_here() and _PACKAGE not in sys.modules:
            return value
        return found

    return ask


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
    Attribute(lambda: torch._compile, "getattr", _asking),
    FunctionCode(lambda: torch._logging._internal.trace_structured, _tell_trace, here=captures_here),
    # Programs with compiled parts have imported dynamo before, or do so in the recording.
    OnImport(_STANCES, Attribute(imported(_STANCES), "_stance", _Stance)),
)

"""Whether this thread is recording a program: what `is_in_onnx_export` answers, ours and torch's."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["exporting", "is_in_onnx_export"]

_exporting: ContextVar[bool] = ContextVar("exporting", default=False)
_lock = threading.Lock()
_threads = 0
#: Where torch keeps the answer of `torch.onnx.is_in_onnx_export`, which libraries ask. Only told if it is there.
_TORCHS_FLAGS = "torch.onnx._internal.torchscript_exporter._globals"


def is_in_onnx_export() -> bool:
    """Whether the caller runs because `onnx_parity.export` is recording it."""
    return _exporting.get()


@contextmanager
def exporting() -> Iterator[None]:
    token = _exporting.set(True)
    _tell_torch(+1)
    try:
        yield
    finally:
        _tell_torch(-1)
        _exporting.reset(token)


def _tell_torch(change: int) -> None:
    """torch has one answer for all threads: yes, while any of them exports."""
    global _threads  # noqa: PLW0603
    with _lock:
        _threads += change
        flags = getattr(sys.modules.get(_TORCHS_FLAGS), "GLOBALS", None)
        if flags is not None and (_threads == 0 or change > 0):
            flags.in_onnx_export = _threads > 0

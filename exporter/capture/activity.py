"""Whether this thread is recording a program: what `is_in_onnx_export` answers, ours and torch's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["exporting", "is_in_onnx_export"]

_exporting: ContextVar[bool] = ContextVar("exporting", default=False)
#: Where torch keeps the answer of `torch.onnx.is_in_onnx_export`, which libraries ask. Only told if it is there.
_TORCHS_FLAGS = "torch.onnx._internal.torchscript_exporter._globals"


def is_in_onnx_export() -> bool:
    """Whether the caller runs because `exporter.export` is recording it."""
    return _exporting.get()


@contextmanager
def exporting() -> Iterator[None]:
    token = _exporting.set(True)
    torchs = getattr(sys.modules.get(_TORCHS_FLAGS), "GLOBALS", None)
    before = getattr(torchs, "in_onnx_export", None)
    if before is not None:
        torchs.in_onnx_export = True  # type: ignore[union-attr]
    try:
        yield
    finally:
        _exporting.reset(token)
        if before is not None:
            torchs.in_onnx_export = before  # type: ignore[union-attr]

"""Whether this thread is exporting a program: the result of this package's and torch's `is_in_onnx_export`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from onnx_parity.exporter.capture.patches.patch import FunctionCode, Patches, imported

__all__ = ["exporting", "is_in_onnx_export"]

_exporting: ContextVar[bool] = ContextVar("exporting", default=False)


def is_in_onnx_export() -> bool:
    """Whether the caller runs because `onnx_parity.export` is recording it."""
    return _exporting.get()


def _yes(torchs: Callable[[], bool]) -> bool:
    return True


#: Libraries call the function of `torch.onnx`.
_PATCHES = Patches(
    FunctionCode(lambda: getattr(imported("torch.onnx")(), "is_in_onnx_export", None), _yes, here=is_in_onnx_export)
)


@contextmanager
def exporting() -> Iterator[None]:
    token = _exporting.set(True)
    try:
        with _PATCHES.in_place():
            yield
    finally:
        _exporting.reset(token)

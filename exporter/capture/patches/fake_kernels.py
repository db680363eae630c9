"""Makes `torch.library.get_ctx()` local to a thread. Fake kernels use it to create data-dependent sizes.

torch stores the context in a global variable. Two threads that record at the same time would create sizes in each
other's context, and one context would remain set afterwards. A thread that captures has its own context.

And leaves out the stack trace that a mode of fake tensors takes when it is made, for the error of torch's that two of
them are mixed. It takes a twentieth of the time of the export of a single operator.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import StackSummary
from typing import Any

import torch
import torch._library.fake_impl
import torch._subclasses.fake_tensor

from onnx_parity.exporter.capture.patches.patch import Attribute, FunctionCode, Patch
from onnx_parity.exporter.capture.patches.this_thread import captures_here

__all__ = ["PATCHES"]


class _ThisThread(threading.local):
    getter: Callable[[], Any] | None = None


_this_thread = _ThisThread()


@contextmanager
def _set_getter(torchs: Callable[..., Any], ctx_getter: Callable[[], Any]) -> Iterator[None]:
    outer = _this_thread.getter
    _this_thread.getter = ctx_getter
    try:
        yield
    finally:
        _this_thread.getter = outer


def _get(torchs: Callable[[], Any]) -> Any:
    return torchs() if _this_thread.getter is None else _this_thread.getter()


class _Traceback:
    """The module `traceback`, which finds no stack in a thread that captures."""

    def __init__(self, torchs: Any) -> None:
        self._torchs = torchs

    def extract_stack(self, *args: Any, **kwargs: Any) -> Any:
        return StackSummary() if captures_here() else self._torchs.extract_stack(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torchs, name)


PATCHES: tuple[Patch, ...] = (
    Attribute(lambda: torch._subclasses.fake_tensor, "traceback", _Traceback),
    FunctionCode(lambda: torch._library.fake_impl.set_ctx_getter, _set_getter, here=captures_here),
    FunctionCode(lambda: torch.library.get_ctx, _get, here=captures_here),
)

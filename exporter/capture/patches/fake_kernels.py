"""Makes `torch.library.get_ctx()` local to a thread. Fake kernels use it to create data-dependent sizes.

torch stores the context in a global variable. Two threads that record at the same time would create sizes in each
other's context, and one context would remain set afterwards. A thread that captures has its own context.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._library.fake_impl

from onnx_parity.exporter.capture.patches.patch import FunctionCode, Patch
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


PATCHES: tuple[Patch, ...] = (
    FunctionCode(lambda: torch._library.fake_impl.set_ctx_getter, _set_getter, here=captures_here),
    FunctionCode(lambda: torch.library.get_ctx, _get, here=captures_here),
)

"""What is different in torch while a program is recorded: attention, logging, autograd functions, compiled parts."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.autograd.function import Function, FunctionCtx

__all__ = ["recording_surroundings"]


@contextmanager
def recording_surroundings() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(_plain_attention())
        stack.enter_context(_quiet())
        stack.enter_context(_functions_run_forward())
        if "torch._dynamo" in sys.modules:
            # A compiled part is recorded as it was written. Whoever compiled one has imported dynamo, which is slow.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


@contextmanager
def _plain_attention() -> Iterator[None]:
    """The fused attention and encoder-layer kernels are one opaque operator; their written-out path exports."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """torch logs each failure over fake tensors with a traceback; what went wrong is in the error that is raised."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


# --- autograd functions -----------------------------------------------------------------------------------------------

_lock = threading.Lock()
_threads_recording: set[int] = set()
_torch_apply = Function.__dict__["apply"]


class _ForwardContext(FunctionCtx):
    """The `ctx` of a forward that no backward follows."""

    def __init__(self, arguments: int) -> None:
        self.needs_input_grad = (False,) * arguments


def _apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    if threading.get_ident() not in _threads_recording:
        return _torch_apply.__get__(None, cls)(*args, **kwargs)
    if cls.setup_context is not Function.setup_context:
        return cls.forward(*args, **kwargs)
    return cls.forward(_ForwardContext(len(args)), *args, **kwargs)


@contextmanager
def _functions_run_forward() -> Iterator[None]:
    """A `torch.autograd.Function` is its forward: functorch's `functionalize` refuses to apply one.

    `Function.apply` is torch's own again when the last thread has finished; meanwhile other threads get torch's.
    """
    thread = threading.get_ident()
    with _lock:
        nested = thread in _threads_recording
        _threads_recording.add(thread)
        Function.apply = classmethod(_apply)  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        with _lock:
            if not nested:
                _threads_recording.discard(thread)
            if not _threads_recording:
                Function.apply = _torch_apply  # type: ignore[method-assign]

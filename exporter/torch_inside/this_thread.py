"""Whether this thread captures or records a program. Patches affect all threads, and so check this first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_parity.exporter.recording.recorder import Recorder

__all__ = ["captures_here", "capturing", "recorder_here", "recording", "records_here"]


class _ThisThread(threading.local):
    captures: bool = False
    recorder: Recorder | None = None


_this_thread = _ThisThread()


def captures_here() -> bool:
    """Whether this thread is capturing a program: preparing the recording, recording, or building the graph."""
    return _this_thread.captures


def records_here() -> bool:
    """Whether this thread is recording: the program is running with fake tensors."""
    return _this_thread.recorder is not None


def recorder_here() -> Recorder:
    """The recorder of the program that this thread is recording."""
    assert _this_thread.recorder is not None
    return _this_thread.recorder


@contextmanager
def capturing() -> Iterator[None]:
    outer = _this_thread.captures
    _this_thread.captures = True
    try:
        yield
    finally:
        _this_thread.captures = outer


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    outer = _this_thread.recorder
    _this_thread.recorder = recorder
    try:
        yield
    finally:
        _this_thread.recorder = outer

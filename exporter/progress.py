"""One line on the terminal, or in a notebook, about an export or a verification that takes longer than two seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["progress"]

#: Seconds until the line appears, and between its changes.
_AFTER, _EVERY = 2.0, 0.5
#: Held by the thread whose steps are shown.
_shown = threading.Lock()
_of_thread = threading.local()


@contextmanager
def progress(step: str) -> Iterator[None]:
    """A context that is a step of an export, in words; a step within a step is shown in its place.

    Nothing is shown, and no thread started, where standard error is neither a terminal nor a notebook, nor for an
    export that another thread makes at the same time.
    """
    line: _Line | _Nowhere | None = getattr(_of_thread, "line", None)
    if line is not None:
        before, line.step = line.step, step
        try:
            yield
        finally:
            line.step = before
        return
    stream = _interactive()
    is_shown = stream is not None and _shown.acquire(blocking=False)
    line = _of_thread.line = _Line(stream, step) if stream is not None and is_shown else _Nowhere(step)
    try:
        yield
    finally:
        _of_thread.line = None
        line.end()
        if is_shown:
            _shown.release()


class _Nowhere:
    """What a thread has in the place of a line where nobody reads it, so that steps within do not ask again."""

    def __init__(self, step: str) -> None:
        self.step = step

    def end(self) -> None: ...


class _Line:
    """The line, which a thread of its own writes and erases."""

    def __init__(self, stream: TextIO, step: str) -> None:
        self.step = step
        self._stream = stream
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, name="onnx-parity-progress", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        width, wait = 0, _AFTER
        while not self._ended.wait(wait):
            text = f"onnx-parity: {self.step}, {time.monotonic() - self._began:.0f} s"
            self._put(f"\r{text:{width}}")
            width, wait = max(width, len(text)), _EVERY
        if width:
            self._put(f"\r{'':{width}}\r")

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal is gone, or the stream is closed: the export goes on.
            self._ended.set()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def _interactive() -> TextIO | None:
    """Standard error if a person reads it: on a terminal that moves its cursor, or in a notebook."""
    stream = sys.stderr
    if stream is None or not (type(stream).__module__.startswith("ipykernel.") or stream.isatty()):
        return None
    return None if os.environ.get("TERM") == "dumb" else stream

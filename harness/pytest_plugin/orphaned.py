"""Ends pytest when the `parity run` that started it has been killed: nobody would see its end, or could stop it."""

from __future__ import annotations

import os
import signal
import threading
import time

__all__ = ["STARTED_BY", "end_with_starter"]

#: In the environment: a descriptor that can be read to its end once the process that started this one has ended.
STARTED_BY = "PARITY_STARTED_BY"
#: Seconds within which pytest ends in order, as after Ctrl-C, so that the run can be resumed.
_IN_ORDER = 30.0


def end_with_starter() -> None:
    """Watch for the end of the process that started this one, if it asked for that."""
    # Workers and the processes of cells end with this one, and must not watch.
    pipe = os.environ.pop(STARTED_BY, "")
    if pipe:
        threading.Thread(target=_watch, args=(int(pipe),), daemon=True).start()


def _watch(pipe: int) -> None:
    os.read(pipe, 1)
    # pytest leads a group of processes, in which its workers are.
    os.killpg(os.getpgid(0), signal.SIGINT)
    time.sleep(_IN_ORDER)
    os.killpg(os.getpgid(0), signal.SIGKILL)

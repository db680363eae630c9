"""A process that stops along with this one: in order when that is asked once, at once when it is asked again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

_Handler = Callable[[int, FrameType | None], None]

#: How a terminal asks for an end, a system, and a terminal that goes away.
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What asks for a debugger, which reads from the terminal: only the group of processes in its foreground may.
_DEBUGGING = ("--in-process", "--pdb", "--trace")

STOPPED = 2


def exit_code_of(command: Sequence[str], stdout: TextIO | None) -> int:
    """Of a command, `STOPPED` where this process was asked to stop, which the command then was too.

    It has a group of its own: a terminal interrupts all of the one in its foreground, and pytest, to which that is
    passed on besides, leaves its end undone at a second interrupt.
    """
    if any(word in _DEBUGGING for word in command):
        # The terminal asks it by itself, and it may well go on.
        with _handled({signal.SIGINT: _nothing}):
            return subprocess.run(command, stdout=stdout, check=False).returncode
    process: subprocess.Popen[bytes] | None = None
    asked = 0

    def tell(number: signal.Signals) -> None:
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        tell(signal.SIGINT if asked == 1 else signal.SIGTERM)

    def pause(number: int, frame: FrameType | None) -> None:
        tell(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        tell(signal.SIGCONT)

    with _handled({**dict.fromkeys(_STOPPING, stop), signal.SIGTSTP: pause}):
        process = subprocess.Popen(command, stdout=stdout, process_group=0)
        if asked:
            tell(signal.SIGTERM)
        code = process.wait()
    return STOPPED if asked else code


@contextmanager
def _handled(handlers: Mapping[signal.Signals, _Handler]) -> Iterator[None]:
    """What this process ignores, such as a hang-up under `nohup`, it goes on to ignore."""
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
        elif number == signal.SIGINT:
            # As in the background of a script. A process that is begun here would inherit that, and never end in order.
            signal.signal(number, _nothing)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _nothing(number: int, frame: FrameType | None) -> None:
    pass

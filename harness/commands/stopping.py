"""Runs a child process, such as pytest, that is stopped together with this one.

The first signal is passed on as an interrupt, so that the run ends in order and prints how to resume it. The second is
passed on as SIGTERM.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

from onnx_parity.harness.pytest_plugin.options import prefix_option
from onnx_parity.harness.pytest_plugin.orphaned import STARTED_BY

_Handler = Callable[[int, FrameType | None], None]

#: Sent by Ctrl-C in a terminal, by `kill` and service managers, and when the terminal is closed.
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Options that start a debugger. It reads from the terminal, which only a foreground process group may do.
_DEBUGGING = (prefix_option("in-process"), "--pdb", "--trace")

STOPPED = 2


def exit_code_of(
    command: Sequence[str], stdout: TextIO | None, begun: Callable[[int], object] = lambda _: None
) -> tuple[int, int]:
    """Run a command and return its exit code, or `STOPPED` if this process received a signal to stop, and the number of
    the command's process, with which `begun` is called when it begins.

    The command gets a process group of its own. In this process's group it would receive Ctrl-C twice, from the
    terminal and from here, and pytest does not finish its work at a second interrupt.
    """
    if any(word in _DEBUGGING for word in command):
        # The terminal interrupts the debugger directly, and the debugger may continue.
        with _handle_signals({signal.SIGINT: _nothing}):
            debugged = subprocess.Popen(command, stdout=stdout)
            return debugged.wait(), debugged.pid
    process: subprocess.Popen[bytes] | None = None
    requests = 0

    def pass_on(number: signal.Signals) -> None:
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal requests
        requests += 1
        pass_on(signal.SIGINT if requests == 1 else signal.SIGTERM)

    def pause(number: int, frame: FrameType | None) -> None:
        pass_on(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        pass_on(signal.SIGCONT)

    with _handle_signals({**dict.fromkeys(_STOPPING, stop), signal.SIGTSTP: pause}):
        # The writing end is only in this process. When it is killed, however that is done, the system closes the pipe.
        theirs, ours = os.pipe()
        process = subprocess.Popen(
            command, stdout=stdout, process_group=0, pass_fds=(theirs,), env={**os.environ, STARTED_BY: str(theirs)}
        )
        os.close(theirs)
        begun(process.pid)
        if requests:
            pass_on(signal.SIGTERM)
        code = process.wait()
        os.close(ours)
    return STOPPED if requests else code, process.pid


@contextmanager
def _handle_signals(handlers: Mapping[signal.Signals, _Handler]) -> Iterator[None]:
    """A context in which signals are handled. Ignored signals, such as SIGHUP under `nohup`, stay ignored."""
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
        elif number == signal.SIGINT:
            # This process is in the background of a script. A child would inherit that, and could not be interrupted.
            signal.signal(number, _nothing)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _nothing(number: int, frame: FrameType | None) -> None:
    pass

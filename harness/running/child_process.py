"""A child process that may crash, hang or take too much memory, from the side of its owner.

Messages are exchanged until the process ends; then a `ProcessEndedError` describes how it ended. `forked` makes a copy
of the owner, which starts in milliseconds with all of the owner's modules and data; `spawned` starts a new Python.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn, Protocol, Self

from onnx_parity.harness.running.channel import Channel, die_with, pipes
from onnx_parity.harness.running.limits import resident_mib

#: Seconds between two checks of a process's limits, in which a process can allocate at most about 200 MiB.
_LOOK = 0.05
#: Seconds between two of these checks after which the owner itself has been stopped, as by Ctrl+Z.
_STOPPED = 5.0
#: Seconds in which a process that must end can write its Python stack, or end by itself.
_LAST_WORDS = 1.0
#: Seconds after which a process that has closed its pipes must have ended. The system may write a large core file.
_GONE = 60.0


class ProcessEndedError(Exception):
    """The process ended before it answered. The message describes how: `was killed by SIGSEGV`."""


def how_it_ended(code: int) -> str:
    """How a process ended, by its exit code, which is negative for a signal: `was killed by SIGSEGV`."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


class Waiting:
    """Since when something has been waited for. Time in which this process itself was stopped does not count."""

    def __init__(self) -> None:
        self._since = self._last = time.monotonic()

    def since(self) -> float:
        """The start, as if there had been no pause. To be asked again and again."""
        now = time.monotonic()
        if now - self._last > _STOPPED:
            self._since += now - self._last
        self._last = now
        return self._since


class _Process(Protocol):
    """The part of the interface of `subprocess.Popen` that is used."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Its exit code if it has ended, which is negative for a signal."""


class _Fork:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


class ChildProcess:
    """One process, from its start to its end."""

    def __init__(self, process: _Process, channel: Channel) -> None:
        self._process = process
        self._channel = channel

    @classmethod
    def forked(cls, serve: Callable[[Channel], None], stderr: Path, keeps: Collection[int] = ()) -> Self:
        """A copy of this process that serves a channel and never returns here. `stderr` is the file of its standard
        error and of faulthandler's stack; `keeps` are files of the owner's that stay open in it.
        """
        owner, (ours, theirs) = os.getpid(), pipes()
        with warnings.catch_warnings():
            # Python warns if there are other threads, such as execnet's that reads from the controller, but the child
            # does not use execnet. torch and onnxruntime start threads with the first operator, and owners run none.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            ours.close()
            _serve(serve, theirs, owner, stderr, keeps)
        theirs.close()
        return cls(_Fork(pid), ours)

    @classmethod
    def spawned(
        cls,
        command: Sequence[str],
        stderr: IO[bytes],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """A process started with a command, to which the number of the descriptor for its answers is added. It reads
        from standard input. It does not answer on standard output, because the code that it runs may print.
        """
        answers, theirs = os.pipe()
        process = subprocess.Popen(
            [*command, str(theirs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=(theirs,),
            cwd=folder,
            env=environment,
        )
        os.close(theirs)
        assert process.stdin is not None
        # The channel gets its own descriptor, which it closes independently of Popen.
        channel = Channel(answers, os.dup(process.stdin.fileno()))
        process.stdin.close()
        return cls(process, channel)

    def send(self, message: bytes) -> None:
        try:
            self._channel.send(message)
        except BrokenPipeError:
            raise ProcessEndedError(self.end(_GONE)) from None

    def offer(self, message: bytes) -> bool:
        """Send a message to a process that may have ended after its last answer, which has yet to be read."""
        with suppress(BrokenPipeError):
            self._channel.send(message)
            return True
        return False

    def receive(self, look: Callable[[], None]) -> bytes:
        """The next answer. `look` is called again and again until it comes, and may end the process."""
        poll = select.poll()
        poll.register(self._channel.reading, select.POLLIN | select.POLLHUP)
        while not poll.poll(_LOOK * 1e3):
            look()
            # A child of the process may still be running, and keep the pipe open.
            if self._process.poll() is not None and not poll.poll(0):
                raise ProcessEndedError(self.end())
        try:
            return self._channel.receive()
        except EOFError:
            raise ProcessEndedError(self.end(_GONE)) from None

    def receive_within(self, seconds: float) -> bytes | None:
        """The next answer; None if none comes within so many seconds."""
        until = time.monotonic() + seconds

        def look() -> None:
            if time.monotonic() >= until:
                raise TimeoutError

        with suppress(TimeoutError):
            return self.receive(look)
        return None

    def answer(self, within: float) -> bytes:
        """The next answer. A process that gives none within so many seconds is ended."""
        waiting = Waiting()
        return self.receive(lambda: self.limit_time(within, waiting.since(), f"gave no answer for {within:g} s"))

    def limit_memory(self, mib: int) -> None:
        """End the process if it holds more than this."""
        if resident_mib(self._process.pid) > mib:
            self._kill(signal.SIGKILL)
            raise ProcessEndedError(f"took more than {mib} MiB of memory and was killed")

    def limit_time(self, seconds: float, since: float, reason: str, *, asks_for_stack: bool = False) -> None:
        """End the process if so many seconds have passed. If it uses faulthandler, it can be asked for its stack first,
        which it writes even if it holds the interpreter's lock and never returns.
        """
        if time.monotonic() - since > seconds:
            if asks_for_stack:
                self._kill(signal.SIGABRT)
            self._kill(signal.SIGKILL)
            raise ProcessEndedError(reason)

    def end(self, within: float = _LAST_WORDS) -> str:
        """Send the process no more messages, wait so many seconds for it to end, and return how it ended."""
        self._channel.end_sending()
        if not self._has_ended_within(within):
            self._kill(signal.SIGKILL)
        self._channel.close()
        code = self._process.poll()
        assert code is not None
        if code == -signal.SIGKILL:
            return "was killed by SIGKILL (as the system does when memory runs out)"
        return how_it_ended(code)

    def kill(self) -> None:
        """End the process immediately."""
        self._kill(signal.SIGKILL)

    def _kill(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.kill(self._process.pid, number)
        if self._has_ended_within(_LAST_WORDS if number is not signal.SIGKILL else float("inf")):
            self._channel.close()

    def _has_ended_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        return True


def _serve(
    serve: Callable[[Channel], None], channel: Channel, owner: int, stderr: Path, keeps: Collection[int]
) -> NoReturn:
    """Run the forked process. It never returns into the frames of its owner."""
    code = 1
    try:
        die_with(owner)
        _let_go_of_files(channel.descriptors | frozenset(keeps))
        # Ctrl-C is handled by the owner, which ends this process when it ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _own_streams(stderr)
        serve(channel)
        code = 0
    except EOFError:
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001  No exception may unwind into the frames of the owner below.
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _let_go_of_files(keep: frozenset[int]) -> None:
    """Release the owner's files, because a reader of one of its pipes waits until every copy of the pipe is closed.

    They are not closed but redirected to os.devnull, because Python's objects still refer to their numbers.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/dev/fd")):
        if number > 2 and number not in keep:
            # The descriptor by which they were listed has been closed by now.
            with suppress(OSError):
                os.fstat(number)
                os.dup2(nowhere, number)


def _own_streams(path: Path) -> None:
    """Give the process its own standard streams. pytest's go to shared files, and execnet's to the controller."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    stderr = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    for source, target in ((nowhere, 0), (nowhere, 1), (stderr, 2)):
        os.dup2(source, target)
    os.close(nowhere)
    os.close(stderr)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="replace")
    faulthandler.enable(2)

"""pytest and `parity` in this process, whose further processes are copies of it.

The workers of pytest, and the pytest of `parity run`, would be interpreters of their own and take three seconds each to
import torch. What is tested is what the user has: processes of their own, in groups of their own, with the same pipes
and signals between them.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import NoReturn, TextIO

import pytest
from execnet import gateway_base, gateway_io

__all__ = ["exit_with", "fail", "fork_pytest_of_parity", "pytest_here"]

#: An interpreter that starts has no more open files than these.
_MOST_FILES = 4096
_FAILED = 70


def fork_pytest_of_parity() -> None:
    """Let `parity run` in this process start a copy of it, the leader of another process group."""
    from onnx_parity.harness.commands import stopping

    vars(stopping)["subprocess"] = SimpleNamespace(Popen=_ForkedByParity)


class _ForkedByParity:
    """What `parity run` asks of `subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str],
        stdout: TextIO | None,
        process_group: int,
        pass_fds: Sequence[int],
        env: Mapping[str, str],
    ) -> None:
        assert list(command[1:3]) == ["-m", "pytest"]
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.setpgid(0, process_group)
            os.environ.clear()
            os.environ.update(env)
            if stdout is not None:
                os.dup2(stdout.fileno(), 1)
            _close_all_but(pass_fds)
            # Those of an interpreter that starts.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)
            exit_with(lambda: pytest_here(command[3:]))
        finally:
            fail()

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def pytest_here(words: Sequence[str]) -> int:
    """Run pytest in this process, which has no threads yet. Its workers, if it has any, are forked too."""
    if "-n" in words and words[words.index("-n") + 1] != "0":
        starter = _Starter()

        def begin(io: gateway_io.Popen2IOMaster, args: object, execmodel: gateway_base.ExecModel) -> None:
            io.popen = starter.start()
            gateway_base.Popen2IO.__init__(io, io.popen.stdin, io.popen.stdout, execmodel)

        vars(gateway_io)["Popen2IOMaster"] = type("ForkedIOMaster", (gateway_io.Popen2IOMaster,), {"__init__": begin})
    return int(pytest.main(list(words)))


class _Starter:
    """A copy of a process from before it has threads. It starts the workers of pytest, as copies of itself."""

    def __init__(self) -> None:
        self._asks, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            try:
                self._asks.close()
                _start_workers(asked)
            finally:
                fail()
        asked.close()

    def start(self) -> _Worker:
        """Start a worker, whose streams and whose ending come through pipes."""
        their_input, our_output = os.pipe()
        our_input, their_output = os.pipe()
        told, telling = os.pipe()
        theirs = [their_input, their_output, telling]
        socket.send_fds(self._asks, [b"start"], theirs)
        for stream in theirs:
            os.close(stream)
        return _Worker(our_output, our_input, told)


class _Worker(subprocess.Popen[bytes]):
    """A process that is no child of this one, with what execnet and the harness use of it."""

    #: What makes a `Popen` wait for its process when it is forgotten.
    _child_created = False

    def __init__(self, stdin: int, stdout: int, told: int) -> None:
        self.stdin = os.fdopen(stdin, "wb")
        self.stdout = os.fdopen(stdout, "rb")
        self._told = os.fdopen(told)
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a worker", timeout or 0.0)
            self.returncode = int(self._told.readline() or -signal.SIGKILL)
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _start_workers(asked: socket.socket) -> None:
    """Start a worker for each request, until there can be no more."""
    # What interrupts the group of pytest's processes is not for this one. It waits for nobody.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, streams, _, _ = socket.recv_fds(asked, 32, 3)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            try:
                asked.close()
                _tend(*streams)
            finally:
                fail()
        for stream in streams:
            os.close(stream)


def _tend(stdin: int, stdout: int, telling: int) -> NoReturn:
    """Fork a worker, and tell its number, and when it has ended, how."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    worker = os.fork()
    if worker == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.dup2(stdin, 0)
            os.dup2(stdout, 1)
            _close_all_but(())
            sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
            # Pytest, which has been started by `parity`, keeps this from its workers.
            from onnx_parity.harness.pytest_plugin.orphaned import STARTED_BY

            os.environ.pop(STARTED_BY, None)
            # What execnet has an interpreter execute.
            exec(eval(sys.stdin.readline()), {"__name__": "__main__"})
            os._exit(0)
        finally:
            fail()
    os.close(stdin)
    os.close(stdout)
    os.write(telling, f"{worker}\n".encode())
    _, status = os.waitpid(worker, 0)
    os.write(telling, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _close_all_but(kept: Sequence[int]) -> None:
    """Close what an interpreter that starts would not have: above all the other end of a pipe that is passed to it."""
    least = 3
    for descriptor in sorted(kept):
        os.closerange(least, descriptor)
        least = descriptor + 1
    os.closerange(least, _MOST_FILES)


def fail() -> NoReturn:
    """End this copy of the process, and print the error that it ends with."""
    if (error := sys.exception()) is not None:
        traceback.print_exception(error)
        sys.stderr.flush()
    os._exit(_FAILED)


def exit_with(main: Callable[[], object]) -> NoReturn:
    """End this process as one that runs `main` alone would."""
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))

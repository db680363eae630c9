"""Runs of `pytest` and `parity` in forked copies of this process, which has already imported what they need.

Interpreters of their own would take seconds each to import torch, and hundreds are needed. What is tested is what the
user has: processes of their own, in groups of their own, with the same pipes and signals between them.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, TextIO

import msgspec
import pytest
from execnet import gateway_base, gateway_io

from onnx_parity.harness.cli import app
from onnx_parity.harness.commands import stopping
from onnx_parity.harness.pytest_plugin.orphaned import STARTED_BY
from tests.harness.faults import CELLS, LEAN

__all__ = ["Forked", "forked_parity", "forked_pytest", "in_parts"]

#: Where a command prints, in its folder.
_OUTPUT = "output.txt"
_WRONG = "wrong.json"
_CLONE = str(Path(__file__).parents[2])
#: An interpreter that starts has no more open files than these.
_MOST_FILES = 4096
_FAILED = 70
#: How many parts of the attacks are made at once.
_PARTS = 2


def in_parts(place: Path, repeats: int, attack: Callable[[Path, range], Iterable[str]]) -> tuple[str, ...]:
    """What went wrong in so many attacks. Copies of this process make them, each a part, in a folder of its own.

    `attack` is called with the folder and the numbers of its attacks.
    """
    parts: list[tuple[int, Path]] = []
    for number in range(min(_PARTS, repeats)):
        folder = place / f"part{number}"
        folder.mkdir()
        child = os.fork()
        if child == 0:
            try:
                wrong = list(attack(folder, range(number, repeats, _PARTS)))
                (folder / _WRONG).write_bytes(msgspec.json.encode(wrong))
                os._exit(0)
            finally:
                _fail()
        parts.append((child, folder))
    for child, folder in parts:
        _, status = os.waitpid(child, 0)
        if status:
            raise RuntimeError(f"the attacks in {folder.name} ended with {os.waitstatus_to_exitcode(status)}")
    return tuple(
        words for _, folder in parts for words in msgspec.json.decode((folder / _WRONG).read_bytes(), type=list[str])
    )


class Forked:
    """A command that runs in a copy of this process. It has the methods of `subprocess.Popen` that are used here."""

    def __init__(self, root: Path, main: Callable[[], object]) -> None:
        self.root = root
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.chdir(root)
            sys.path.insert(0, str(root))
            os.environ["PYTHONPATH"] = os.pathsep.join([_CLONE, str(root)])
            output = os.open(_OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            for stream in (1, 2):
                os.dup2(output, stream)
            _exit_with(main)
        finally:
            _fail()

    def poll(self) -> int | None:
        return self.returncode if self.returncode is not None else self._waited(os.WNOHANG)

    def wait(self) -> int:
        code = self.returncode if self.returncode is not None else self._waited(0)
        assert code is not None
        return code

    def _waited(self, options: int) -> int | None:
        pid, status = os.waitpid(self.pid, options)
        if pid:
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def output(self) -> str:
        return (self.root / _OUTPUT).read_text(encoding="utf-8", errors="replace")


def forked_pytest(root: Path, *options: str, workers: int = 0) -> Forked:
    """`pytest` on the cells of a project."""
    words = [*LEAN, *CELLS, "-n", str(workers), "-q", *options, "faulty_cases"]
    return Forked(root, lambda: _pytest(words))


def forked_parity(root: Path, *arguments: str) -> Forked:
    """`parity ...` in a project. The pytest that it starts is a copy of it, and the leader of another process group."""

    def main() -> object:
        vars(stopping)["subprocess"] = SimpleNamespace(Popen=_ForkedByParity)
        return app(arguments)

    return Forked(root, main)


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
            _exit_with(lambda: _pytest(command[3:]))
        finally:
            _fail()

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _pytest(words: Sequence[str]) -> int:
    """Run pytest in this process. Its workers, if it has any, are forked too."""
    if words[words.index("-n") + 1] != "0":
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
                _fail()
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
                _fail()
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
            os.environ.pop(STARTED_BY, None)
            # What execnet has an interpreter execute.
            exec(eval(sys.stdin.readline()), {"__name__": "__main__"})
            os._exit(0)
        finally:
            _fail()
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


def _fail() -> NoReturn:
    """End this copy of the process, and print the error that it ends with."""
    if (error := sys.exception()) is not None:
        traceback.print_exception(error)
        sys.stderr.flush()
    os._exit(_FAILED)


def _exit_with(main: Callable[[], object]) -> NoReturn:
    """End this process as one that runs `main` alone would."""
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))

"""The process that runs cells, as its owner sees it: a cell goes in, and a record or the process's end comes out.

The next cell may go in before the first has come out, so that the process goes on while its owner reports. It is
forked from pytest's process once the cells are collected, so that it knows them, and starts in milliseconds again after
a crash. The owner runs no case itself: nothing that a cell does, be it `os._exit`, can take it along.

Libraries keep something of nearly every new case (compiled functions, kernels of a shape), 200 MiB over the default
tier; so a process that has grown by `GROWTH_MIB` is replaced between two cases, and a run of any length takes as much
memory as a short one.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from onnx_parity.harness.running.limits import Limits, own_private_mib, resident_mib
from onnx_parity.harness.store import InFlight

#: Seconds between two looks at what a cell takes. A process that allocates as fast as it can gets 200 MiB in it.
_LOOK = 0.05
#: Seconds that a process has to write its Python stack, once it is to end.
_LAST_WORDS = 1.0
#: How much more of its own a process may come to hold, in MiB: three or four are needed for the default tier.
GROWTH_MIB = 64
_HEADER = 8
_PR_SET_PDEATHSIG = 1


class ProcessEndedError(Exception):
    """The process ended before the cell did. The message says how: `was killed by SIGSEGV`."""


class CellProcess:
    """A process of one's own for cells, started with the first one and again after its end."""

    def __init__(
        self,
        answer: Callable[[bytes], bytes],
        in_flight: InFlight,
        stderr: Path,
        limits: Limits,
        keeps: Collection[int] = (),
    ) -> None:
        """`keeps` are files of the owner's that stay open in the process."""
        self._answer = answer
        self._keeps = frozenset(keeps) | {in_flight.fileno()}
        self._in_flight = in_flight
        self._stderr = stderr
        self._limits = limits
        self._pid = 0
        #: Of a process that has ended and was waited for.
        self._status: int | None = None
        self._questions = self._answers = -1
        #: What the process was given before it was asked for it, and is asked next.
        self._ahead: bytes | None = None
        self._asked = 0.0
        #: MiB that the process held of its own after its last cell, and the least that it ever did after one.
        self._held: int | None = None
        self._held_at_least: int | None = None

    def ask(self, question: bytes, ahead: bytes | None = None, *, alike: bool = False) -> bytes:
        """What `answer` makes of the question, in the process, which then sets about the one `ahead`.

        `alike`: the next is helped by what the process knows from this one, so that it is not replaced before that.
        """
        self._asked = time.monotonic()
        if self._ahead not in (None, question):
            with suppress(ProcessEndedError):
                self._ask(None)
        known, self._ahead = self._ahead == question, None
        grown = not alike and self._has_grown
        answer = self._ask(None if known else question, None if grown else ahead)
        if grown:
            self._end()
        return answer

    @property
    def _has_grown(self) -> bool:
        if self._held is None or self._held_at_least is None:
            return False
        return self._held > self._held_at_least + GROWTH_MIB

    def _end(self) -> None:
        """End the process, between two cells."""
        self._close_questions()
        if not self._waited(_LAST_WORDS):
            os.kill(self._pid, signal.SIGKILL)
        self._how_it_ended()

    def _ask(self, question: bytes | None, ahead: bytes | None = None) -> bytes:
        try:
            if not self._pid:
                self._start()
            if question is not None:
                _send(self._questions, question)
            if ahead is not None:
                # A process that ended before it was given this may have answered before.
                with suppress(BrokenPipeError):
                    _send(self._questions, ahead)
                    self._ahead = ahead
            return self._receive()
        except (BrokenPipeError, EOFError):
            raise ProcessEndedError(self._how_it_ended()) from None

    def close(self) -> None:
        if self._pid:
            self._end()
        with suppress(FileNotFoundError):
            if self._stderr.stat().st_size == 0:
                self._stderr.unlink()

    def _start(self) -> None:
        questions, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        owner = os.getpid()
        with warnings.catch_warnings():
            # Python warns where there are other threads, such as execnet's that reads from the controller: the child
            # uses nothing of execnet. The pools of torch and onnxruntime begin with the first operator, which no
            # owner runs.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            os.close(self._questions)
            os.close(self._answers)
            self._serve(owner, questions, answers)
        os.close(questions)
        os.close(answers)

    def _serve(self, owner: int, questions: int, answers: int) -> NoReturn:
        """The child: answers questions until there are no more. It never returns into pytest."""
        code = 1
        try:
            _die_with(owner)
            _let_go_of_files({questions, answers, *self._keeps})
            # The user's Ctrl-C is the owner's business, which ends this process when it ends.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            stderr = _own_streams(self._stderr)
            while True:
                question = _read(questions)
                if os.lseek(stderr, 0, os.SEEK_CUR):
                    # What an earlier cell wrote is not this one's last words.
                    os.ftruncate(stderr, 0)
                    os.lseek(stderr, 0, os.SEEK_SET)
                answer = self._answer(question)
                _send(answers, own_private_mib().to_bytes(_HEADER, "big") + answer)
        except EOFError:
            code = 0
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        except BaseException:  # noqa: BLE001  Whatever it is, it must not unwind into the owner's frames below.
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stderr.flush()
            os._exit(code)

    def _receive(self) -> bytes:
        poll = select.poll()
        poll.register(self._answers, select.POLLIN | select.POLLHUP)
        while not poll.poll(_LOOK * 1e3):
            self._look()
        answer = _read(self._answers)
        self._held = int.from_bytes(answer[:_HEADER], "big")
        self._held_at_least = min(self._held_at_least or self._held, self._held)
        return answer[_HEADER:]

    def _look(self) -> None:
        """End the process if it is over a limit, and notice if it ended while a child of its own lives on."""
        most = self._limits.memory_mib
        if most and resident_mib(self._pid) > most:
            os.kill(self._pid, signal.SIGKILL)
            self._how_it_ended()
            raise ProcessEndedError(f"took more than {most} MiB of memory and was killed")
        stage, entered = self._in_flight.stage()
        limit = self._limits.seconds(stage)
        # Between two cells the stage is that of the one before.
        if limit and time.monotonic() - max(entered, self._asked) > limit:
            # faulthandler writes where it was, even if it holds the interpreter's lock and never comes back.
            os.kill(self._pid, signal.SIGABRT)
            if not self._waited(_LAST_WORDS):
                os.kill(self._pid, signal.SIGKILL)
            self._how_it_ended()
            raise ProcessEndedError(f"did not end within {limit:g} s and was killed")
        if self._waited(0):
            raise EOFError

    def _waited(self, seconds: float) -> bool:
        """Whether the process ends within so many seconds."""
        deadline = time.monotonic() + seconds
        while self._status is None:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                self._status = status
            elif time.monotonic() >= deadline:
                return False
            else:
                time.sleep(0.002)
        return True

    def _close_questions(self) -> None:
        # Once, whatever comes in between: the number may be that of another file by then.
        questions, self._questions = self._questions, -1
        if questions >= 0:
            os.close(questions)

    def _how_it_ended(self) -> str:
        status = self._status if self._status is not None else os.waitpid(self._pid, 0)[1]
        self._pid, self._status, self._ahead = 0, None, None
        self._held = self._held_at_least = None
        os.close(self._answers)
        self._close_questions()
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL:
            return "was killed by SIGKILL (as the system does when memory runs out)"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


def _die_with(owner: int) -> None:
    """Whoever kills the owner, even with SIGKILL, has killed this process; and memory that is short is taken here."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != owner:
            os._exit(1)
        # Not permitted in some containers, and no more than a hint.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def _let_go_of_files(keep: set[int]) -> None:
    """Leave the owner its files: what reads a pipe of it, such as a browser in a test, waits until every copy is gone.

    They are not closed, but lead nowhere: Python's objects still hold their numbers.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/dev/fd")):
        if number > 2 and number not in keep:
            # The one that listed them is gone by now.
            with suppress(OSError):
                os.fstat(number)
                os.dup2(nowhere, number)


def _own_streams(path: Path) -> int:
    """Standard streams of the process's own: pytest's go to files that it shares, execnet's to the controller."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    stderr = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    for source, target in ((nowhere, 0), (nowhere, 1), (stderr, 2)):
        os.dup2(source, target)
    os.close(nowhere)
    os.close(stderr)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="replace")
    faulthandler.enable(2)
    return 2


def _send(pipe: int, data: bytes) -> None:
    view = memoryview(len(data).to_bytes(_HEADER, "big") + data)
    while view:
        view = view[os.write(pipe, view) :]


def _read(pipe: int) -> bytes:
    return _exactly(pipe, int.from_bytes(_exactly(pipe, _HEADER), "big"))


def _exactly(pipe: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        read = os.read(pipe, size - len(data))
        if not read:
            raise EOFError
        data += read
    return data

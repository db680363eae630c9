"""A runtime in a process of its own: one that crashes, hangs or eats memory there raises an error here."""

from __future__ import annotations

import os
import pickle
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import Device, Dtype
from onnx_parity.harness.judging.reference import overwrite_feeds
from onnx_parity.harness.one_line import error_line
from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.limits import STAGE_SECONDS, half_of_the_machine
from onnx_parity.harness.subjects.runtime_interface import Runtime, Session


class RuntimeEndedError(Exception):
    """The process of a runtime ended while it loaded or ran a model. The message says how."""


class RemoteError(Exception):
    """An error of a runtime that cannot be sent to another process, in one line."""


@dataclass(frozen=True)
class _Load:
    model: bytes | Path
    device: Device


@dataclass(frozen=True)
class _Run:
    feeds: dict[str, Fed]


@dataclass(frozen=True)
class _Ran:
    """The outputs of a run, and the inputs after it, which the runtime may have written into."""

    outputs: Sequence[object]
    feeds: dict[str, Fed]


class IsolatedRuntime:
    """The same runtime, whose models are loaded and run in a process that is started when the first one is loaded."""

    def __init__(self, runtime: Runtime, seconds: float = STAGE_SECONDS) -> None:
        """`seconds` is how long a model may take to be loaded, or to be run."""
        self._runtime = runtime
        self._seconds = seconds
        self._child: ChildProcess | None = None
        #: The process holds one model at a time: that of the session that was used last.
        self._current: _IsolatedSession | None = None

    @property
    def name(self) -> str:
        return self._runtime.name

    @property
    def opsets(self) -> tuple[int, ...]:
        return self._runtime.opsets

    @property
    def dtypes(self) -> frozenset[Dtype]:
        return self._runtime.dtypes

    @property
    def packages(self) -> tuple[str, ...]:
        return self._runtime.packages

    def missing(self, device: Device) -> str:
        return self._runtime.missing(device)

    def load(self, model: bytes | Path, device: Device) -> Session:
        session = _IsolatedSession(self, _Load(model, device))
        self._use(session)
        return session

    def run(self, session: _IsolatedSession, feeds: Mapping[str, Fed]) -> Sequence[object]:
        if session is not self._current:
            self._use(session)
        ran = self._ask(_Run(dict(feeds)))
        assert isinstance(ran, _Ran)
        overwrite_feeds(feeds, ran.feeds)
        return ran.outputs

    def _use(self, session: _IsolatedSession) -> None:
        self._current = None
        self._ask(session.loads)
        self._current = session

    def _ask(self, message: _Load | _Run) -> _Ran | None:
        try:
            if self._child is None:
                self._child = ChildProcess.forked(self._serve, Path(os.devnull))
                weakref.finalize(self, self._child.kill)
            self._child.send(pickle.dumps(message))
            answer = pickle.loads(self._answer_of(self._child))
        except ProcessEndedError as ended:
            self._child = self._current = None
            raise RuntimeEndedError(f"the process of {self.name} {ended}") from None
        if isinstance(answer, Exception):
            raise answer
        assert answer is None or isinstance(answer, _Ran)
        return answer

    def _answer_of(self, child: ChildProcess) -> bytes:
        asked = time.monotonic()

        def look() -> None:
            child.limit_memory(half_of_the_machine())
            child.limit_time(self._seconds, asked, f"did not end within {self._seconds:g} s and was killed")

        return child.receive(look)

    def _serve(self, channel: Channel) -> None:
        """In the process: load and run models until there are no more."""
        session: Session | None = None
        while True:
            message = pickle.loads(channel.receive())
            answer: _Ran | Exception | None = None
            try:
                if isinstance(message, _Load):
                    session = None
                    session = self._runtime.load(message.model, message.device)
                else:
                    assert session is not None, "a model is loaded before it is run"
                    answer = _Ran(list(session.run(message.feeds)), message.feeds)
            except Exception as error:  # noqa: BLE001  A runtime may raise anything; the caller gets it as an answer.
                answer = error
            channel.send(_pack(answer))


@dataclass(frozen=True, eq=False)
class _IsolatedSession:
    runtime: IsolatedRuntime
    loads: _Load

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        return self.runtime.run(self, feeds)


def _pack(answer: _Ran | Exception | None) -> bytes:
    """The answer as bytes. Errors and outputs of a library's own classes may not survive being sent."""
    try:
        packed = pickle.dumps(answer)
        pickle.loads(packed)
    except Exception as error:  # noqa: BLE001  Classes of other projects may raise anything here.
        told = error_line(answer if isinstance(answer, Exception) else error)
        return pickle.dumps(RemoteError(told))
    return packed

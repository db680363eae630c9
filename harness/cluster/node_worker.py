"""A worker on a node, a Ray actor: it starts a pytest, gives it cells, and hands out the records that it writes.

The pytest writes an ordinary run into a folder of its own on the node. The worker reads on in its file of records, so
that nothing is lost between the two, and can say again what it has said. It answers small messages only, which Ray
sends without its object store: a full one does not stop a run.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from onnx_parity.harness.cluster.messages import (
    Answered,
    Asked,
    Back,
    Facts,
    Failed,
    FromPytestOnNode,
    GiveBack,
    Piece,
    Ready,
    Run,
    WorkerStart,
    decoded,
    encoded,
)
from onnx_parity.harness.record import RunInfo
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.last_words import error_in

#: The module whose pytest runs the cells; it imports more than a worker should.
PYTEST = "onnx_parity.harness.pytest_plugin.on_node"

#: Ray sends answers of up to 100 KiB without its object store. Records are compressed to a tenth.
_LINES, _PIECE = 400 << 10, 60 << 10
_BUNDLE = b'"bundle":"'


class _Bundled(msgspec.Struct):
    bundle: str = ""


class NodeWorker:
    """One worker. Its methods are called one at a time, by the coordinator."""

    def __init__(self, start: bytes) -> None:
        given = decoded(start, WorkerStart)
        self._scratch = Path(tempfile.mkdtemp(prefix="parity-"))
        info = msgspec.json.decode(given.run, type=RunInfo)
        self._folder = self._scratch / info.id
        self._records = self._folder / f"records-{given.name}.jsonl"
        self._log = self._scratch / f"log-{given.name}.txt"
        root = Path(given.root) if given.root else Path.cwd()
        given = msgspec.structs.replace(given, root=str(root))
        environment = dict(os.environ)
        for name, value in given.environment.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        with self._log.open("wb") as log:
            self._child = ChildProcess.spawned(
                (sys.executable, "-m", PYTEST), log, folder=root / given.folder, environment=environment
            )
        self._ended, self._in_order = "", False
        self._send(encoded((given, str(self._scratch))))
        #: Exchanges that were answered, and the last answer.
        self._number = 0
        self._answer = b""
        #: Bytes of records that were read, and lines that have not been handed out yet.
        self._read = 0
        self._given = self._found = 0
        self._pieces: deque[tuple[str, int]] = deque()
        #: What the pytest gave back; None if it was not asked or has not answered.
        self._back: list[str] | None = None

    def facts(self) -> bytes:
        """What this node has, once its pytest has started. Raises an error if it does not start."""
        while not self._ended:
            message = self._message(1.0)
            if isinstance(message, Ready):
                return encoded(message.facts)
        raise RuntimeError(self._ended)

    def exchange(self, asked: bytes) -> bytes:
        """Take cells and return records."""
        request = decoded(asked, Asked)
        if request.number != self._number:
            # Otherwise the answer was lost on its way, and is given again.
            self._number = request.number
            self._answer = encoded(self._exchanged(request))
        return self._answer

    def close(self) -> bytes:
        """End the pytest, and return what it wrote to its standard error."""
        if not self._ended:
            self._child.end(within=10.0)
        with suppress(OSError):
            log = self._log.read_bytes()[-_PIECE:]
            shutil.rmtree(self._scratch, ignore_errors=True)
            return log
        return b""

    def _exchanged(self, request: Asked) -> Answered:
        until = time.monotonic() + request.within
        self._read = request.lines_got
        if request.piece_got and self._pieces:
            self._pieces.popleft()
        if request.run:
            self._given += len(request.run)
            self._send(encoded(Run(request.run)))
        if request.give_back:
            self._send(encoded(GiveBack(request.give_back)))
        while True:
            message = self._message(0.0)
            if isinstance(message, Back):
                self._given -= len(message.nodeids)
                self._back = message.nodeids
            lines = self._lines()
            enough = len(lines) >= _LINES // 2 or time.monotonic() >= until
            through = self._found + lines.count(b"\n") >= self._given
            if enough or through or self._back is not None or self._pieces or self._ended:
                break
        self._found += lines.count(b"\n")
        self._pieces.extend(self._of_bundles(lines))
        back, self._back = self._back, None
        piece = self._piece()
        # A pytest that has ended has written all of its records, perhaps more than one answer takes.
        ended = "" if lines or piece is not None else self._ended
        packed = zlib.compress(lines, 1) if lines else b""
        return Answered(packed, len(lines), piece, back, ended, self._in_order)

    def _send(self, message: bytes) -> None:
        if not self._ended:
            try:
                self._child.send(message)
            except ProcessEndedError as ending:
                self._ended = self._describe_end(ending)

    def _message(self, seconds: float) -> Ready | Back | None:
        """The next message of the pytest, if it comes within so many seconds."""
        if self._ended:
            return None
        try:
            data = self._child.receive_within(seconds)
        except ProcessEndedError as ending:
            self._ended = self._describe_end(ending)
            return None
        message = msgspec.msgpack.decode(data, type=FromPytestOnNode) if data is not None else None
        if isinstance(message, Failed):
            self._ended, self._in_order = self._with_words(message.text), True
            return None
        return message

    def _describe_end(self, ending: ProcessEndedError) -> str:
        return self._with_words(f"its pytest {ending}")

    def _with_words(self, ending: str) -> str:
        """How the pytest ended, with the error that it wrote."""
        words = error_in(self._log.read_text(errors="replace"))
        return f"{ending}: {words}" if words else ending

    def _lines(self) -> bytes:
        """Whole lines of records after those that were read."""
        try:
            with self._records.open("rb") as file:
                file.seek(self._read)
                data = file.read(_LINES)
                while data and b"\n" not in data and (more := file.read(_LINES)):
                    data += more
        except FileNotFoundError:
            return b""
        return data[: data.rfind(b"\n") + 1]

    def _of_bundles(self, lines: bytes) -> Iterator[tuple[str, int]]:
        """The pieces of the bundles that records name."""
        for line in lines.splitlines():
            if _BUNDLE in line and (folder := msgspec.json.decode(line, type=_Bundled).bundle):
                for path in sorted((self._folder / folder).rglob("*")):
                    if path.is_file():
                        name = path.relative_to(self._folder).as_posix()
                        yield from ((name, begin) for begin in range(0, max(path.stat().st_size, 1), _PIECE))

    def _piece(self) -> Piece | None:
        if not self._pieces:
            return None
        name, begin = self._pieces[0]
        with (self._folder / name).open("rb") as file:
            file.seek(begin)
            return Piece(name, begin, file.read(_PIECE))


def facts_of(answer: bytes) -> Facts:
    return decoded(answer, Facts)

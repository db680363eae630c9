"""The pytest of a worker on a node of a cluster: it runs the cells that the worker names, and collects only those.

    python -m onnx_parity.harness.pytest_plugin.on_node DESCRIPTOR

It has the command line of the driver's pytest. Collecting all cells would take longer than running a node's share of
them, so that a file is collected when one of its cells is run. A declaration by itself would take as long as a file:
pytest visits the whole file and the folders above it for each.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path
from select import POLLHUP, POLLIN, poll

import msgspec
import pytest

from onnx_parity.harness.cluster.facts import facts
from onnx_parity.harness.cluster.messages import Back, Failed, Ready, Run, ToPytest, WorkerStart, decoded, encoded
from onnx_parity.harness.pytest_plugin.items import CellItem
from onnx_parity.harness.pytest_plugin.matrix import ON_NODE, RUN_INFO, Matrix, NodeRun
from onnx_parity.harness.results.environment import missing_here
from onnx_parity.harness.running.channel import Channel, die_with

#: Cells are run one after the other here, whatever the command line says.
_OFF = ("-n", "0")


class Collected(dict[str, CellItem]):
    """Cells by their node ids; the cells of a file are collected when the first of them is asked for."""

    def __init__(self, session: pytest.Session) -> None:
        super().__init__()
        self._session = session

    def __missing__(self, nodeid: str) -> CellItem:
        place = self._session.config.rootpath / nodeid.partition("::")[0]
        for item in self._session.perform_collect([str(place)]):
            if isinstance(item, CellItem):
                self[item.nodeid] = item
        if nodeid not in self:
            raise pytest.UsageError(f"{nodeid} is no cell of {place}: the file differs from the driver's")
        return self[nodeid]


class OnNode:
    """Runs the cells that come through a channel, in place of pytest's loop over all items."""

    def __init__(self, channel: Channel, start: WorkerStart, scratch: Path) -> None:
        self._channel = channel
        self._start = start
        self._scratch = scratch
        self._queue: deque[str] = deque()
        self._ended = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        # Other plug-ins know a process that is not the user's by this attribute.
        config.workerinput = {  # type: ignore[attr-defined]
            "workerid": self._start.name,
            RUN_INFO: self._start.run,
            ON_NODE: NodeRun(self._scratch, self._start.home),
        }

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool:
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        matrix = session.config.stash[Matrix.KEY]
        matrix.items = Collected(session)
        import onnx_parity.harness.running.stages  # noqa: F401

        self._channel.send(encoded(Ready(facts(missing_here(matrix.selection), matrix.info.packages))))
        while (nodeid := self._next()) is not None:
            following = self._queue[0] if self._queue else None
            try:
                matrix.run(matrix.items[nodeid], None if following is None else matrix.items[following])
            except OSError as error:
                self._channel.send(encoded(Failed(f"a record cannot be written to {matrix.folder}: {error}")))
                break
        return True

    def _next(self) -> str | None:
        """The next cell to run; None if there are no more."""
        self._read(wait=not self._queue)
        return self._queue.popleft() if self._queue else None

    def _read(self, *, wait: bool) -> None:
        """Read what the worker has sent; wait for a cell if there is none."""
        poller = poll()
        poller.register(self._channel.reading, POLLIN | POLLHUP)
        while not self._ended and (poller.poll(0) or (wait and not self._queue)):
            try:
                message = msgspec.msgpack.decode(self._channel.receive(), type=ToPytest)
            except EOFError:
                self._ended = True
                self._queue.clear()
                return
            if isinstance(message, Run):
                self._queue += message.nodeids
            else:
                # The first of them has begun already, while the cell before it was reported.
                number = min(message.number, max(len(self._queue) - 1, 0))
                back = [self._queue.pop() for _ in range(number)]
                self._channel.send(encoded(Back(back[::-1])))


def main(descriptor: int) -> int:
    """Run a pytest. Its exit code says little: the worker knows the cells without a record."""
    die_with(os.getppid(), first=False)
    channel = Channel(os.dup(0), descriptor)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    given, scratch = decoded(channel.receive(), tuple[WorkerStart, str])
    sys.path.insert(0, given.root)
    argv = [*given.argv, *_OFF, f"--rootdir={given.root}"]
    code = pytest.main(argv, plugins=[OnNode(channel, given, Path(scratch))])
    if code == pytest.ExitCode.USAGE_ERROR:
        channel.send(encoded(Failed("pytest cannot be used there")))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))

"""Processes on the nodes of a Ray cluster that answer messages: `parity search --on`.

Each process is an actor of Ray's with a child process, and has a processor to itself. If its node is lost, who asked it
is told, and asks another one. Ray retries nothing.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from onnx_parity.harness.cluster.connection import ClusterError, Connection, connect, refuse_unusable, words_of
from onnx_parity.harness.cluster.facts import HOW_TO_USE_IT, differences, facts
from onnx_parity.harness.cluster.messages import Facts, decoded, encoded
from onnx_parity.harness.cluster.nodes import FAILED_STARTS, WAIT_FOR_NODES, actor_on, watch_nodes
from onnx_parity.harness.escaping import visible_line
from onnx_parity.harness.running.child_process import ProcessEndedError
from onnx_parity.harness.running.worker_process import Answering, PlaceLostError, Start, WorkerProcess, start_here

#: Seconds that a thread waits before it asks again whether it has to go on.
_TURN = 0.5


#: The options of the commands that use a cluster so.
ON = typer.Option(
    metavar="CLUSTER",
    help="Run the worker processes on a Ray cluster: host:port, or ray for RAY_ADDRESS or a cluster of this machine.",
    show_default="here",
)
MIXED = typer.Option("--mixed", help="Use nodes of the cluster that differ from this machine.")


class Seat:
    """The actor: one process on a node. Its methods are called one at a time."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._process: WorkerProcess | None = None

    def facts(self) -> bytes:
        return encoded(facts({}))

    def start(self, module: str, arguments: tuple[str, ...]) -> None:
        self._process = WorkerProcess(module, arguments, folder=self._folder)

    def send(self, message: bytes) -> str:
        """Send a message to the process; return how it has ended, if it has."""
        assert self._process is not None
        try:
            self._process.send(message)
        except ProcessEndedError as ending:
            return str(ending)
        return ""

    def answer(self, within: float) -> tuple[bytes, str]:
        """The next answer of the process, or how it ended."""
        assert self._process is not None
        try:
            return self._process.answer(within), ""
        except ProcessEndedError as ending:
            return b"", str(ending)


@dataclass(eq=False)
class _Node:
    id: str
    host: str
    processors: int
    taken: int = 0
    #: Whether it has what the driver has; it is not known before the first process is started there.
    known: bool = False
    #: Processes in a row that did not start.
    failed: int = 0
    refused: bool = False
    lost: bool = False
    checking: threading.Lock = field(default_factory=threading.Lock)


class Crew:
    """The processors of a cluster, on each of which one process can be started."""

    def __init__(self, connection: Connection, root: Path, *, mixed: bool) -> None:
        here = Path.cwd()
        beside = os.path.relpath(here, root) if here.is_relative_to(root) else "."
        # Elsewhere the files of the project are the working directory of an actor.
        self._folder = str(root / beside) if connection.is_own else beside
        self._connection = connection
        self._mixed = mixed
        self._facts = facts({})
        self._nodes: dict[str, _Node] = {}
        self._lock = threading.Lock()
        self._problem = ""
        self._none_since = time.monotonic()
        self._ended = self._watch()

    def _watch(self) -> threading.Event:
        def lose_head() -> None:
            self._problem = self._connection.lost

        return watch_nodes(self._connection, self._look, lose_head)

    @property
    def processors(self) -> int:
        """How many processes can be started now. Waits for the first node."""
        while not (number := sum(node.processors for node in self._usable())):
            self._refuse_no_nodes()
            time.sleep(_TURN)
        return number

    def start(self, module: str, arguments: tuple[str, ...], look: Callable[[], None]) -> Answering:
        """Start a process where a processor is free; wait until one is."""
        while True:
            self.check()
            look()
            node = self._take()
            if node is None:
                self._refuse_no_nodes()
                time.sleep(_TURN)
                continue
            try:
                if (process := self._start_on(node, module, arguments)) is not None:
                    return process
            except PlaceLostError as lost:
                self.failed(node, str(lost))

    def failed(self, node: _Node, reason: str) -> None:
        """A process did not start on a node."""
        node.failed += 1
        if node.failed >= FAILED_STARTS and not (node.lost or node.refused):
            node.refused = True
            _tell(f"{node.host} is not used: {node.failed} processes in a row did not start there: {reason}")

    def check(self) -> None:
        """Raise an error if the cluster cannot be used any more."""
        if self._problem:
            raise ClusterError(self._problem)

    def release(self, node: _Node) -> None:
        with self._lock:
            node.taken -= 1

    def end(self) -> None:
        import ray

        self._ended.set()
        if not self._problem:
            ray.shutdown()
            return

        def leave() -> None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(2)

        # Ray's own end, which would wait for the head, comes after this.
        atexit.register(leave)

    def _start_on(self, node: _Node, module: str, arguments: tuple[str, ...]) -> Answering | None:
        """A process on a node; None if the node cannot be used."""
        process = _Process(self, node, actor_on(node.id, Seat, self._folder))
        try:
            with node.checking:
                if not node.known:
                    self._know(node, decoded(process.ask(process.seat.facts.remote()), Facts))
            if not node.refused:
                process.ask(process.seat.start.remote(module, arguments))
                return process
        except BaseException:
            process.kill()
            raise
        process.kill()
        return None

    def _know(self, node: _Node, its: Facts) -> None:
        node.known, node.host = True, its.host
        if differs := differences(its, self._facts):
            words = "; ".join(differs)
            if self._mixed:
                _tell(f"{node.host} differs, and is used because of --mixed: {words}")
            else:
                node.refused = True
                _tell(f"{node.host} is not used: {words}. {HOW_TO_USE_IT}")

    def _usable(self) -> list[_Node]:
        with self._lock:
            return [node for node in self._nodes.values() if not (node.lost or node.refused)]

    def _take(self) -> _Node | None:
        """Take a processor of the node that has most of them free."""
        with self._lock:
            free = [
                node
                for node in self._nodes.values()
                if not (node.lost or node.refused) and node.taken < node.processors
            ]
            node = max(free, key=lambda each: each.processors - each.taken, default=None)
            if node is not None:
                node.taken += 1
            return node

    def _refuse_no_nodes(self) -> None:
        self.check()
        if self._usable():
            self._none_since = time.monotonic()
        elif any(node.refused for node in self._nodes.values()) and all(
            node.refused or node.lost for node in self._nodes.values()
        ):
            raise ClusterError("no node of the Ray cluster can be used: the reason for each is printed above")
        elif time.monotonic() - self._none_since > WAIT_FOR_NODES:
            raise ClusterError(f"the Ray cluster has had no node with a processor for {WAIT_FOR_NODES:g} s")

    def _look(self, listed: list[dict[str, Any]]) -> None:
        alive = {each["NodeID"]: each for each in listed if each["Alive"] and each["Resources"].get("CPU", 0) >= 1}
        with self._lock:
            for id, each in alive.items():
                if id not in self._nodes:
                    self._nodes[id] = _Node(id, each["NodeManagerAddress"], int(each["Resources"]["CPU"]))
            gone = [node for node in self._nodes.values() if node.id not in alive and not node.lost]
            for node in gone:
                node.lost = True
        for node in gone:
            _tell(f"{node.host} is lost; what ran there is run elsewhere")


class _Process:
    """A process on a node, from the side of the driver."""

    def __init__(self, crew: Crew, node: _Node, seat: Any) -> None:
        self._crew = crew
        self._node = node
        self.seat = seat
        #: Whether it has answered, which it does once it has started; and whether it has ended.
        self._answered = self._ended = False

    def send(self, message: bytes) -> None:
        self._end_if(self.ask(self.seat.send.remote(message)))

    def answer(self, within: float, look: Callable[[], None] = lambda: None) -> bytes:
        data, ending = self.ask(self.seat.answer.remote(within), look)
        self._end_if(ending)
        assert isinstance(data, bytes)
        self._answered, self._node.failed = True, 0
        return data

    def kill(self) -> None:
        import ray

        if not self._ended:
            self._ended = True
            self._crew.release(self._node)
            with suppress(ray.exceptions.RayError, RuntimeError):
                ray.kill(self.seat)

    def ask(self, reference: Any, look: Callable[[], None] = lambda: None) -> Any:
        """What the actor returns."""
        import ray

        while True:
            try:
                return ray.get(reference, timeout=_TURN)
            except ray.exceptions.GetTimeoutError:
                self._crew.check()
                look()
                if self._node.lost:
                    self.kill()
                    raise PlaceLostError(f"{self._node.host} is lost") from None
            except ray.exceptions.RayError as error:
                self._crew.check()
                self.kill()
                raise PlaceLostError(words_of(error)) from error

    def _end_if(self, ending: str) -> None:
        if ending:
            self.kill()
            if not self._answered:
                self._crew.failed(self._node, f"the process {ending}")
                raise PlaceLostError(f"the process {ending}")
            raise ProcessEndedError(ending)


def _tell(text: str) -> None:
    print(visible_line(text), file=sys.stderr, flush=True)


@contextmanager
def workforce(on: str | None, root: Path, *, workers: int | None, mixed: bool) -> Iterator[tuple[Start, int]]:
    """A context with what starts processes, and how many: on this machine, or on a cluster if `on` names one."""
    if on is None:
        yield start_here, workers or os.cpu_count() or 1
        return
    refuse_unusable(on)
    crew = Crew(connect(on, root, workers=workers or 0), root, mixed=mixed)
    try:
        yield crew.start, workers or crew.processors
    finally:
        crew.end()

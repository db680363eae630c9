"""The coordinator: Ray's driver. It gives cells to workers on all nodes, and passes their records on to pytest.

    python -m onnx_parity.harness.cluster.coordinator DESCRIPTOR

Ray retries nothing: a worker that ends is replaced, and its cells that have no record are given to others. A node that
differs from the driver is refused, and so is one whose workers do not start. If the head of the cluster is lost, the
run ends in order, and can be resumed.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import msgspec

from onnx_parity.harness.cluster.connection import OF_A_LOST_NODE, ClusterError, Connection, connect, words_of
from onnx_parity.harness.cluster.facts import HOW_TO_USE_IT, differences
from onnx_parity.harness.cluster.messages import (
    Answered,
    Asked,
    Ended,
    FromPytest,
    GivenUp,
    Lines,
    NodeReport,
    Nodes,
    Piece,
    Start,
    Told,
    Work,
    WorkerStart,
    decoded,
    encoded,
)
from onnx_parity.harness.cluster.node_worker import NodeWorker, facts_of
from onnx_parity.harness.cluster.nodes import FAILED_STARTS, WAIT_FOR_NODES, actor_on, watch_nodes
from onnx_parity.harness.cluster.schedule import Schedule
from onnx_parity.harness.cluster.workforce import Node, Worker
from onnx_parity.harness.running.channel import Channel, die_with

#: Seconds after which a worker tells what it has done, if there are few; a driver can read so many answers in a second.
_TELLS, _ANSWERS_A_SECOND = 0.5, 500
#: Seconds after which it is asked whether any node is left, if nothing else happens.
_LOOK = 1.0
#: The share of a node's memory that cells may take together.
_MEMORY_SHARE = 0.8
#: A worker is given its next cells when it has less than so many seconds left.
_AHEAD = 1.0


class _LineKey(msgspec.Struct):
    nodeid: str
    elapsed: float = 0.0


key_of = msgspec.json.Decoder(_LineKey).decode
_messages: msgspec.msgpack.Decoder[FromPytest] = msgspec.msgpack.Decoder(FromPytest)


class Coordinator:
    """The run on the cluster, from the side of Ray's driver. Everything happens in one thread, event by event."""

    def __init__(self, start: Start, connection: Connection, send: Callable[[object], None]) -> None:
        self._start = start
        self._connection = connection
        self._send = send
        self.events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._schedule: Schedule | None = None
        self._nodes: dict[str, Node] = {}
        self._workers: dict[str, Worker] = {}
        self._none_since = time.monotonic()
        self._shown = (0, 0)
        self._stopped = False

    def run(self) -> str:
        """Run until every cell has a record. Return why that is not possible; empty if it was."""
        watch_nodes(
            self._connection,
            lambda nodes: self.events.put(lambda: self._look(nodes)),
            lambda: self.events.put(self._head_lost),
        )
        while not self._stopped and (self._schedule is None or self._schedule.left or self._fetches):
            with suppress(Empty):
                self.events.get(timeout=_LOOK)()
                while True:
                    self.events.get_nowait()()
            if self._schedule is not None:
                self._give()
            if problem := self._problem():
                return problem
        return ""

    def reports(self) -> list[NodeReport]:
        return [node.report() for node in self._nodes.values()]

    def end(self) -> None:
        """Bring the logs home and end the workers."""
        import ray

        logs = {worker.name: worker.actor.close.remote() for worker in self._workers.values() if worker.ready}
        if not logs:
            return
        with suppress(ray.exceptions.RayError):
            ray.wait(list(logs.values()), num_returns=len(logs), timeout=15.0)
        for name, log in logs.items():
            with suppress(ray.exceptions.RayError):
                if data := ray.get(log, timeout=0):
                    self._send(Piece(f"logs/{name}.txt", 0, data))

    # What pytest says.

    def receive(self, message: Work | None) -> None:
        if message is None:
            self._stopped = True
        else:
            self._schedule = Schedule(message.cells)

    @property
    def _fetches(self) -> bool:
        """Whether files of a bundle are on their way."""
        return any(worker.piece_got for worker in self._workers.values())

    # Nodes.

    def _head_lost(self) -> None:
        raise ClusterError(self._connection.lost)

    def _look(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """See which nodes have come and gone."""
        alive = {each["NodeID"] for each in nodes if each["Alive"]}
        for each in nodes:
            resources = each["Resources"]
            if each["Alive"] and each["NodeID"] not in self._nodes and resources.get("CPU", 0) >= 1:
                number = len(self._nodes) + 1
                self._nodes[each["NodeID"]] = Node(
                    f"node{number}", each["NodeID"], each["NodeManagerAddress"], int(resources["CPU"]),
                    resources.get("GPU", 0.0), int(resources.get("memory", 0)) >> 20,
                )  # fmt: skip
        for node in self._nodes.values():
            if node.id not in alive and not node.lost:
                node.lost = True
                for worker in list(node.workers.values()):
                    self._lose(worker, "")
                self._send(Told(f"{node.name} ({node.host}) is lost; its cells are run elsewhere"))
        self._start_workers()
        self._show()

    def _start_workers(self) -> None:
        """Start a worker for each processor, on the emptiest nodes first if there may not be so many."""
        while not self._start.workers or len(self._workers) < self._start.workers:
            free = [
                node
                for node in self._nodes.values()
                if not (node.lost or node.refused) and len(node.workers) < node.cpus
            ]
            if not free:
                return
            self._start_worker(min(free, key=lambda node: len(node.workers) / node.cpus))

    def _start_worker(self, node: Node) -> None:
        node.started += 1
        name = f"{node.name}-{node.started}"
        given = self._start
        start = WorkerStart(
            name, given.root if self._connection.is_own else "", given.folder, given.argv, given.run, given.home,
            given.environment,
        )  # fmt: skip
        # All workers of a node share its GPUs, and take turns as they do without a cluster.
        gpus = math.floor(min(node.gpus / node.cpus, 1.0) * 1e4) / 1e4
        actor = actor_on(node.id, NodeWorker, encoded(start), gpus=gpus)
        worker = Worker(name, node, actor)
        node.workers[name] = self._workers[name] = worker
        self._when_done(worker, actor.facts.remote(), self._ready)

    def _ready(self, worker: Worker, answer: bytes) -> None:
        facts = facts_of(answer)
        node = worker.node
        node.platform, node.packages, node.host = facts.platform, facts.packages, facts.host
        differs = differences(facts, self._start.facts)
        if differs and not node.differs:
            node.differs = differs
            words = "; ".join(differs)
            if self._start.mixed:
                self._send(Told(f"{node.name} ({node.host}) differs, and is used because of --mixed: {words}"))
            else:
                self._refuse(node, f"{words}. {HOW_TO_USE_IT}")
                return
        worker.ready = True
        self._show()

    def _refuse(self, node: Node, reason: str) -> None:
        if not node.refused:
            node.refused = reason
            self._send(Told(f"{node.name} ({node.host}) is not used: {reason}"))
        for worker in list(node.workers.values()):
            self._lose(worker, "", kill=True, by_cells=False)

    def _problem(self) -> str:
        """Why no cell can be run any more; empty if some can."""
        if any(not (node.lost or node.refused) for node in self._nodes.values()):
            self._none_since = time.monotonic()
            return ""
        refused = [node for node in self._nodes.values() if node.refused and not node.lost]
        if refused:
            return f"no node of the cluster can be used: {refused[0].name} ({refused[0].host}): {refused[0].refused}"
        if time.monotonic() - self._none_since > WAIT_FOR_NODES:
            return f"the cluster has had no node with a processor for {WAIT_FOR_NODES:.0f} s"
        return ""

    def _show(self) -> None:
        ready = [worker for worker in self._workers.values() if worker.ready]
        now = (len({worker.node.id for worker in ready}), len(ready))
        if now != self._shown:
            self._shown = now
            self._send(Nodes(*now))

    # Cells.

    def _give(self) -> None:
        """Give cells to the workers that have hardly any left."""
        assert self._schedule is not None
        ready = [worker for worker in self._workers.values() if worker.ready]
        has_gpu = any(worker.node.gpus for worker in ready)
        idle = 0
        for worker in ready:
            if worker.give or (worker.has and self._schedule.left_of(worker.name) > _AHEAD):
                continue
            cells = self._schedule.take(
                worker.name,
                workers=len(ready),
                cuda=bool(worker.node.gpus) or not has_gpu,
                memory=self._memory_left(worker),
            )
            worker.give = [cell.nodeid for cell in cells]
            worker.has += len(cells)
            idle += not worker.has
        for name, number in self._schedule.to_split(idle=idle):
            self._workers[name].give_back = number
        for worker in ready:
            if not worker.asked and (worker.has or worker.give_back):
                self._ask(worker)

    def _memory_left(self, worker: Worker) -> int | None:
        """How many MiB a cell may take there, by what the others that run there may take; None if nothing else runs."""
        assert self._schedule is not None
        others = [self._schedule.memory_of(each.name) for each in worker.node.workers.values() if each is not worker]
        if not any(others) or not worker.node.memory:
            return None
        return int(worker.node.memory * _MEMORY_SHARE) - sum(others)

    def _ask(self, worker: Worker) -> None:
        worker.asked = True
        worker.number += 1
        within = max(_TELLS, len(self._workers) / _ANSWERS_A_SECOND)
        asked = Asked(worker.number, worker.give, worker.give_back, worker.lines_got, worker.piece_got, within)
        worker.give, worker.give_back = [], 0
        self._exchange(worker, encoded(asked))

    def _exchange(self, worker: Worker, asked: bytes) -> None:
        from ray.exceptions import ActorUnavailableError

        def failed(error: BaseException) -> bool:
            if isinstance(error, ActorUnavailableError):
                # The worker may be there again. It knows the number of the exchange, and does nothing twice.
                threading.Timer(1.0, lambda: self.events.put(lambda: self._exchange(worker, asked))).start()
                return True
            return False

        if worker.name in self._workers:
            # A worker that is lost meanwhile is not asked again.
            self._when_done(worker, worker.actor.exchange.remote(asked), self._answered, failed)

    def _answered(self, worker: Worker, answer: bytes) -> None:
        assert self._schedule is not None
        worker.asked = False
        answered = decoded(answer, Answered)
        if answered.size:
            worker.lines_got += answered.size
            self._records(worker, zlib.decompress(answered.lines))
        worker.piece_got = answered.piece is not None
        if answered.piece is not None:
            self._send(answered.piece)
        if answered.back is not None:
            worker.has -= len(answered.back)
            self._schedule.take_back(worker.name, answered.back)
        if answered.ended:
            self._lose(worker, answered.ended, kill=True, by_cells=not answered.in_order)
        elif worker.piece_got:
            self._ask(worker)

    def _records(self, worker: Worker, lines: bytes) -> None:
        """Pass on the records of cells that have none yet."""
        assert self._schedule is not None
        counting = []
        for line in lines.splitlines(keepends=True):
            key = key_of(line)
            worker.has -= 1
            if self._schedule.record(worker.name, key.nodeid):
                counting.append(line)
                worker.node.cells += 1
                worker.node.seconds += key.elapsed
                worker.node.failed = 0
        self._send(Lines(b"".join(counting)))

    def _lose(self, worker: Worker, reason: str, *, kill: bool = False, by_cells: bool = True) -> None:
        """A worker is lost: its cells are given to others, and the node gets another one. `by_cells` says whether one
        of its cells may be to blame.
        """
        import ray

        if self._workers.pop(worker.name, None) is None:
            return
        node = worker.node
        del node.workers[worker.name]
        if kill:
            with suppress(ray.exceptions.RayError, RuntimeError):
                ray.kill(worker.actor)
        if reason:
            self._send(Told(f"the worker {worker.name} on {node.host} is lost: {reason}"))
            node.failed += 1
            if node.failed >= FAILED_STARTS:
                self._refuse(node, f"{node.failed} workers in a row have ended there; the last: {reason}")
        if self._schedule is not None:
            for nodeid in self._schedule.lost(worker.name, by_cells=by_cells and worker.ready):
                self._send(GivenUp(nodeid, f"each worker that ran it was lost, the last on {node.host}"))
        self._show()

    def _when_done(
        self,
        worker: Worker,
        reference: Any,
        done: Callable[[Worker, bytes], None],
        failed: Callable[[BaseException], bool] = lambda error: False,
    ) -> None:
        """Call a function with the worker's answer, in the thread of events. If there is none, the worker is lost."""

        def handle(future: Future[bytes]) -> None:
            if worker.name not in self._workers:
                return
            error = future.exception()
            if error is None:
                done(worker, future.result())
            elif not failed(error):
                words = words_of(error)
                # The message that a node is lost is printed once, when Ray no longer lists the node.
                self._lose(worker, "" if OF_A_LOST_NODE in words else words, kill=True)

        reference.future().add_done_callback(lambda future: self.events.put(lambda: handle(future)))


def _receive(channel: Channel) -> FromPytest:
    return _messages.decode(channel.receive())


def main(descriptor: int) -> None:
    die_with(os.getppid(), first=False)
    channel = Channel(os.dup(0), descriptor)
    with open(os.devnull, "rb") as nothing:
        # What Ray starts must not read from the channel.
        os.dup2(nothing.fileno(), 0)

    def send(message: object) -> None:
        channel.send(encoded(message))

    def listen(coordinator: Coordinator) -> None:
        with suppress(EOFError):
            while isinstance(message := _receive(channel), Work):
                coordinator.events.put(lambda message=message: coordinator.receive(message))  # type: ignore[misc]
        coordinator.events.put(lambda: coordinator.receive(None))

    start = _receive(channel)
    assert isinstance(start, Start)
    try:
        connection = connect(start.address, Path(start.root), workers=start.workers)
    except ClusterError as error:
        send(Ended([], str(error)))
        return
    coordinator = Coordinator(start, connection, send)
    threading.Thread(target=listen, args=(coordinator,), daemon=True).start()
    try:
        problem = coordinator.run()
        coordinator.end()
    except ClusterError as lost:
        # Ray's own end would wait for the head.
        send(Ended(coordinator.reports(), str(lost)))
        os._exit(0)
    import ray

    send(Ended(coordinator.reports(), problem))
    ray.shutdown()


if __name__ == "__main__":
    import signal

    # Ctrl-C is for pytest, which ends this process in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(int(sys.argv[1]))

"""Searches whose processes are on machines that are lost: the task is given to another machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from onnx_parity.harness.cluster.connection import ClusterError, Connection
from onnx_parity.harness.cluster.crew import Crew, _Node
from onnx_parity.harness.running.worker_process import LOST_FOR_GOOD, PlaceLostError
from onnx_parity.harness.search.messages import Crashed, Order, Report
from onnx_parity.harness.search.searching import DRAWING, _Worker

READY = b"ready"


class Process:
    """A process on another machine, which says its lines and then comes to an end."""

    def __init__(self, said: list[bytes], end: Exception) -> None:
        self._said = [READY, *said]
        self._end = end

    def send(self, message: bytes) -> None:
        pass

    def answer(self, within: float, look: Callable[[], None] = lambda: None) -> bytes:
        if not self._said:
            raise self._end
        return self._said.pop(0)

    def kill(self) -> None:
        pass


class Machines:
    """Starts one process after the other."""

    def __init__(self, *processes: Process) -> None:
        self._processes = list(processes)

    def start(self, module: str, arguments: tuple[str, ...], look: Callable[[], None]) -> Process:
        return self._processes.pop(0)


LOST = PlaceLostError("node2 is lost")


class Unwatched(Crew):
    """The nodes of a cluster that nobody looks at."""

    def _watch(self) -> threading.Event:
        return threading.Event()


def crew_of(node: _Node, *, mixed: bool = False) -> Crew:
    crew = Unwatched(Connection(("10.0.0.5", 6379), is_own=False), Path.cwd(), mixed=mixed)
    crew._nodes[node.id] = node
    return crew


def test_a_node_on_which_nothing_starts_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    node = _Node("1", "node2", 1)
    crew = crew_of(node)
    for _ in range(2):
        crew.failed(node, "the process exited with 1: the disk is full")
    assert crew.processors == 1
    crew.failed(node, "the process exited with 1: the disk is full")
    assert capsys.readouterr().err == (
        "node2 is not used: 3 processes in a row did not start there: the process exited with 1: the disk is full\n"
    )
    with pytest.raises(ClusterError, match=r"^no node of the Ray cluster can be used: the reason for each is"):
        crew.processors  # noqa: B018


@pytest.mark.parametrize(
    ("mixed", "told"),
    [
        (False, "is not used: torch 2.12.0 (here 2.13.0). Install the same there, or pass --mixed to use it"),
        (True, "differs, and is used because of --mixed: torch 2.12.0 (here 2.13.0)\n"),
    ],
)
def test_a_node_that_differs_is_told(mixed: bool, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    node = _Node("1", "10.0.0.7", 1)
    crew = crew_of(node, mixed=mixed)
    its = msgspec.structs.replace(crew._facts, host="node2", packages={**crew._facts.packages, "torch": "2.12.0"})
    crew._facts.packages["torch"] = "2.13.0"
    crew._know(node, its)
    assert capsys.readouterr().err.startswith(f"node2 {told}")
    assert node.refused is not mixed


def test_a_program_is_looked_at_on_another_machine() -> None:
    order = Order(0, (), (), (), (18,), {})
    report = msgspec.json.encode(Report(7, 3, "", True, True, {}, 0.1))
    machines = Machines(Process([], LOST), Process([report], LOST))
    assert _Worker(order, machines.start, threading.Event()).look_at(7).number == 7
    lost = Machines(*(Process([], LOST) for _ in range(LOST_FOR_GOOD)))
    assert _Worker(order, lost.start, threading.Event())._ask(7) == Crashed(
        7, DRAWING, "4 machines were lost while they ran it; the last: node2 is lost"
    )

"""What the processes of a run on a cluster tell each other.

    pytest  <->  coordinator  <->  worker on a node  <->  pytest on that node

pytest collects the cells, writes their records and reports them. The coordinator is Ray's driver: it gives cells to
workers and passes on what they return. It is a process apart, because Ray ends the process of a driver whose cluster is
lost. A worker is a Ray actor, and starts the pytest that runs cells, each of them in yet another process.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

_T = TypeVar("_T")


class CellWork(msgspec.Struct, frozen=True, array_like=True):
    """A cell as the coordinator knows it: what it is expected to take."""

    nodeid: str
    #: Cells of the same group share a capture, and come one after the other.
    group: str
    seconds: float
    #: The memory of its process in MiB; 0 if unknown.
    memory: int = 0
    cuda: bool = False


class Facts(msgspec.Struct, frozen=True):
    """What is installed on a node: it has to be what the driver has."""

    host: str
    platform: str
    packages: dict[str, str]
    #: Source file of the exporter and the harness to a hash of it.
    contents: dict[str, str]
    #: Missing devices, exporters and runtimes to the reason.
    missing: dict[str, str]


# From pytest to the coordinator.


class Start(msgspec.Struct, frozen=True, tag=True):
    """The first message: where to run, and what a pytest on a node needs."""

    #: An address of Ray's, or `ray`.
    address: str
    #: The largest number of workers; 0 for one on each processor.
    workers: int
    #: Whether nodes that differ from the driver are used.
    mixed: bool
    #: The folder of the project, and the working directory relative to it.
    root: str
    folder: str
    #: pytest's command line.
    argv: tuple[str, ...]
    #: The `RunInfo` as JSON, and the folder of the run as it is named to readers.
    run: str
    home: str
    #: Variables of the driver that decide in how many threads libraries compute; None for those that are not set.
    environment: dict[str, str | None]
    #: What the driver has.
    facts: Facts


class Work(msgspec.Struct, frozen=True, tag=True):
    """The cells to run. It may arrive while workers start."""

    cells: list[CellWork]


class Stop(msgspec.Struct, frozen=True, tag=True):
    """No more cells are wanted."""


# From the coordinator to pytest.


class Told(msgspec.Struct, frozen=True, tag=True):
    """A line for the user."""

    text: str


class Nodes(msgspec.Struct, frozen=True, tag=True):
    """How many nodes and workers there are now."""

    nodes: int
    workers: int


class Lines(msgspec.Struct, frozen=True, tag=True):
    """Records, as lines with their checksums."""

    data: bytes


class Piece(msgspec.Struct, frozen=True, tag=True):
    """A part of a file of the run: of a bundle, or of a log."""

    path: str
    start: int
    data: bytes


class GivenUp(msgspec.Struct, frozen=True, tag=True):
    """A cell that has taken worker after worker with it."""

    nodeid: str
    reason: str


class NodeReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node at the end of the run; a line of `nodes.jsonl`."""

    #: Its name in the run: `node2`. The worker of a record is named `node2-1`.
    name: str
    host: str
    id: str
    cpus: int
    gpus: float
    platform: str = ""
    packages: dict[str, str] = {}
    #: How it differs from the driver; it was used nevertheless with `--mixed`.
    differs: tuple[str, ...] = ()
    #: Why it was not used, or no longer.
    refused: str = ""
    lost: bool = False
    workers: int = 0
    cells: int = 0
    #: Seconds that its cells took.
    seconds: float = 0.0
    #: Seconds from its first worker's start to the end.
    there: float = 0.0


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The last message. `error` says why cells are left; it is empty if there are none."""

    nodes: list[NodeReport]
    error: str = ""


FromPytest = Start | Work | Stop
FromCoordinator = Told | Nodes | Lines | Piece | GivenUp | Ended


# Between a worker and the coordinator.


class WorkerStart(msgspec.Struct, frozen=True):
    """What a worker needs to start pytest."""

    name: str
    #: The folder of the project on this machine; empty if it has been sent to the node, where it is the working
    #: directory of the worker.
    root: str
    folder: str
    argv: tuple[str, ...]
    run: str
    home: str
    environment: dict[str, str | None]


class Asked(msgspec.Struct, frozen=True):
    """What the coordinator wants of a worker. It can be asked twice with the same effect."""

    #: The number of the exchange, from 1.
    number: int
    #: Node ids to run after those that it has.
    run: list[str]
    #: How many of those that it has not begun it has to give back.
    give_back: int
    #: How many bytes of records have arrived, and whether the last piece of a file has.
    lines_got: int
    piece_got: bool
    #: The seconds after which it answers, if there is nothing to tell earlier.
    within: float


class Answered(msgspec.Struct, frozen=True):
    """What a worker has to tell since the last exchange."""

    #: Whole lines of records, compressed, and their number of bytes.
    lines: bytes = b""
    size: int = 0
    piece: Piece | None = None
    #: Node ids that it gives back, if it was asked to.
    back: list[str] | None = None
    #: How its pytest ended; empty while it runs. Whether it ended by itself, so that no cell is to blame.
    ended: str = ""
    in_order: bool = False


# Between a worker and its pytest.


class Run(msgspec.Struct, frozen=True, tag=True):
    nodeids: list[str]


class GiveBack(msgspec.Struct, frozen=True, tag=True):
    number: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    facts: Facts


class Back(msgspec.Struct, frozen=True, tag=True):
    nodeids: list[str]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The pytest cannot go on: it was used wrongly there, or a record cannot be written."""

    text: str


ToPytest = Run | GiveBack
FromPytestOnNode = Ready | Back | Failed


def encoded(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


def decoded(data: bytes, kind: type[_T]) -> _T:
    return msgspec.msgpack.decode(data, type=kind)

"""The nodes of a cluster and the workers on them, as the coordinator knows them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from onnx_parity.harness.cluster.messages import NodeReport


@dataclass(eq=False)
class Node:
    name: str
    id: str
    host: str
    cpus: int
    gpus: float
    memory: int
    workers: dict[str, Worker] = field(default_factory=dict)
    #: Workers that were started, and those in a row that ended without a record.
    started: int = 0
    failed: int = 0
    differs: tuple[str, ...] = ()
    refused: str = ""
    lost: bool = False
    platform: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    cells: int = 0
    seconds: float = 0.0
    since: float = field(default_factory=time.monotonic)

    def report(self) -> NodeReport:
        return NodeReport(
            self.name, self.host, self.id, self.cpus, self.gpus, self.platform, self.packages, self.differs,
            self.refused, self.lost, self.started, self.cells, self.seconds, time.monotonic() - self.since,
        )  # fmt: skip


@dataclass(eq=False)
class Worker:
    name: str
    node: Node
    actor: Any
    ready: bool = False
    #: Whether an exchange is under way; how many there were; what has arrived.
    asked: bool = False
    number: int = 0
    lines_got: int = 0
    piece_got: bool = False
    #: Cells that it has, and what the next exchange asks of it.
    has: int = 0
    give: list[str] = field(default_factory=list)
    give_back: int = 0

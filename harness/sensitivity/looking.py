"""Looks at many cases, in copies of this process: what is altered in a program may end the process that runs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import torch

from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.running.channel import Channel
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.sensitivity.telling import Looked, NotLookedAtError, look_at

__all__ = ["NotLookedAt", "look_at_all"]

#: Seconds that a case may take with all of its alterations.
_SECONDS = 300.0


class NotLookedAt(msgspec.Struct, frozen=True, tag=True):
    """A case in a dtype that cannot be asked what it tells."""

    case: str
    dtype: str
    reason: str


def look_at_all(
    cells: Sequence[tuple[Cell, bool]], seed: int, processes: int, advance: Callable[[], None]
) -> list[Looked | NotLookedAt]:
    """Look at the cases of some cells, each with whether it has dynamic axes too."""
    here = threading.local()
    started: list[ChildProcess] = []

    def serve(channel: Channel) -> None:
        torch.set_num_threads(1)
        while True:
            number = msgspec.msgpack.decode(channel.receive(), type=int)
            channel.send(msgspec.msgpack.encode(_looked_at(*cells[number], seed)))

    def look(number: int) -> Looked | NotLookedAt:
        try:
            if getattr(here, "child", None) is None:
                here.child = ChildProcess.forked(serve, Path(folder) / f"stderr of {threading.get_ident()}")
                started.append(here.child)
            here.child.send(msgspec.msgpack.encode(number))
            return msgspec.msgpack.decode(here.child.answer(_SECONDS), type=Looked | NotLookedAt)
        except ProcessEndedError as ending:
            here.child = None
            cell, _ = cells[number]
            return NotLookedAt(cell.case.label, cell.dtype, f"its process {ending}")
        finally:
            advance()

    with TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        try:
            return [*pool.map(look, range(len(cells)))]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in started:
                child.kill()


def _looked_at(cell: Cell, dynamic: bool, seed: int) -> Looked | NotLookedAt:
    try:
        return look_at(cell.case, cell.dtype, seed, dynamic=dynamic)
    except NotLookedAtError as error:
        return NotLookedAt(cell.case.label, cell.dtype, str(error))

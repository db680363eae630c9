"""Runs the cells of a pytest on a cluster, with `--parity-on`: in place of pytest's loop over all items.

This pytest collects the cells, writes the records that arrive into the folder of the run, and reports them. Whatever is
not a cell, such as a check of the expectations, runs here. The coordinator, a process of its own, is started before the
collection, so that the workers on the nodes start meanwhile.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
import pytest

from onnx_parity.harness.axes import Device
from onnx_parity.harness.cluster.estimates import Estimates, estimates_from
from onnx_parity.harness.cluster.facts import facts
from onnx_parity.harness.cluster.messages import (
    CellWork,
    Ended,
    FromCoordinator,
    GivenUp,
    Lines,
    NodeReport,
    Nodes,
    Piece,
    Start,
    Stop,
    Told,
    Work,
    encoded,
)
from onnx_parity.harness.escaping import visible_line
from onnx_parity.harness.pytest_plugin.cell_report import report_of
from onnx_parity.harness.pytest_plugin.items import CellItem
from onnx_parity.harness.pytest_plugin.matrix import Matrix
from onnx_parity.harness.pytest_plugin.pace import Pace
from onnx_parity.harness.record import Record
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.running.child_process import ChildProcess, ProcessEndedError
from onnx_parity.harness.running.last_words import error_in

_COORDINATOR = "onnx_parity.harness.cluster.coordinator"
#: Variables that decide in how many threads libraries compute. Ray sets the first one.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: The file of a run that describes the nodes, one line for each.
NODES_FILE = "nodes.jsonl"

_record = msgspec.json.Decoder(Record)
_messages: msgspec.msgpack.Decoder[FromCoordinator] = msgspec.msgpack.Decoder(FromCoordinator)


class OnCluster:
    """The run on the cluster, from the side of pytest."""

    def __init__(
        self, matrix: Matrix, pace: Pace, address: str, *, workers: int, mixed: bool, durations: Path | None
    ) -> None:
        self._matrix = matrix
        self._pace = pace
        self._address = address
        self._workers = workers
        self._mixed = mixed
        self._durations = durations
        self._coordinator: ChildProcess | None = None
        self._stderr: IO[bytes] | None = None
        self._items: dict[str, CellItem] = {}
        #: The nodes that took part, for the summary.
        self._nodes: list[NodeReport] = []
        self._error = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        if not session.config.option.collectonly:
            self._start(session.config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        if session.config.option.collectonly:
            return True
        for number, item in enumerate(others := [item for item in session.items if not isinstance(item, CellItem)]):
            following = others[number + 1] if number + 1 < len(others) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            _end_if_asked(session)
        self._items = {item.nodeid: item for item in session.items if isinstance(item, CellItem)}
        if self._items:
            self._run(session)
        return True

    def pytest_unconfigure(self) -> None:
        if self._coordinator is not None:
            self._coordinator.end(within=20.0)
        if self._stderr is not None:
            self._stderr.close()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in _figures(self._nodes):
            terminalreporter.write_line(visible_line(line))
        if self._error:
            terminalreporter.write_line(visible_line(f"stopped: {self._error}"), red=True)

    def _start(self, config: pytest.Config) -> None:
        info = self._matrix.info
        root = config.rootpath
        home = self._matrix.folder
        here = config.invocation_params.dir
        start = Start(
            address=self._address,
            workers=self._workers,
            mixed=self._mixed,
            root=str(root),
            folder=os.path.relpath(here, root) if here.is_relative_to(root) else ".",
            argv=tuple(map(str, config.invocation_params.args)),
            run=msgspec.json.encode(info).decode(),
            home=str(home.relative_to(here) if home.is_relative_to(here) else home),
            environment={name: os.environ.get(name) for name in _THREADS},
            facts=facts({}, info.packages),
        )
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  It is open as long as the coordinator runs.
        self._coordinator = ChildProcess.spawned((sys.executable, "-m", _COORDINATOR), self._stderr)
        self._say(start)

    def _run(self, session: pytest.Session) -> None:
        self._say(Work(self._work()))
        try:
            while not isinstance(message := self._heard(), Ended):
                self._take(session, message)
                _end_if_asked(session)
        except OSError as error:
            self._matrix.end_unwritten(error)
        finally:
            with suppress(ProcessEndedError):
                self._say(Stop())
        self._nodes, self._error = message.nodes, message.error
        self._write_nodes()
        if self._error:
            raise session.Interrupted(self._error)

    def _work(self) -> list[CellWork]:
        """The cells, in the order in which they were collected, with what they took in an earlier run."""
        known = self._estimates()
        work = []
        for nodeid, item in self._items.items():
            cell = item.cell
            seconds, memory = known.of(cell.id, cell.case.name, cell.case.declaration.kind)
            group = f"{item.group}-{cell.device}"
            work.append(CellWork(nodeid, group, seconds, memory, cell.device is Device.CUDA))
        return work

    def _estimates(self) -> Estimates:
        """What the cells of the named run took, or of the last run in this folder."""
        if self._durations is not None:
            return estimates_from(self._durations)
        with suppress(RunStoreError, OSError):
            return estimates_from(self._matrix.root / "last")
        return Estimates()

    def _take(self, session: pytest.Session, message: FromCoordinator) -> None:
        match message:
            case Lines(data):
                self._matrix.log.bring(data)
                for line in data.splitlines():
                    self._report(session, _record.decode(line))
            case GivenUp(nodeid, reason):
                self._report(session, self._matrix.give_up(self._items[nodeid], reason))
            case Piece():
                self._write(message)
            case Nodes(nodes, workers):
                self._pace.where = f"{nodes} nodes" if nodes != 1 else f"1 node with {workers} workers"
            case Told(text):
                terminal = session.config.pluginmanager.get_plugin("terminalreporter")
                if terminal is not None:
                    terminal.ensure_newline()
                    terminal.write_line(visible_line(text))

    def _report(self, session: pytest.Session, record: Record) -> None:
        item = self._items[record.nodeid]
        ended = record.began + record.elapsed
        report = report_of(item, record, record.began, ended, strict_unsupported=self._matrix.strict_unsupported)
        session.config.hook.pytest_runtest_logreport(report=report)

    def _write(self, piece: Piece) -> None:
        path = self._matrix.folder / piece.path
        if not path.resolve().is_relative_to(self._matrix.folder.resolve()):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("r+b" if path.exists() else "wb") as file:
            file.seek(piece.start)
            file.write(piece.data)

    def _write_nodes(self) -> None:
        """Add a line for each node: a run that is resumed has those of every time."""
        if self._nodes and self._matrix.begun:
            with (self._matrix.folder / NODES_FILE).open("ab") as file:
                file.writelines(msgspec.json.encode(node) + b"\n" for node in self._nodes)

    def _say(self, message: Start | Work | Stop) -> None:
        assert self._coordinator is not None
        self._coordinator.send(encoded(message))

    def _heard(self) -> FromCoordinator:
        """The next message. If the coordinator has died, that is its last."""
        assert self._coordinator is not None
        try:
            return _messages.decode(self._coordinator.receive(lambda: None))
        except ProcessEndedError as ending:
            assert self._stderr is not None
            self._stderr.seek(0)
            words = error_in(self._stderr.read().decode(errors="replace"))
            return Ended([], f"the process that drives Ray {ending}" + (f": {words}" if words else ""))


def _end_if_asked(session: pytest.Session) -> None:
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


def _figures(nodes: list[NodeReport]) -> list[str]:
    """A line for each node: how many cells it ran, how fast, and how much of its time it computed."""
    lines = []
    for node in nodes:
        rate = node.cells / node.there if node.there else 0.0
        busy = node.seconds / (node.there * node.cpus) if node.there else 0.0
        state = f"; not used: {node.refused}" if node.refused else "; lost" if node.lost else ""
        differs = f"; differs: {'; '.join(node.differs)}" if node.differs and not node.refused else ""
        what = f"{node.cells} cells, {rate:.0f}/s, {busy:.0%} busy" if node.cells else "no cells"
        lines.append(f"{node.name} ({node.host}, {node.cpus} processors): {what}{state}{differs}")
    return lines

"""The matrix within one pytest process: the selection, the bench, this process's part of the run."""

from __future__ import annotations

import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from harness.axes import Selection
from harness.environment import describe_run, missing_here
from harness.record import Record, RunInfo, Stage, Status
from harness.run_log import RunLog
from harness.terminal import block

if TYPE_CHECKING:
    from harness.items import CellItem
    from harness.stages import Bench

#: Under which key a worker is handed the controller's `RunInfo`.
RUN_INFO = "parity_run"


class Matrix:
    """What the items of this process run on. Made at the start of every pytest; builds nothing until a cell runs."""

    def __init__(self, config: pytest.Config, selection: Selection) -> None:
        self.selection = selection
        self.strict_unsupported: bool = config.getoption("--strict-unsupported")
        self.root: Path = config.getoption("--runs") or config.rootpath / "runs"
        self.seed: int = config.getoption("--seed")
        self._config = config
        self._places: dict[str, str] = {}
        self.worker: str = getattr(config, "workerinput", {}).get("workerid", "main")
        self.log = RunLog(self.root, lambda: self._info_with_missing, self.worker)

    @cached_property
    def info(self) -> RunInfo:
        """The run: the controller's, as it was handed to the worker, or begun here."""
        given = getattr(self._config, "workerinput", {}).get(RUN_INFO)
        if given is not None:
            return msgspec.json.decode(given, type=RunInfo)
        argv = self._config.invocation_params.args
        return describe_run(
            seed=self.seed, tier=self.selection.tier, argv=[str(arg) for arg in argv], project=self._config.rootpath
        )

    @cached_property
    def _info_with_missing(self) -> RunInfo:
        return msgspec.structs.replace(self.info, missing=missing_here(self.selection))

    @property
    def folder(self) -> Path:
        return self.root / self.info.id

    @cached_property
    def bench(self) -> Bench:
        from harness.stages import Bench

        return Bench(self.seed, entered=self.log.enter)

    def claim(self, name: str, place: str) -> str:
        return self._places.setdefault(name, place)

    def run(self, item: CellItem) -> Record:
        from harness.expectations import expected

        record = self._blank(item)
        self.log.begin(record)
        with warnings.catch_warnings():
            # What torch deprecates and the exporter warns of is no outcome; the cell's outputs are.
            warnings.simplefilter("ignore")
            outcome = self.bench.run(item.cell)
        record = expected(outcome.onto(record), item.path.parent)
        if record.status in (Status.FAILED, Status.UNEXPECTED_PASS) or (
            record.status is Status.UNSUPPORTED and self.strict_unsupported
        ):
            details = outcome.details if record.status is not Status.UNEXPECTED_PASS else [record.reason]
            record = msgspec.structs.replace(record, message=block(record, details))
        self.log.finish(record)
        return record

    def _blank(self, item: CellItem) -> Record:
        """The record of a cell that has not run: what it is, and the status it has if nobody says otherwise."""
        cell = item.cell
        declaration = cell.case.declaration
        return Record(
            cell=cell.id,
            case=cell.case.label,
            name=cell.case.name,
            family=cell.case.family,
            kind=declaration.kind,
            file=item.location[0],
            line=declaration.line,
            nodeid=str(item.nodeid),
            opset=cell.opset,
            dtype=cell.dtype.value,
            device=cell.device.value,
            capture=cell.capture.value,
            exporter=cell.exporter,
            runtime=cell.runtime,
            shapes=cell.shapes.value,
            status=Status.CRASHED,
            stage=Stage.BUILD,
            worker=self.worker,
        )

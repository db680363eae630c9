"""The matrix within one pytest process: the selection, the process of the cells, this process's part of the run."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from onnx_parity.harness.axes import PARITY, AxisError, Selection
from onnx_parity.harness.expecting.expectations import FILE, load
from onnx_parity.harness.matrix.shards import parse_shard
from onnx_parity.harness.matrix.since import since, source_of
from onnx_parity.harness.pytest_plugin.failure_block import block
from onnx_parity.harness.pytest_plugin.part import Part, Split, resumable
from onnx_parity.harness.record import Kind, Record, RunEnd, RunInfo, Status
from onnx_parity.harness.results.environment import describe_run, missing_here
from onnx_parity.harness.running.cell_process import CellProcess
from onnx_parity.harness.running.child_process import ProcessEndedError
from onnx_parity.harness.running.last_words import last_words
from onnx_parity.harness.running.limits import Limits, own_resident_mib
from onnx_parity.harness.running.run_log import RunLog, stderr_path
from onnx_parity.harness.store import write_end

if TYPE_CHECKING:
    from onnx_parity.harness.judging.bundle import Bundles, Kept
    from onnx_parity.harness.judging.outcome import Outcome
    from onnx_parity.harness.pytest_plugin.items import CellItem
    from onnx_parity.harness.running.stages import Bench

_decoder = msgspec.json.Decoder(Record)

#: Under which key a worker is handed the controller's `RunInfo`.
RUN_INFO = "parity_run"


class Matrix:
    """What the items of this process run on. Made at the start of every pytest; builds nothing until a cell runs."""

    def __init__(self, config: pytest.Config, selection: Selection, limits: Limits) -> None:
        self.selection = selection
        self._resumed, self.part = _part_of(config)
        self.strict_unsupported: bool = config.getoption("--strict-unsupported")
        self.root: Path = config.getoption("--runs") or config.rootpath / "runs"
        self.seed: int = config.getoption("--seed")
        if self._resumed is not None:
            self.root = config.getoption("--resume").resolve().parent
            self.seed = self._resumed.seed
        self._isolated: bool = not config.getoption("--in-process")
        self._limits = limits
        self._config = config
        self._places: dict[str, str] = {}
        #: The cells of this process by their node ids, once they are collected.
        self.items: dict[str, CellItem] = {}
        self._process: CellProcess | None = None
        self.worker: str = getattr(config, "workerinput", {}).get("workerid", "main")
        self.log = RunLog(self.root, lambda: self._info_with_missing, self.worker)

    @cached_property
    def info(self) -> RunInfo:
        """The run: the controller's, as it was handed to the worker, or begun here."""
        given = getattr(self._config, "workerinput", {}).get(RUN_INFO)
        if given is not None:
            return msgspec.json.decode(given, type=RunInfo)
        if self._resumed is not None:
            return self._resumed
        argv = self._config.invocation_params.args
        begun = describe_run(
            seed=self.seed, tier=self.selection.tier, argv=[str(arg) for arg in argv], project=self._config.rootpath
        )
        turn = self.part.since.turn if self.part.since is not None else 0
        return msgspec.structs.replace(begun, shard=self._config.getoption("--shard") or "", turn=turn)

    @cached_property
    def _info_with_missing(self) -> RunInfo:
        # Asked otherwise, CUDA is initialised here, and then cannot be used in a process that is forked from this one.
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        return msgspec.structs.replace(self.info, missing=missing_here(self.selection))

    @property
    def folder(self) -> Path:
        return self.root / self.info.id

    @property
    def begun(self) -> bool:
        """Whether there is a run: not if no cell was run. What nobody asked for is not described to find out."""
        return "info" in vars(self) and self.folder.exists()

    @cached_property
    def bench(self) -> Bench:
        from onnx_parity.harness.running.stages import Bench

        return Bench(self.seed, entered=self.log.in_flight.enter)

    def split(self, items: Sequence[pytest.Item]) -> Split:
        """What of the collected items is run; the records that are carried over are written by one process of all.

        The expectations beside them are read, so that one that cannot be is told before any cell runs.
        """
        for folder in {item.path.parent for item in items if hasattr(item, "cell")}:
            load(folder / FILE)
        split = self.part.split(items)
        if split.carried and self.worker in ("main", "gw0"):
            self.log.carry(split.carried)
        return split

    def collected(self, items: Sequence[pytest.Item]) -> None:
        """Note the cells, by which the process that runs them knows them."""
        self.items = {item.nodeid: cast("CellItem", item) for item in items if hasattr(item, "cell")}

    def end(self, *, whole: bool) -> None:
        """The run is over."""
        if self.begun:
            write_end(self.folder, RunEnd(datetime.now(UTC).isoformat(timespec="seconds"), whole))

    @cached_property
    def bundles(self) -> Bundles:
        from onnx_parity.harness.judging.bundle import Bundles

        return Bundles(self.folder, self._info_with_missing)

    def claim(self, name: str, place: str) -> str:
        return self._places.setdefault(name, place)

    def run(self, item: CellItem, ahead: CellItem | None = None) -> Record:
        """Run a cell, in a process of its own unless that was not wanted, and record how it ended.

        `ahead` is the cell that is run next: its process goes on with it while this one is reported.
        """
        if not self._isolated:
            return self._run_here(item)
        self._process = self._process or self._new_process()
        # A model's weights, which are there until the next case begins, are no growth.
        is_model = item.cell.case.declaration.kind is not Kind.OPERATOR
        alike = ahead is not None and (is_model or ahead.cell.case is item.cell.case)
        try:
            answer = self._process.ask(
                item.nodeid.encode(), ahead.nodeid.encode() if ahead is not None else None, alike=alike
            )
        except ProcessEndedError as ending:
            record = self._dead(item, ending)
            self.log.finish(record)
            return record
        return _decoder.decode(answer)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
        self.log.close()

    def _new_process(self) -> CellProcess:
        # What any cell needs is imported once here rather than after every crash.
        import onnx_parity.harness.running.stages  # noqa: F401

        if PARITY in self.selection.exporters:
            _export_once()
        # What is there by now stays: no collection in the process looks at it again, and so makes copies of its pages.
        gc.freeze()
        stderr = stderr_path(self.folder, self.worker)
        return CellProcess(self._answer, self.log.in_flight, stderr, self._limits, self.log.filenos())

    def _answer(self, nodeid: bytes) -> bytes:
        """In the process of the cells: run one and record it, so that it is not lost if the owner dies meanwhile."""
        return self.log.finish(self._execute(self.items[nodeid.decode()]))

    def _run_here(self, item: CellItem) -> Record:
        record = self._execute(item)
        self.log.finish(record)
        return record

    def _execute(self, item: CellItem) -> Record:
        from onnx_parity.harness.expecting.expectations import expected

        start = time.perf_counter()
        blank = self._blank(item)
        self.log.begin(blank)
        with warnings.catch_warnings():
            # What torch deprecates and the exporter warns of is no outcome; the cell's outputs are.
            warnings.simplefilter("ignore")
            kept: list[Kept] = []

            def keep(outcome: Outcome) -> None:
                if outcome.status is not Status.FAILED:
                    return
                record = expected(outcome.onto(blank), item.path.parent)
                if record.status is Status.FAILED:
                    kept.append(self.bundles.keep(record, outcome))

            outcome = self.bench.run(item.cell, keep)
        record = expected(outcome.onto(blank), item.path.parent)
        if record.status in (Status.FAILED, Status.UNEXPECTED_PASS) or (
            record.status is Status.UNSUPPORTED and self.strict_unsupported
        ):
            details = outcome.details if record.status is not Status.UNEXPECTED_PASS else [record.reason]
            details = [*details, *(each.line for each in kept)]
            folder = kept[0].folder if kept else ""
            record = msgspec.structs.replace(record, bundle=folder, message=block(record, details))
        elapsed = time.perf_counter() - start
        return msgspec.structs.replace(record, elapsed=elapsed, memory=own_resident_mib())

    def _dead(self, item: CellItem, ending: ProcessEndedError) -> Record:
        """The record of a cell whose process ended before it did."""
        from onnx_parity.harness.expecting.expectations import expected

        begun = self.log.in_flight.record()
        if begun is None or begun.nodeid != item.nodeid:
            # It was not even begun.
            begun = self._blank(item)
        reason = f"{ending} in stage {begun.stage}"
        record = msgspec.structs.replace(begun, reason=reason, elapsed=time.time() - begun.began)
        record = expected(record, item.path.parent)
        if record.status is Status.CRASHED:
            words = last_words(stderr_path(self.folder, self.worker))
            record = msgspec.structs.replace(record, message=block(record, [record.reason, *words]))
        return record

    def _blank(self, item: CellItem) -> Record:
        from onnx_parity.harness.judging.outcome import blank_record

        blank = blank_record(item.cell, item.location[0], str(item.nodeid), worker=self.worker)
        return msgspec.structs.replace(blank, began=time.time(), source=source_of(item))


def _part_of(config: pytest.Config) -> tuple[RunInfo | None, Part]:
    """The run that is resumed, if one is, and what this invocation runs."""
    shard = config.getoption("--shard")
    durations: Path | None = config.getoption("--durations-of")
    if durations is not None and not shard:
        raise AxisError(f"--durations-of {durations}: it balances shards. Say which one to run, such as --shard 1/2.")
    parsed = parse_shard(shard, durations) if shard else None
    earlier: Path | None = config.getoption("--since")
    touched = since(earlier, config.getoption("--seed")) if earlier is not None else None
    resume: Path | None = config.getoption("--resume")
    if resume is None:
        return None, Part(parsed, since=touched)
    info, done = resumable(resume)
    # It is written to where it is now, which may be another folder than the one it was begun in.
    return msgspec.structs.replace(info, id=resume.resolve().name), Part(parsed, done, touched)


def _export_once() -> None:
    """What the first export of a process pays, half a second of imports where sizes vary, is no cell's doing: nor would
    a gate be right that finds the case slower that happened to be the first."""
    import torch

    import onnx_parity

    with suppress(Exception):  # Where it is broken, each cell says how.
        onnx_parity.export(torch.nn.ReLU(), (torch.ones(2),), input_names=["x"], dynamic_axes={"x": {0: "n"}})

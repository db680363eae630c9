"""The matrix in one pytest process: the selection, the child process that runs cells, and the run that it writes to."""

from __future__ import annotations

import gc
import itertools
import shlex
import sys
import time
import warnings
from collections.abc import MutableMapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import msgspec
import pytest

from onnx_parity.harness.axes import PARITY, AxisError, Selection
from onnx_parity.harness.cases.installed import involved, normalise
from onnx_parity.harness.cases.watching import PACKAGE, name_of, state_of, watch
from onnx_parity.harness.expecting import no_kernel, unsupported, warned
from onnx_parity.harness.expecting.expectations import FILE, FOLDER, load
from onnx_parity.harness.matrix.shards import parse_shard
from onnx_parity.harness.matrix.since import since, source_of
from onnx_parity.harness.project import Project, Settings
from onnx_parity.harness.pytest_plugin.failure_block import block
from onnx_parity.harness.pytest_plugin.options import option, prefix_option
from onnx_parity.harness.pytest_plugin.part import Part, Split, resumable
from onnx_parity.harness.record import Blame, Kind, Record, RunEnd, RunInfo, Status
from onnx_parity.harness.results.content import module_of
from onnx_parity.harness.results.environment import describe_run, missing_here, packages_of
from onnx_parity.harness.running.cell_process import CellProcess
from onnx_parity.harness.running.child_process import ProcessEndedError
from onnx_parity.harness.running.last_words import last_words
from onnx_parity.harness.running.limits import Limits, own_resident_mib
from onnx_parity.harness.running.run_log import RunLog, stderr_path
from onnx_parity.harness.store import read_records, set_aside_unreadable, write_end

if TYPE_CHECKING:
    from onnx_parity.harness.judging.bundle import Bundles, Kept
    from onnx_parity.harness.judging.outcome import Outcome
    from onnx_parity.harness.pytest_plugin.items import CellItem
    from onnx_parity.harness.reuse.reuse import Kept as KeptOutcome
    from onnx_parity.harness.reuse.reuse import Reuse
    from onnx_parity.harness.running.stages import Bench

_decoder = msgspec.json.Decoder(Record)
#: Begins the answer of the process for cells if a file of the run cannot be written. No JSON begins so.
_UNWRITTEN = b"!"
#: From this number of cells on, what many of them import is imported before the first.
_MANY = 500

#: The key under which the controller sends its `RunInfo` to the workers, and that of a `NodeRun` on a cluster.
RUN_INFO, ON_NODE = "parity_run", "parity_on_node"
#: The key under which a worker sends its controller the message about a record that cannot be written.
UNWRITTEN = "parity_unwritten"


@dataclass(frozen=True)
class NodeRun:
    """What a pytest on a node of a cluster does otherwise: its records are fetched from there by the driver."""

    #: The folder in which the run is created.
    root: Path
    #: The folder of the run at the driver, which messages about failures name.
    home: str


class Matrix:
    """Runs the cells of this process. It is created at the start of every pytest, but starts nothing before a cell."""

    KEY: pytest.StashKey[Matrix] = pytest.StashKey()

    def __init__(self, config: pytest.Config, project: Project, selection: Selection, limits: Limits) -> None:
        self.selection = selection
        self._config = config
        self.seed: int = option(config, "seed")
        if self.seed is None:
            self.seed = project.settings.seed or 0
        self._on_node: NodeRun | None = getattr(config, "workerinput", {}).get(ON_NODE)
        # On a node of a cluster, the cells to run are named.
        self._data = project.data
        self.watch = watch()
        self._hashes: dict[str, str] = {}
        self._rerun: dict[str, str] = {}
        self._resumed, self.part = (
            _part_of(config, self.seed, selection.subjects, project.data) if self._on_node is None else (None, Part())
        )
        self.strict_unsupported: bool = option(config, "strict-unsupported")
        self.root: Path = option(config, "runs") or (
            project.runs if project.is_configured else config.rootpath / "runs"
        )
        if self._resumed is not None:
            self.root = option(config, "resume").resolve().parent
            self.seed = self._resumed.seed
        if self._on_node is not None:
            self.root = self._on_node.root
            self.seed = self.info.seed
        self._options = _options_of_running_again(config, self.seed, project.settings)
        self._isolated: bool = not option(config, "in-process")
        self._limits = limits
        self._places: dict[str, str] = {}
        #: The collected cells of this process by their node ids.
        self.items: MutableMapping[str, CellItem] = {}
        self._process: CellProcess | None = None
        #: The node id of the last cell whose outcome was looked for, and the outcome.
        self._looked_for: tuple[str, KeptOutcome | None] = ("", None)
        self.worker: str = getattr(config, "workerinput", {}).get("workerid", "main")
        self.log = RunLog(self.root, lambda: self._info_with_missing, self.worker)

    @cached_property
    def info(self) -> RunInfo:
        """The description of the run: the controller's in a worker, the resumed run's, or a new one."""
        given = getattr(self._config, "workerinput", {}).get(RUN_INFO)
        if given is not None:
            return msgspec.json.decode(given, type=RunInfo)
        if self._resumed is not None:
            return self._resumed
        argv = self._config.invocation_params.args
        begun = describe_run(
            seed=self.seed,
            tier=self.selection.tier,
            argv=[str(arg) for arg in argv],
            project=self._config.rootpath,
            also=packages_of(self.selection),
            subjects=self.selection.subjects,
            data=self._data,
        )
        turn = self.part.since.turn if self.part.since is not None else 0
        return msgspec.structs.replace(begun, shard=option(self._config, "shard") or "", turn=turn)

    @cached_property
    def _info_with_missing(self) -> RunInfo:
        return msgspec.structs.replace(self.info, missing=missing_here(self.selection))

    @property
    def folder(self) -> Path:
        return self.root / self.info.id

    @property
    def begun(self) -> bool:
        """Whether the folder of the run exists. It does not if no cell was run."""
        return "info" in vars(self) and self.folder.exists()

    @cached_property
    def bench(self) -> Bench:
        from onnx_parity.harness.running.stages import Bench

        return Bench(self.seed, entered=self.log.in_flight.enter, reuse=self.reuse)

    @cached_property
    def reuse(self) -> Reuse | None:
        """The outcomes that `--reuse` names; None without it."""
        folder: Path | None = option(self._config, "reuse")
        if folder is None:
            return None
        from onnx_parity.harness.reuse.hashes import Grounds
        from onnx_parity.harness.reuse.reuse import DAYS, Reuse
        from onnx_parity.harness.reuse.store import MOST_MIB, Store

        days, limit = option(self._config, "reuse-days"), option(self._config, "reuse-limit")
        return Reuse(
            Store(folder.expanduser(), MOST_MIB if limit is None else limit),
            Grounds(self.seed, self._data),
            self.info.id,
            self._config.rootpath,
            DAYS if days is None else days,
        )

    def split(self, items: Sequence[pytest.Item]) -> Split:
        """Split the collected items into those to run and those to leave out. Only one process writes carried records.

        The files of expectations and refusals are read here, so that an invalid one is reported before any cell runs.
        """
        for folder in {item.path.parent for item in items if hasattr(item, "cell")}:
            for file in (folder / FILE, *sorted((folder / FOLDER).glob("*.toml"))):
                load(file)
            unsupported.load_once(folder / unsupported.FILE)
            no_kernel.load_once(folder / no_kernel.FILE)
            warned.load_once(folder / warned.FILE)
        split = self.part.split(items)
        self._rerun = split.rerun
        if split.carried and self.worker in ("main", "gw0"):
            self.log.carry(split.carried)
        return split

    def store_items(self, items: Sequence[pytest.Item]) -> None:
        """Store the collected cells for the process that runs them."""
        self.items.update((item.nodeid, cast("CellItem", item)) for item in items if hasattr(item, "cell"))

    def end(self, why: str, unreported: Set[str]) -> RunEnd:
        """Write the end of the run. `why` says why not all cells were run; it is empty if they were.

        `unreported` are the node ids of the selected cells that pytest has no report of. Those that were begun ahead
        may have a record all the same; one of a crash is of an earlier turn of a resumed run.
        """
        self._end_process()
        records = read_records(self.folder)
        ran = {record.nodeid for record in records if why and record.status is not Status.CRASHED}
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        end = RunEnd(ended, not why, len(records), len(unreported - ran) if why else 0, why)
        write_end(self.folder, end)
        return end

    @cached_property
    def bundles(self) -> Bundles:
        from onnx_parity.harness.judging.bundle import Bundles

        home = Path(self._on_node.home) if self._on_node is not None else self.folder
        return Bundles(self.folder, self._info_with_missing, home)

    def claim(self, name: str, place: str) -> str:
        return self._places.setdefault(name, place)

    def run(self, item: CellItem, ahead: CellItem | None = None) -> Record:
        """Run a cell and return its record. It runs in the child process, unless --in-process was given.

        `ahead` is the next cell, which the child process begins while this one is reported. Raises `OSError` if the
        record cannot be written: without it the cell has not been run.
        """
        if (known := self._find_known(item)) is not None:
            return self._take_over(item, known)
        if ahead is not None and self._find_known(ahead) is not None:
            ahead = None
        if not self._isolated:
            return self._run_here(item)
        self._process = self._process or self._new_process()
        # The weights of a model stay in memory until the next case. This does not count as a leak.
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
        if answer.startswith(_UNWRITTEN):
            raise OSError(answer.removeprefix(_UNWRITTEN).decode())
        return _decoder.decode(answer)

    def _find_known(self, item: CellItem) -> KeptOutcome | None:
        """The outcome that is known of a cell; each is looked for once, when the cell before it is run."""
        if self.reuse is None:
            return None
        if self._looked_for[0] != item.nodeid:
            self._looked_for = item.nodeid, self.reuse.before_export(item.cell)
        return self._looked_for[1]

    def _take_over(self, item: CellItem, known: KeptOutcome) -> Record:
        """Write and return the record of a cell of which nothing is run."""
        from onnx_parity.harness.judging.bundle import Kept
        from onnx_parity.harness.judging.outcome import Outcome
        from onnx_parity.harness.reuse.reuse import fill_in

        start, blank = time.perf_counter(), self._blank(item)
        outcome = fill_in(Outcome(item.cell, item.cell.runtime), known)
        no_bundle = Kept("", f"outcome of run {known.run}. This makes a bundle:  parity repro '{item.cell.id}'")
        record = self._judge(item, outcome, outcome.onto(blank), [no_bundle])
        elapsed = time.perf_counter() - start
        record = msgspec.structs.replace(record, elapsed=elapsed, depends=known.depends)
        self.log.finish(record)
        return record

    def give_up(self, item: CellItem, reason: str) -> Record:
        """Write and return the record of a cell that took each worker of a cluster with it."""
        blank = self._blank(item)
        record = msgspec.structs.replace(blank, reason=reason, message=block(blank, [reason]))
        self.log.finish(record)
        return record

    def end_unwritten(self, error: OSError) -> NoReturn:
        """End the run: a cell whose record cannot be written has not been run."""
        again = f"parity run --resume {shlex.quote(str(self.folder))}" if self.begun else "run it again"
        message = f"a record cannot be written to {self.folder}: {error}. Free space there, then: {again}"
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[UNWRITTEN] = message
        pytest.exit(message, returncode=pytest.ExitCode.INTERNAL_ERROR)

    def close(self) -> None:
        self._end_process()
        self._forget_shared()
        self.log.close()

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _new_process(self) -> CellProcess:
        # Modules that every cell needs are imported here once, not again after every crash.
        import onnx_parity.harness.running.stages  # noqa: F401

        if PARITY in self.selection.exporters:
            _export_once()
        if len(self.items) >= _MANY:
            _import_what_many_need()
        if self.reuse is not None:
            self.reuse.grounds.prepare()
        # The collector of the forked process ignores objects that exist now, because visiting them copies their pages.
        gc.freeze()
        stderr = stderr_path(self.folder, self.worker)
        return CellProcess(
            self._answer, self.log.in_flight, stderr, self._limits, self.log.filenos(), self._forget_shared
        )

    def _forget_shared(self) -> None:
        """Called at the end of the process that runs cells: remove the files that its cells have shared."""
        if "bench" in vars(self):
            self.bench.close()
        if "reuse" in vars(self) and self.reuse is not None:
            self.reuse.flush()

    def _answer(self, nodeid: bytes) -> bytes:
        """Called in the child process: run a cell and write its record, which is kept if this process is killed."""
        try:
            return self.log.finish(self._execute(self.items[nodeid.decode()]))
        except OSError as error:  # What the cell itself raises is its outcome; this is a full disk.
            return _UNWRITTEN + str(error).encode()

    def _run_here(self, item: CellItem) -> Record:
        record = self._execute(item)
        self.log.finish(record)
        return record

    def _execute(self, item: CellItem) -> Record:
        from onnx_parity.harness.expecting.expectations import apply_expectations

        start = time.perf_counter()
        blank = self._blank(item)
        self.log.begin(blank)
        with warnings.catch_warnings():
            # Those of the exporter are noted where a program is captured; others are not part of a cell's outcome.
            warnings.simplefilter("ignore")
            kept: list[Kept] = []

            def keep(outcome: Outcome) -> None:
                if outcome.status is not Status.FAILED:
                    return
                record = apply_expectations(outcome.onto(blank), item.path.parent)
                if record.status is Status.FAILED:
                    kept.append(self.bundles.keep(record, outcome))

            outcome = self.bench.run(item.cell, keep)
            left, depends = outcome.onto(blank), self._depends(item)
            difference = ""
            if self.reuse is not None:
                difference = self.reuse.settle(outcome, left, depends, lambda: self.bench.run(item.cell).onto(blank))
        record = self._judge(item, outcome, left, kept)
        if difference:
            record = msgspec.structs.replace(record, status=Status.FAILED, blame=Blame.UNKNOWN, reason=difference)
            record = msgspec.structs.replace(record, message=block(record, [difference]))
        elapsed = time.perf_counter() - start
        return msgspec.structs.replace(record, elapsed=elapsed, memory=own_resident_mib(), depends=depends)

    def _judge(self, item: CellItem, outcome: Outcome, left: Record, kept: Sequence[Kept]) -> Record:
        """The record that the stages left, with what expectations and lists of refusals say of it."""
        from onnx_parity.harness.expecting.expectations import apply_expectations

        folder = item.path.parent
        record = unsupported.judge_record(apply_expectations(left, folder), folder, item.is_in_tier)
        for each in (no_kernel, warned):
            record = each.judge_record(record, folder, item.is_in_tier)
        if record.status in (Status.FAILED, Status.UNEXPECTED_PASS) or (
            record.status is Status.UNSUPPORTED and self.strict_unsupported
        ):
            by_a_list = outcome.status is not record.status or record.refused
            details = [record.reason] if by_a_list else []
            details = details or outcome.details
            details = [*details, *(each.line for each in kept)]
            bundle = kept[0].folder if kept else ""
            record = msgspec.structs.replace(record, bundle=bundle, message=block(record, details))
        return record

    def _depends(self, item: CellItem) -> tuple[str, ...]:
        """What the cell depends on besides its declaration, the exporter and the harness, with hashes of files."""
        from onnx_parity.harness.subjects.runtimes import RUNTIMES
        from onnx_parity.harness.transformations.named import TRANSFORMATIONS

        cell = item.cell
        modules = filter(None, map(module_of, (cell.exporter, cell.runtime, *cell.transforms)))
        files = [file for each in modules if (file := getattr(sys.modules.get(each), "__file__", None))]
        packages = [*RUNTIMES[cell.runtime].packages]
        packages += itertools.chain.from_iterable(TRANSFORMATIONS[each].packages for each in cell.transforms)
        needs = self.watch.needs((str(item.path), *files))
        own = sorted({*map(normalise, packages)} - involved())
        return tuple(dict.fromkeys((*map(self._with_hash, needs), *(f"{PACKAGE}{each}" for each in own))))

    def _with_hash(self, needed: str) -> str:
        if needed.startswith(PACKAGE):
            return needed
        if needed not in self._hashes:
            name = name_of(needed, self._config.rootpath)
            self._hashes[needed] = f"{name} {state_of(name, self._config.rootpath)}"
        return self._hashes[needed]

    def _dead(self, item: CellItem, ending: ProcessEndedError) -> Record:
        """The record of a cell whose process ended while it ran."""
        from onnx_parity.harness.expecting.expectations import apply_expectations

        begun = self.log.in_flight.record()
        if begun is None or begun.nodeid != item.nodeid:
            # The process ended before the cell began.
            begun = self._blank(item)
        reason = f"{ending} in stage {begun.stage}"
        record = msgspec.structs.replace(begun, reason=reason, elapsed=max(time.time() - begun.began, 0.0))
        record = apply_expectations(record, item.path.parent)
        if record.status is Status.CRASHED:
            words = last_words(stderr_path(self.folder, self.worker))
            record = msgspec.structs.replace(record, message=block(record, [record.reason, *words]))
        return record

    def _blank(self, item: CellItem) -> Record:
        from onnx_parity.harness.judging.outcome import blank_record

        blank = blank_record(item.cell, item.location[0], str(item.nodeid), worker=self.worker, options=self._options)
        return msgspec.structs.replace(
            blank, began=time.time(), source=source_of(item), rerun=self._rerun.get(item.nodeid, "")
        )


def _part_of(
    config: pytest.Config, seed: int, subjects: Sequence[str], data: Sequence[Path]
) -> tuple[RunInfo | None, Part]:
    """The run that is resumed, if any, and the part of the cells that this invocation runs."""
    shard = option(config, "shard")
    durations: Path | None = option(config, "durations-of")
    if durations is not None and not shard and not option(config, "on"):
        raise AxisError(
            f"--durations-of {durations} has no effect without --shard or --on. Add a shard, such as --shard 1/2."
        )
    parsed = parse_shard(shard, durations) if shard else None
    earlier: Path | None = option(config, "since")
    touched = since(earlier, seed, subjects, data, config.rootpath) if earlier is not None else None
    resume: Path | None = option(config, "resume")
    if resume is None:
        return None, Part(parsed, since=touched)
    info, done = resumable(resume)
    if not hasattr(config, "workerinput"):
        set_aside_unreadable(resume)
    # The folder may have been renamed since the run was started.
    return msgspec.structs.replace(info, id=resume.resolve().name), Part(parsed, done, touched)


def _options_of_running_again(config: pytest.Config, seed: int, settings: Settings) -> tuple[str, ...]:
    """The options without which a cell could end otherwise, and which its id does not tell."""
    options = [] if seed == (settings.seed or 0) else [f"{prefix_option('seed')}={seed}"]
    for name in ("stage-seconds", "memory-limit"):
        if given := option(config, name):
            options.append(f"{prefix_option(name)}={given}")
    return tuple(options)


def _import_what_many_need() -> None:
    """Import what a quarter of all cells needs of torch, once for each worker.

    Each process that runs cells would import it again, for a second, and be replaced earlier: it takes as much memory
    as the process may grow by.
    """
    import torch.distributed.tensor
    import torch.fx.experimental.symbolic_shapes  # noqa: F401

    if "onnx_parity.harness.opinfo" in sys.modules:
        # There are declarations of samples of torch's databases.
        from onnx_parity.harness.cases.opinfo_samples import all_entries, all_modules

        all_entries()
        all_modules()


def _export_once() -> None:
    """Export once, so that the time of the first export's imports, half a second, is not counted for a cell.

    Otherwise a gate could report that the case that happens to run first has become slower.
    """
    import torch

    import onnx_parity

    with suppress(Exception):  # If the exporter is broken, every cell reports it.
        onnx_parity.export(torch.nn.ReLU(), (torch.ones(2),), input_names=["x"], dynamic_axes={"x": {0: "n"}})

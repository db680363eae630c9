"""The pytest plug-in: a declaration file is its own test file, and every cell leaves a record in the run store.

    pytest op_cases/pooling.py -k "max_pool2d and opset9"
    pytest -n auto --tier smoke

Torch is imported by what is collected, not by this module: the controller of a distributed run never needs it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pluggy
import pytest

from onnx_parity.harness import axes
from onnx_parity.harness.axes import Capture, Device, Dtype, Selection, Tier
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.expecting.expectations import FILE, ExpectationError
from onnx_parity.harness.pytest_plugin.cell_report import CellReport, packed, told, unpacked
from onnx_parity.harness.pytest_plugin.matrix import RUN_INFO, Matrix
from onnx_parity.harness.pytest_plugin.pace import Pace
from onnx_parity.harness.pytest_plugin.worker_crash import record_crash
from onnx_parity.harness.results.terminal_summary import counts, summarise
from onnx_parity.harness.running.limits import STAGE_SECONDS, parse_limits
from onnx_parity.harness.store import RunStoreError, read_records

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_Axis = TypeVar("_Axis", Dtype, Device, Capture)

#: Under which key a worker hands its controller what pytest refused.
_USAGE_ERROR = "parity_usage_error"

_MATRIX: pytest.StashKey[Matrix] = pytest.StashKey()
#: In a worker: `pytest_runtest_logreport` of all plug-ins but those that tell users, whom it has none of.
_TELL_CONTROLLER: pytest.StashKey[pluggy.HookCaller] = pytest.StashKey()

#: Seconds between two lines of the pace: on a terminal, where each replaces the one before, and in a log.
_TERMINAL_EVERY, _LOG_EVERY = 0.5, 15.0


_EXPORTERS_HELP = (
    f"exporters: {', '.join(axes.EXPORTER_NAMES)}, and any module:function that is called as torch.onnx.export is"
)
_RUNTIMES_HELP = (
    f"runtimes: {', '.join(axes.RUNTIME_NAMES)}, and {axes.BACKEND}module for any with the ONNX backend interface "
    "(default: one that runs the opset)"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("parity", "the matrix of cells")
    group.addoption("--tier", choices=[*Tier], default=Tier.DEFAULT, help="how much of the matrix (default: default)")
    group.addoption("--opsets", help="opsets instead of the tier's: 9,13-18")
    group.addoption("--dtypes", help="dtypes instead of the tier's: float32,float16")
    group.addoption("--devices", help="devices: cpu,cuda (default: cpu, and one CUDA cell a case)")
    group.addoption("--exporters", default=axes.PARITY, help=_EXPORTERS_HELP)
    group.addoption("--captures", default=Capture.TRACE, help="ways in: trace,script,exported_program (default: trace)")
    group.addoption("--runtimes", help=_RUNTIMES_HELP)
    group.addoption("--seed", type=int, default=0, help="seed of inputs and weights (default: 0)")
    group.addoption("--runs", type=Path, help="where runs are kept (default: runs/ beside the configuration file)")
    group.addoption("--resume", type=Path, metavar="RUN", help="go on with a run that was stopped: the cells it lacks")
    group.addoption(
        "--since",
        type=Path,
        metavar="RUN",
        help="run what a change since that run can have touched, and carry the rest",
    )
    group.addoption("--shard", metavar="K/N", help="one part of N of the cells, the same one every time: 2/8")
    group.addoption(
        "--durations-of", type=Path, metavar="RUN", help="make the shards equally long by the durations of this run"
    )
    group.addoption(
        "--stage-seconds",
        default="",
        help=f"seconds that a stage may take, 0 for any number: 60,export=300 (default: {STAGE_SECONDS:g})",
    )
    group.addoption(
        "--memory-limit",
        default="",
        help="MiB that a cell's process may hold, 0 for any (default: half of the machine's)",
    )
    group.addoption("--in-process", action="store_true", help="run cells in pytest's own process, for a debugger")
    group.addoption("--pace", action="store_true", help="how a run comes along in a line, instead of a dot a cell")
    group.addoption("--strict-unsupported", action="store_true", help="what the exporter refuses fails the run")


def _refuse_unusable_folder(runs: Path) -> None:
    """Before cells run, whose records would have no place."""
    for folder in (runs, *runs.parents):
        if folder.exists():
            if not folder.is_dir() or not os.access(folder, os.W_OK):
                raise RunStoreError(f"--runs {runs}: {folder} is no folder that can be written to")
            return


def pytest_configure(config: pytest.Config) -> None:
    try:
        if runs := config.getoption("--runs"):
            _refuse_unusable_folder(runs)
        selection = _selection(config)
        limits = parse_limits(config.getoption("--stage-seconds"), config.getoption("--memory-limit"))
        matrix = Matrix(config, selection, limits)
    except (axes.AxisError, RunStoreError) as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_MATRIX] = matrix
    config.pluginmanager.register(Progress(matrix, shows_pace=config.getoption("--pace")), "parity-progress")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _MATRIX in config.stash:
        config.stash[_MATRIX].close()


def _selection(config: pytest.Config) -> Selection:
    dtypes, devices, runtimes = (config.getoption(option) for option in ("--dtypes", "--devices", "--runtimes"))
    opsets, captures = config.getoption("--opsets"), config.getoption("--captures")
    return Selection(
        tier=Tier(config.getoption("--tier")),
        opsets=axes.parse_opsets(opsets) if opsets is not None else None,
        dtypes=_named("--dtypes", dtypes, Dtype) if dtypes is not None else None,
        devices=_named("--devices", devices, Device) if devices is not None else None,
        exporters=axes.parse_exporters(config.getoption("--exporters")),
        runtimes=axes.parse_runtimes(runtimes) if runtimes is not None else None,
        captures=_named("--captures", captures, Capture),
    )


def _named(option: str, text: str, axis: type[_Axis]) -> tuple[_Axis, ...]:
    return tuple(map(axis, axes.parse_names(option, text, tuple(axis))))


def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> pytest.Collector | None:
    # A module of tests that never imports the vocabulary has no declarations, and need not import torch for it.
    if "onnx_parity.harness.case" not in sys.modules:
        return None
    from onnx_parity.harness.case import Declaration
    from onnx_parity.harness.cases.declarations import is_declared
    from onnx_parity.harness.pytest_plugin.items import DeclarationCollector

    if not isinstance(obj, Declaration) or not is_declared(name, obj, collector.path):
        return None
    matrix = collector.config.stash[_MATRIX]
    return DeclarationCollector.from_parent(collector, name=name, declaration=obj, runner=matrix)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    raised = getattr(getattr(report, "call", None), "excinfo", None)
    # A mistake in a declaration is told by its message, which names the file and the line, not by a traceback.
    if raised is not None and isinstance(raised.value, DeclarationError):
        report.longrepr = str(raised.value)
    return report


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name != FILE or not _has_declarations(file_path.parent):
        return None
    from onnx_parity.harness.pytest_plugin.items import ExpectationsFile

    return ExpectationsFile.from_parent(parent, path=file_path)


def _has_declarations(folder: Path) -> bool:
    """Elsewhere a file of that name is somebody else's."""
    return any(b"harness." in path.read_bytes() for path in folder.glob("*.py"))


@pytest.hookimpl(trylast=True)  # After `-k`, so that every shard is a part of what was asked for.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    matrix = config.stash[_MATRIX]
    try:
        if not config.option.collectonly and any(hasattr(item, "cell") for item in items):
            _refuse_unusable_folder(matrix.root)
        split = matrix.split(items)
    except (ExpectationError, RunStoreError) as error:
        raise pytest.UsageError(str(error)) from error
    items[:] = split.run
    if split.left:
        config.hook.pytest_deselected(items=split.left)


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    config.stash[_MATRIX].collected(session.items)
    if _is_worker(config):
        plugins = config.pluginmanager
        for_users = {plugins.get_plugin("terminalreporter"), plugins.get_plugin("parity-progress")}
        config.stash[_TELL_CONTROLLER] = plugins.subset_hook_caller("pytest_runtest_logreport", for_users)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    report = getattr(item, "report", None)
    if report is None:
        return None
    if not hasattr(nextitem, "report"):
        # A test before this cell left what it shared with the cell set up; the next test may share less.
        item.session._setupstate.teardown_exact(nextitem)
    if _is_worker(item.config):
        # The start and the end would be two more messages, from which the controller's terminal has nothing to print.
        item.config.stash[_TELL_CONTROLLER](report=report(nextitem))
    else:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        item.ihook.pytest_runtest_logreport(report=report(nextitem))
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_report_to_serializable(config: pytest.Config, report: object) -> dict[str, Any] | None:
    # Whoever else asks, such as a log of reports, wants pytest's own form.
    return packed(report) if isinstance(report, CellReport) and _is_worker(config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_report_from_serializable(data: dict[str, Any]) -> CellReport | None:
    return unpacked(data)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    if not isinstance(report, CellReport):
        return None
    category, letter, word = report.category()
    if config.option.pace and config.option.verbose <= 0:
        letter = word = ""  # With neither, the terminal counts the report and does not write.
    return category, letter, word


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput[RUN_INFO] = msgspec.json.encode(node.config.stash[_MATRIX].info).decode()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    try:
        return (yield)
    except pytest.UsageError as error:
        # A worker's words go nowhere: without them a run of a cell that does not exist ends as if all was well.
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_USAGE_ERROR] = "\n".join(map(str, error.args))
        raise


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController, error: object) -> None:
    words = getattr(node, "workeroutput", {}).get(_USAGE_ERROR)
    if words is not None:
        raise pytest.UsageError(words)


#: pytest's statuses when it has run all that was selected, and when there was nothing left to run.
_RAN = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class Progress:
    """What the process that talks to the user adds: the pace of the cells, the crashes, the summary."""

    def __init__(self, matrix: Matrix, *, shows_pace: bool) -> None:
        self._matrix = matrix
        self._began = self._ended = 0.0
        self._pace = Pace()
        self._shows_pace = shows_pace
        self._terminal: pytest.TerminalReporter | None = None
        self._shown = 0.0
        #: Some declarations may not have been collected.
        self._uncollected = False
        #: Some cells were lost with a worker before they began.
        self._lost = False
        self._whole = False
        #: Why the run's end is not written.
        self._unwritten: OSError | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        # Under xdist the controller collects nothing, and is told by the workers.
        self._pace.total = self._pace.total or sum(hasattr(item, "cell") for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: WorkerController, ids: list[str]) -> None:
        self._terminal = node.config.pluginmanager.get_plugin("terminalreporter")
        self._pace.total = sum(f"{FILE}::" not in each for each in ids)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._uncollected |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if isinstance(report, CellReport):
            report.print_id_as_it_is()
            self._count(failed=report.failed)
            self._began = self._began or report.start
            self._ended = report.stop

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        record = record_crash(crashitem, report, self._matrix)
        if record is not None:
            report.when = "call"
            report.outcome, report.longrepr = told(record, strict_unsupported=self._matrix.strict_unsupported)
            self._count(failed=report.failed)
        else:
            self._lost = True

    def _count(self, *, failed: bool) -> None:
        now = time.monotonic()
        self._pace.count(now, failed=failed)
        if not self._shows_pace or self._terminal is None:
            return
        on_terminal = self._terminal.isatty
        last = self._pace.done == self._pace.total
        if last or now - self._shown > (_TERMINAL_EVERY if on_terminal else _LOG_EVERY):
            self._shown = now
            if on_terminal:
                self._terminal.rewrite(self._pace.line(), erase=True)
            else:
                self._terminal.write_line(self._pace.line())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if _is_worker(session.config):
            return
        stopped = bool(session.shouldstop or session.shouldfail)
        self._whole = exitstatus in _RAN and not (stopped or self._uncollected or self._lost)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._matrix.begun:
            # Every cell that was asked for has its record, be it from an earlier run.
            session.exitstatus = pytest.ExitCode.OK
        if self._uncollected and exitstatus in _RAN and not session.config.option.continue_on_collection_errors:
            # Under xdist the workers run what they did collect, and that a test failed is all that pytest says then.
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        try:
            self._matrix.end(whole=self._whole)
        except OSError as error:
            self._unwritten = error
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._matrix.begun:
            return
        records = list(read_records(self._matrix.folder))
        seconds = max(self._ended - self._began, 1e-3)
        terminalreporter.section("parity")
        for line in summarise(records):
            terminalreporter.write_line(line)
        carried = sum(1 for record in records if record.carried)
        told = f", {carried} of them carried over" if carried else ""
        pace = f"{self._pace.done / seconds:.0f} cells/s"
        terminalreporter.write_line(f"{len(records)} cells{told}: {counts(records)}; {pace}")
        folder = self._matrix.folder
        elsewhere = "" if folder.parent == Path("runs").resolve() else f" {folder}"
        terminalreporter.write_line(f"records: {folder}; pages: parity report{elsewhere}")
        if self._unwritten is not None:
            terminalreporter.write_line(f"the end of the run cannot be written: {self._unwritten}", red=True)
        if not self._whole:
            terminalreporter.write_line(f"unfinished: parity run --resume {folder} goes on")

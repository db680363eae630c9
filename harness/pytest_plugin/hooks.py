"""The hooks of a pytest that runs declarations: collects them as tests, and writes a record of every cell.

This module does not import torch; the collected files do. The controller of a distributed run never needs it.
"""

from __future__ import annotations

import gc
import os
import shlex
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pluggy
import pytest

from onnx_parity.harness import axes
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.escaping import visible_line
from onnx_parity.harness.expecting.expectations import ExpectationError
from onnx_parity.harness.project import Project, holds_declarations
from onnx_parity.harness.pytest_plugin.cell_report import CellReport, outcome_of, pack, unpack
from onnx_parity.harness.pytest_plugin.listed import ListedModule, list_to_collect, only_lists
from onnx_parity.harness.pytest_plugin.matrix import RUN_INFO, UNWRITTEN, Matrix
from onnx_parity.harness.pytest_plugin.named_modules import refuse_missing_modules
from onnx_parity.harness.pytest_plugin.options import HERE, option, option_or_setting
from onnx_parity.harness.pytest_plugin.orphaned import end_with_starter
from onnx_parity.harness.pytest_plugin.pace import Pace
from onnx_parity.harness.pytest_plugin.worker_crash import record_crash
from onnx_parity.harness.record import RunEnd, Status
from onnx_parity.harness.results.causes import Cause, causes_of
from onnx_parity.harness.results.completeness import shortcomings
from onnx_parity.harness.results.terminal_summary import (
    cells_here,
    count_reused,
    counts,
    explain_carried,
    explain_reused,
    not_here,
    summarise,
    without_kernel,
)
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.running.limits import parse_limits
from onnx_parity.harness.store import read_records

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

    from onnx_parity.harness.matrix.listing import ListedFile

#: The key under which a worker sends the message of a usage error to its controller.
_USAGE_ERROR = "parity_usage_error"

#: The project whose declarations are run, which the plug-in finds.
PROJECT: pytest.StashKey[Project] = pytest.StashKey()
#: The listings of the files that are not imported, because no cell is run.
_LISTED: pytest.StashKey[dict[Path, ListedFile]] = pytest.StashKey()
#: In a worker: the hook `pytest_runtest_logreport` without the plug-ins that print to a terminal.
_TELL_CONTROLLER: pytest.StashKey[pluggy.HookCaller] = pytest.StashKey()

#: The attribute by which pytest knows a failure whose details have been printed already.
_NOT_SHOWN = "_pdbshown"

#: Seconds between two progress lines: on a terminal, where each replaces the last one, and in a log.
_TERMINAL_EVERY, _LOG_EVERY = 0.5, 15.0


def _refuse_unusable_folder(name: str, wanted: Path) -> None:
    """Raise an error if an option names a folder that cannot be written to, before any cell runs."""
    for folder in (wanted, *wanted.parents):
        if folder.exists():
            if not folder.is_dir() or not os.access(folder, os.W_OK):
                raise RunStoreError(
                    f"--{name} {wanted} cannot be used: {folder} is not a writable folder. Choose another one."
                )
            return


def pytest_configure(config: pytest.Config) -> None:
    project = config.stash[PROJECT]
    for path in project.settings.declarations:
        # A file of declarations is its own test file, whatever its name is.
        config.addinivalue_line("python_files", f"{project.root / path}{'' if path.endswith('.py') else '/*.py'}")
    project.make_importable()
    try:
        for name in ("runs", "reuse"):
            if folder := option(config, name):
                _refuse_unusable_folder(name, folder.expanduser())
        selection = axes.read_selection(partial(option_or_setting, config, project.settings))
        refuse_missing_modules(selection, _folders_of_modules(config))
        limits = parse_limits(option(config, "stage-seconds") or "", option(config, "memory-limit") or "")
        matrix = Matrix(config, project, selection, limits)
    except (axes.AxisError, RunStoreError) as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[Matrix.KEY] = matrix
    end_with_starter()
    progress = Progress(matrix, shows_pace=option(config, "pace"))
    config.pluginmanager.register(progress, "parity-progress")
    if option(config, "on") not in (None, HERE) and not _is_worker(config):
        _run_on_cluster(config, matrix, progress.pace)


def _run_on_cluster(config: pytest.Config, matrix: Matrix, pace: Pace) -> None:
    from onnx_parity.harness.cluster.connection import ClusterError, refuse_unusable
    from onnx_parity.harness.pytest_plugin.on_cluster import OnCluster

    address = option(config, "on")
    if getattr(config.option, "dist", "no") != "no" and getattr(config.option, "tx", None):
        raise pytest.UsageError(f"--on {address} starts its own workers: give their number as --workers, not as -n.")
    if option(config, "in-process"):
        raise pytest.UsageError(f"--in-process runs cells here, --on {address} elsewhere: give one of them.")
    try:
        refuse_unusable(address)
    except ClusterError as error:
        raise pytest.UsageError(str(error)) from error
    plugin = OnCluster(
        matrix,
        pace,
        address,
        workers=option(config, "workers"),
        mixed=option(config, "mixed"),
        durations=option(config, "durations-of") if not option(config, "shard") else None,
    )
    config.pluginmanager.register(plugin, "parity-on-cluster")


def pytest_unconfigure(config: pytest.Config) -> None:
    if Matrix.KEY in config.stash:
        config.stash[Matrix.KEY].close()


def _folders_of_modules(config: pytest.Config) -> list[Path]:
    """The folders that pytest may add to the import path later: the root, and those of the collected files."""
    files = [config.invocation_params.dir / arg.partition("::")[0] for arg in config.args]
    return list(dict.fromkeys((config.rootpath, *(folder for file in files for folder in (file, *file.parents)))))


def collector_of(module: pytest.Collector, name: str, declaration: object) -> pytest.Collector | None:
    """The collector of a declaration that a module declares by this name."""
    from onnx_parity.harness.case import Declaration
    from onnx_parity.harness.cases.declarations import is_declared
    from onnx_parity.harness.pytest_plugin.items import DeclarationCollector

    if not isinstance(declaration, Declaration) or not is_declared(name, declaration, module.path):
        return None
    matrix = module.config.stash[Matrix.KEY]
    return DeclarationCollector.from_parent(module, name=name, declaration=declaration, runner=matrix)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    config = parent.config
    matrix = config.stash[Matrix.KEY]
    matrix.watch.collects(module_path.resolve())
    if not config.stash[PROJECT].is_configured or not only_lists(config):
        return None
    if _LISTED not in config.stash:
        config.stash[_LISTED] = list_to_collect(config, matrix.selection, matrix.root)
    listed = config.stash[_LISTED].get(module_path.resolve())
    if listed is None:
        return None
    module: ListedModule = ListedModule.from_parent(parent, path=module_path)
    module.listed = listed
    return None if module.has_tests else module


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    with _seed_declarations(collector):
        report = yield
    raised = getattr(getattr(report, "call", None), "excinfo", None)
    # For a mistake in a declaration, the message with the file and the line is shown, and no traceback.
    if raised is not None and isinstance(raised.value, DeclarationError):
        report.longrepr = str(raised.value)
    elif raised is not None and holds_declarations(collector.path):
        cause = raised.value.__cause__
        if isinstance(cause, ImportError | SyntaxError):
            from onnx_parity.harness.cases.declarations import explain_unread

            report.longrepr = explain_unread(collector.path, cause)
    return report


@contextmanager
def _seed_declarations(collector: pytest.Collector) -> Iterator[None]:
    """A context in which a file of declarations is imported: layers that it builds have the same weights everywhere."""
    is_module = isinstance(collector, pytest.Module) and not isinstance(collector, ListedModule)
    if not (is_module and holds_declarations(collector.path)):
        yield
        return
    from onnx_parity.harness.cases.generators import OF_DECLARATIONS, seeded

    with seeded(OF_DECLARATIONS):
        yield


@pytest.hookimpl(trylast=True)  # After `-k`, so that the shards divide the selected cells.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    matrix = config.stash[Matrix.KEY]
    try:
        if not config.option.collectonly and any(hasattr(item, "cell") for item in items):
            _refuse_unusable_folder("runs", matrix.root)
        split = matrix.split(items)
    except (ExpectationError, RunStoreError) as error:
        raise pytest.UsageError(str(error)) from error
    items[:] = split.run
    if split.left:
        config.hook.pytest_deselected(items=split.left)


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    config.stash[Matrix.KEY].store_items(session.items)
    if _is_worker(config):
        plugins = config.pluginmanager
        for_users = {plugins.get_plugin("terminalreporter"), plugins.get_plugin("parity-progress")}
        config.stash[_TELL_CONTROLLER] = plugins.subset_hook_caller("pytest_runtest_logreport", for_users)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    report = getattr(item, "report", None)
    if report is None:
        return None
    if not hasattr(nextitem, "report"):
        # Tear down fixtures of an earlier test that the next item does not use.
        item.session._setupstate.teardown_exact(nextitem)
    try:
        made = report(nextitem)
    except OSError as error:
        item.config.stash[Matrix.KEY].end_unwritten(error)
    if _is_worker(item.config):
        # Further messages for the start and the end would print nothing in the controller's terminal.
        item.config.stash[_TELL_CONTROLLER](report=made)
    else:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        item.ihook.pytest_runtest_logreport(report=made)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_report_to_serializable(config: pytest.Config, report: object) -> dict[str, Any] | None:
    # Other plug-ins, such as a log of reports, expect pytest's own form.
    return pack(report) if isinstance(report, CellReport) and _is_worker(config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_report_from_serializable(data: dict[str, Any]) -> CellReport | None:
    return unpack(data)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    if not isinstance(report, CellReport):
        return None
    category, letter, word = report.category()
    if option(config, "pace") and config.option.verbose <= 0:
        letter = ""  # The progress line counts it. The word is for the summary of failures at the end.
    return category, letter, word


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput[RUN_INFO] = msgspec.json.encode(node.config.stash[Matrix.KEY].info).decode()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    # Python's garbage collector would look again and again through all that is imported and collected, which stays: a
    # sixth of the processor time of collecting 53,000 cells.
    gc.disable()
    try:
        return (yield)
    except pytest.UsageError as error:
        # A worker's messages are not printed. Without this, a run of a cell that does not exist would end with success.
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_USAGE_ERROR] = "\n".join(map(str, error.args))
        raise
    finally:
        # What has been collected stays to the end, when pytest looks for garbage five times.
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController, error: object) -> None:
    message = getattr(node, "workeroutput", {}).get(_USAGE_ERROR)
    if message is not None:
        raise pytest.UsageError(message)
    unwritten = getattr(node, "workeroutput", {}).get(UNWRITTEN)
    if unwritten is not None:
        pytest.exit(unwritten, returncode=pytest.ExitCode.INTERNAL_ERROR)


#: pytest's exit codes after it has run all selected tests, or had none to run.
_RAN = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class Progress:
    """Prints the progress, records crashes of workers, and prints the summary, in the process with the terminal."""

    def __init__(self, matrix: Matrix, *, shows_pace: bool) -> None:
        self._matrix = matrix
        self._began = self._ended = 0.0
        self.pace = Pace()
        #: Node ids of the selected cells that have no report yet.
        self._unreported: set[str] = set()
        self._shows_pace = shows_pace
        self._terminal: pytest.TerminalReporter | None = None
        self._shown = 0.0
        #: Whether some files could not be collected.
        self._uncollected = False
        #: Whether some cells were lost with a worker before they began.
        self._lost = False
        #: None if it could not be written, for this error.
        self._end: RunEnd | None = None
        self._unwritten: OSError | None = None
        self._causes: list[Cause] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        # Under xdist the controller collects nothing; the workers send it the number.
        self._unreported.update(item.nodeid for item in session.items if hasattr(item, "cell"))
        self.pace.total = self.pace.total or len(self._unreported)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: WorkerController, ids: list[str]) -> None:
        self._terminal = node.config.pluginmanager.get_plugin("terminalreporter")
        self._unreported = {each for each in ids if ".toml::" not in each}
        self.pace.total = len(self._unreported)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._uncollected |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if isinstance(report, CellReport):
            report.print_id_as_it_is()
            self._count(report)
            self._began = self._began or report.start
            self._ended = report.stop

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        record = record_crash(crashitem, report, self._matrix)
        if record is not None:
            report.when = "call"
            report.outcome, report.longrepr = outcome_of(record, strict_unsupported=self._matrix.strict_unsupported)
            self._count(report)
        else:
            self._lost = True

    def _count(self, report: pytest.TestReport) -> None:
        now = time.monotonic()
        self._unreported.discard(report.nodeid)
        self.pace.count(now, failed=report.failed)
        if not self._shows_pace or self._terminal is None:
            return
        on_terminal = self._terminal.isatty
        last = self.pace.done == self.pace.total
        if last or now - self._shown > (_TERMINAL_EVERY if on_terminal else _LOG_EVERY):
            self._shown = now
            if on_terminal:
                self._terminal.rewrite(self.pace.line(), erase=True)
            else:
                self._terminal.write_line(self.pace.line())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if _is_worker(session.config):
            return
        why = self._why_not_whole(session, exitstatus)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._matrix.begun:
            # Every selected cell has a record, from this run or an earlier one.
            session.exitstatus = pytest.ExitCode.OK
        if self._uncollected and exitstatus in _RAN and not session.config.option.continue_on_collection_errors:
            # Under xdist the workers run what they collected, and pytest's exit code does not mention the error.
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        if not self._matrix.begun:
            return
        try:
            self._end = self._matrix.end(why, self._unreported)
        except OSError as error:
            self._unwritten = error
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        self._causes = causes_of(each for each in read_records(self._matrix.folder) if each.status is not Status.PASSED)
        if self._terminal is not None and self._terminal.verbosity <= 0:
            self._show_one_of_each(self._terminal)

    def _why_not_whole(self, session: pytest.Session, exitstatus: int) -> str:
        """Why not every selected cell was run; empty if all were."""
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            return "it was interrupted"
        if self._lost:
            return "cells were lost with a worker that died"
        if self._uncollected:
            return "a file of declarations could not be read"
        if session.shouldstop or session.shouldfail:
            return f"it ended early, {session.shouldstop or session.shouldfail}"
        return "" if exitstatus in _RAN else "pytest failed"

    def _show_one_of_each(self, terminal: pytest.TerminalReporter) -> None:
        """Print the details of a failure once for each cause, not for each cell."""
        shown = {cause.first.nodeid for cause in self._causes}
        for report in terminal.stats.get("failed", ()):
            if isinstance(report, CellReport) and report.nodeid not in shown:
                report.__dict__[_NOT_SHOWN] = True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._matrix.begun:
            return
        folder = self._matrix.folder
        records = read_records(folder)
        seconds = max(self._ended - self._began, 1e-3)
        terminalreporter.section("parity")
        if self._unwritten is not None:
            terminalreporter.write_line(
                f"the end of the run could not be written: {self._unwritten}; free space and use --resume", red=True
            )
        else:
            for line in shortcomings(folder, self._matrix.info, self._end, records.damage):
                terminalreporter.write_line(visible_line(line), red=True)
        for line in summarise(self._causes):
            terminalreporter.write_line(visible_line(line))
        carried = Counter(record.carried for record in records if record.carried)
        carried_over = f", {carried.total()} of them carried over" if carried else ""
        rate = self.pace.done / seconds
        pace = f"{rate:.0f}" if rate >= 1 else f"{rate:.1g}"
        pace += " cell/s" if pace == "1" else " cells/s"
        terminalreporter.write_line(f"{cells_here(records)}{carried_over}: {counts(records)}; {pace}")
        if self._matrix.part.since is not None:
            rerun = Counter(record.rerun for record in records if record.rerun)
            terminalreporter.write_line(visible_line(explain_carried(carried, rerun)))
        if reused := count_reused(records):
            terminalreporter.write_line(explain_reused(reused, len(records)))
        for line in (*not_here(records), without_kernel(records)):
            if line:
                terminalreporter.write_line(visible_line(line))
        elsewhere = "" if folder.parent == Path("runs").resolve() else f" {shlex.quote(str(folder))}"
        terminalreporter.write_line(f"records: {folder}; pages: parity report{elsewhere}")

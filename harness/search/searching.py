"""A search: hands numbers of programs to workers for as long as it may, and keeps what they find in a folder.

The folder has `state.json`, from which the search goes on after it was stopped, `failures.jsonl` with every failure,
and `findings/` with one finding for each cause that the ledger does not know.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from onnx_parity.harness.results.environment import package_versions
from onnx_parity.harness.running.child_process import ProcessEndedError
from onnx_parity.harness.running.worker_process import (
    LOST_FOR_GOOD,
    Answering,
    PlaceLostError,
    Start,
    start_here,
    start_ready,
)
from onnx_parity.harness.search.ledger import Finding, read_findings, slug, write
from onnx_parity.harness.search.messages import Crashed, Entered, Found, Order, Report, State

WORKER = "onnx_parity.harness.search.searcher"
#: The point of a worker that has not reported one yet.
DRAWING = "being drawn"
STATE, FAILURES, FINDINGS = "state.json", "failures.jsonl", "findings"
#: Seconds that a worker may take for its imports, on a busy machine, and for one program with its reductions.
START_SECONDS, PROGRAM_SECONDS = 300.0, 300.0
#: Seconds between two times that the state is written.
_KEPT_EVERY = 5.0


class SearchError(Exception):
    """A search that cannot begin or go on. The message has the reason."""


class _EndsError(Exception):
    """The search ends: nobody waits for what a worker would answer."""


@dataclass
class Search:
    """A search and its folder."""

    folder: Path
    state: State
    #: The causes that the ledger knows, with the names of their findings.
    ledger: dict[str, str]
    #: The causes of this search's own findings.
    new: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _flying: set[int] = field(default_factory=set)
    _kept: float = 0.0
    _next: int = 0
    #: Set when the search is interrupted or cannot go on. Then its workers are ended at once.
    _ends: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def at(cls, folder: Path, order: Order, ledger: Path) -> Search:
        """The search of a folder, which goes on if there is one of the same order."""
        if folder.exists() and not folder.is_dir():
            raise SearchError(f"{folder} is a file. A search needs a folder: give another with --out.")
        versions = package_versions()
        state = State(order, versions)
        if (folder / STATE).exists():
            try:
                state = msgspec.json.decode((folder / STATE).read_bytes(), type=State)
            except msgspec.DecodeError as error:
                raise SearchError(
                    f"{folder / STATE} cannot be read: {error}. Remove {folder}, or give another."
                ) from error
            if msgspec.structs.replace(state.order, reduced={}) != order:
                raise SearchError(
                    f"{folder} has a search of other options. Give them again, or another folder with --out."
                )
            if dict(state.versions) != versions:
                raise SearchError(
                    f"{folder} has a search with other versions of packages. Give another folder with --out."
                )
        known = {cause: name for name, finding in read_findings(ledger).items() for cause in finding.causes}
        own = {cause: name for name, finding in read_findings(folder / FINDINGS).items() for cause in finding.causes}
        return cls(folder, state, known, own, _next=state.next)

    def run(
        self, *, processes: int, seconds: float, most: int, done: Callable[[Report], None], start: Start = start_here
    ) -> None:
        """Look at programs until the time is over or there were so many. `done` is called with each report."""
        self.folder.mkdir(parents=True, exist_ok=True)
        deadline, last = time.monotonic() + seconds, self.state.next + most

        def drive() -> None:
            worker = _Worker(self._order(), start, self._ends)
            try:
                while time.monotonic() < deadline and (number := self._take(last)) is not None:
                    report = worker.look_at(number)
                    self.keep(report)
                    done(report)
            except _EndsError:
                return
            except BaseException:
                self._ends.set()
                raise
            finally:
                worker.end()

        try:
            with ThreadPoolExecutor(processes) as pool:
                futures = [pool.submit(drive) for _ in range(processes)]
                try:
                    for future in futures:
                        future.result()
                except BaseException:
                    self._ends.set()
                    raise
        finally:
            self.write_state()

    def _order(self) -> Order:
        counts: Counter[str] = Counter()
        if (self.folder / FAILURES).exists():
            for line in (self.folder / FAILURES).read_bytes().splitlines():
                counts[msgspec.json.decode(line, type=Found).rough] += 1
        return msgspec.structs.replace(self.state.order, reduced=dict(counts))

    def _take(self, last: int) -> int | None:
        with self._lock:
            if self._next >= last:
                return None
            self._flying.add(self._next)
            self._next += 1
            return self._next - 1

    def keep(self, report: Report) -> None:
        with self._lock:
            self._flying.discard(report.number)
            self.state.next = min(self._flying, default=self._next)
            self.state.totals.add(report)
            if report.refused:
                self.state.refusals[report.refused] = self.state.refusals.get(report.refused, 0) + 1
            if report.found:
                with (self.folder / FAILURES).open("ab") as file:
                    file.writelines(msgspec.json.encode(each) + b"\n" for each in report.found)
            for found in report.found:
                if found.cause:
                    self.state.causes[found.cause] = self.state.causes.get(found.cause, 0) + 1
                    self._note(found)
            if time.monotonic() - self._kept > _KEPT_EVERY:
                self.write_state()

    def _note(self, found: Found) -> None:
        """Make a cause that nobody knows a finding."""
        if found.cause in self.ledger or found.cause in self.new:
            return
        name = slug(found.cause)
        while (self.folder / FINDINGS / name).exists():
            name += "_"
        self.new[found.cause] = name
        finding = Finding(
            title=f"{found.culprit}: {found.fault}: {found.detail}"[:300],
            culprit=found.culprit,
            fault=found.fault,
            found=f"parity search --seed {self.state.order.seed}, program {found.number}, {found.point}",
            causes=(found.cause,),
            versions={name: self.state.versions[name] for name in ("torch", "onnx", "onnxruntime")},
        )
        write(self.folder / FINDINGS / name, finding, found.script)

    def write_state(self) -> None:
        self._kept = time.monotonic()
        aside = self.folder / f"{STATE}.part"
        aside.write_bytes(msgspec.json.encode(self.state))
        aside.replace(self.folder / STATE)


class _Worker:
    """A worker's process, which is started again after a crash."""

    def __init__(self, order: Order, start: Start, ends: threading.Event) -> None:
        self._order = order
        self._start_process = start
        self._ends = ends
        self._process: Answering | None = None

    def look_at(self, number: int) -> Report:
        """The report of a program. If the process dies, that is what it found, and another one reduces it."""
        answer = self._ask(number)
        if isinstance(answer, Report):
            return answer
        if answer.point == DRAWING and "exited with" in answer.detail:
            # It raised an exception where no exporter or runtime has a part. A signal would come from torch.
            raise SearchError(f"Program {number} could not be drawn, by a fault of the search itself: {answer.detail}.")
        reduced = self._ask(answer) if answer.point != DRAWING else answer
        if isinstance(reduced, Report):
            return reduced
        cause = f"crash: {answer.point}: {answer.detail}"
        text = f'"""parity search --seed {self._order.seed}, program {number}: {answer.detail} ({answer.point})"""\n'
        culprit = "torch" if answer.point == DRAWING else answer.point.partition(" ")[0]
        found = Found(number, answer.point, culprit, "crash", answer.detail, cause, cause, "", text)
        return Report(number, 0, "", True, True, {"failed": 1}, 0.0, (found,))

    def _ask(self, task: int | Crashed) -> Report | Crashed:
        """The answer to a task. If the machine of the process is lost, a process on another one is asked."""
        number, begins = (task.number, task.point) if isinstance(task, Crashed) else (task, DRAWING)
        words = ""
        for _ in range(LOST_FOR_GOOD):
            point = begins
            try:
                process = self._process = self._process or self._start()
                process.send(msgspec.json.encode(task))
                while True:
                    answer = msgspec.json.decode(process.answer(PROGRAM_SECONDS, self._look), type=Entered | Report)
                    if isinstance(answer, Report):
                        return answer
                    point = answer.point
            except ProcessEndedError as ending:
                self._process = None
                return Crashed(number, point, f"the process {ending}")
            except PlaceLostError as ending:
                self._process = None
                words = f"{LOST_FOR_GOOD} machines were lost while they ran it; the last: {ending}"
        return Crashed(number, point, words)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _start(self) -> Answering:
        order = msgspec.json.encode(self._order)
        try:
            return start_ready(self._start_process, WORKER, (), self._look, within=START_SECONDS, order=order)
        except ProcessEndedError as ending:
            raise SearchError(f"a worker did not start: it {ending}") from ending

    def _look(self) -> None:
        if self._ends.is_set():
            raise _EndsError

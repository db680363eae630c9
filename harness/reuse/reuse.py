"""`--reuse`: outcomes that earlier runs have kept, which of them are used again, and what is found out if one is wrong.

A pass, a failure and a refusal are kept alike. A crash and a hang are not, since the process ends that would keep them;
nor is what could not run here, what ended for want of memory or of a file, and what a GPU computed, whose kernels add
in another order each time. One in `SHARE` of the cells whose outcome is known is run all the same, and so are those
whose outcome is older than the run wants. The cells of a case at one dtype are drawn together: they share its program,
capture and reference, without which a cell takes several times as long. If one ends otherwise then, the hash lacks
something: that is an error of the cell, and its outcome is not used again.
"""

from __future__ import annotations

import os
import posix
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec

from onnx_parity.exporter.registry.rules import Asked
from onnx_parity.harness.axes import Device
from onnx_parity.harness.cases.installed import states
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.cases.watching import PACKAGE, state_of
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.judging.reference import Reference
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.matrix.shards import group_of
from onnx_parity.harness.record import Record, Status
from onnx_parity.harness.results.causes import name_few
from onnx_parity.harness.results.content import room_folder
from onnx_parity.harness.reuse.hashes import Grounds, hash_of_texts, noted_here
from onnx_parity.harness.reuse.process_start import process_start
from onnx_parity.harness.reuse.store import Store
from onnx_parity.harness.subjects.delivered import Delivered

__all__ = ["DAYS", "SHARE", "Kept", "Reuse"]

#: The cells of one of so many cases whose outcomes are known are run nevertheless.
SHARE = 50
#: Days after which an outcome is not used any longer, unless the run says otherwise.
DAYS = 7.0
_SECONDS_OF_DAY = 86400.0
#: Seconds between two looks at whether files have changed, before outcomes are kept: a look takes two milliseconds.
_LOOK = 1.0
#: What two outcomes of a cell have to have in common.
_COMPARED = (
    "status", "stage", "blame", "runtime", "declined", "lacks", "metrics", "aten", "onnx", "nodes", "calls", "warned",
    "reason",
)  # fmt: skip
#: What is another in each process: addresses of objects and names of temporary files.
_OF_THE_PROCESS = re.compile(r"0x[0-9a-f]+|(/\w+)*/parity-\w+")


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """An outcome in the store."""

    #: As the stages left it: what expectations make of it is found each time.
    record: Record
    #: The run in which the cell ran, and when, in seconds since 1970.
    run: str
    ran: float
    details: tuple[str, ...] = ()
    #: As `Record.depends` says, and the states of the distributions in it.
    depends: tuple[str, ...] = ()
    packages: dict[str, str] = {}
    #: The key of what was noted where it ran.
    noted: str = ""
    #: The key of the list of rules that its export has asked for, and the state of the families that have them. Where
    #: the model stands for the exporter, both are empty.
    asked: str = ""
    families: str = ""
    #: Whether the cell ended alike as often as it was run.
    is_reliable: bool = True


_decoder = msgspec.json.Decoder(Kept)


@dataclass
class Reuse:
    """The outcomes that one process of a run uses and keeps."""

    store: Store
    grounds: Grounds
    #: The id of the run, and the folder to which the names of files are relative.
    run: str
    root: Path
    days: float = DAYS
    _unwritten: list[tuple[str, Kept, Path]] = field(default_factory=list)
    _looked: float = 0.0
    _hashes: dict[str, str] = field(default_factory=dict)
    #: The state of the families now, by the keys of lists of rules.
    _states: dict[str, str] = field(default_factory=dict)
    #: The lists that this process has kept.
    _listed: set[str] = field(default_factory=set)

    def before_export(self, cell: Cell) -> Kept | None:
        """The outcome of a cell of which nothing need be run."""
        return self._to_use(cell, self.grounds.before_export(cell))

    def after_export(self, outcome: Outcome, delivered: Delivered, reference: Reference) -> bool:
        """Whether nothing more of a cell need be run, since the outcome of its model is known: the cell has it then."""
        outcome.key = self.grounds.after_export(outcome.cell, outcome.aten, delivered, reference)
        kept = self._to_use(outcome.cell, outcome.key)
        if kept is not None:
            fill_in(outcome, kept)
        return kept is not None

    def settle(self, outcome: Outcome, record: Record, depends: tuple[str, ...], again: Callable[[], Record]) -> str:
        """Keep the outcome of a cell that has run. Return what is wrong, if another one is known: empty if none is.

        `record` is what the stages left, and `again` runs the cell once more.
        """
        cell = outcome.cell
        if cell.device is not Device.CPU:
            return ""
        keys = [self.grounds.before_export(cell), *([outcome.key] if outcome.key else [])]
        known = [each for key in keys if (each := self._read(cell, key)) is not None]
        if not all(each.is_reliable for each in known):
            return ""
        found = self._as_kept(outcome, record, depends)
        asked = self._keep_list(outcome.asked)
        of_keys = [msgspec.structs.replace(found, asked=asked, families=self._states[asked]), found]
        other = next((each for each in known if _differ(each.record, record)), None)
        if other is not None and not _is_of_the_moment(outcome):
            for key, kept in zip(keys, of_keys, strict=False):
                self._keep(key, msgspec.structs.replace(kept, is_reliable=False), cell)
            return self._explain(other, record, again())
        if record.status is Status.ABSENT or _is_of_the_moment(outcome):
            return ""
        if _has_asked_the_exporter(outcome):
            del keys[1:]
        for key, kept in zip(keys, of_keys, strict=False):
            self._keep(key, kept, cell)
        return ""

    def flush(self) -> None:
        """Write what is kept, unless code was edited meanwhile: nobody knows which of it the cells have run."""
        unwritten, self._unwritten = self._unwritten, []
        if not unwritten:
            return
        if _have_changed(self._own_files):
            return
        for key, kept, file in unwritten:
            names = (each.rpartition(" ")[0] for each in kept.depends if not each.startswith(PACKAGE))
            if not _have_changed([str(file), *(os.path.join(self.root, name) for name in names)]):
                with suppress(UnicodeEncodeError):  # Names of files need not be text.
                    self.store.write(key, msgspec.json.encode(kept))

    def _to_use(self, cell: Cell, key: str) -> Kept | None:
        if cell.device is not Device.CPU or self._is_drawn(cell):
            return None
        kept = self._read(cell, key)
        if kept is None or not kept.is_reliable or time.time() - kept.ran >= self.days * _SECONDS_OF_DAY:
            return None
        return kept

    def _is_drawn(self, cell: Cell) -> bool:
        # With the run's id, so that each run draws others.
        group = group_of(cell.case.label, cell.dtype)
        return stable_seed(self.grounds.seed, "reuse", self.run, group) % SHARE == 0

    def _read(self, cell: Cell, key: str) -> Kept | None:
        """What is kept for a key, if all that it depends on is the same."""
        content = self.store.read(key)
        try:
            kept = _decoder.decode(content) if content is not None else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None  # Of another version of this file, or forged.
        if kept is None or kept.record.cell != cell.id:
            return None
        # A failure says in which line the cell is declared.
        if kept.details and kept.record.line != cell.case.declaration.line:
            return None
        if kept.asked and kept.families != self._state_of(kept.asked):
            return None
        return kept if all(map(self._is_the_same, kept.depends, [kept.packages] * len(kept.depends))) else None

    def _keep_list(self, asked: Collection[Asked]) -> str:
        """Keep a list of rules that an export has asked for. Few lists differ, of those of a case at all opsets."""
        told = sorted(f"{aspect.name} {name}" if name else aspect.name for aspect, name in asked)
        content = msgspec.json.encode(told)
        key = hash_of_texts({"asked": content.decode()})
        if key not in self._listed:
            self._listed.add(key)
            self.store.write(key, content)
            self._states[key] = self.grounds.families.state_of(told)
        return key

    def _state_of(self, key: str) -> str:
        """The state of the families that have the rules of a list; empty if the list is lost."""
        if key not in self._states:
            content = self.store.read(key)
            asked = msgspec.json.decode(content, type=list[str]) if content is not None else None
            self._states[key] = self.grounds.families.state_of(asked) if asked is not None else ""
        return self._states[key]

    def _is_the_same(self, needed: str, packages: Mapping[str, str]) -> bool:
        if needed.startswith(PACKAGE):
            name = needed.removeprefix(PACKAGE)
            return states().get(name, "") == packages.get(name, "")
        name, _, content = needed.rpartition(" ")
        if name not in self._hashes:
            self._hashes[name] = state_of(name, self.root)
        return self._hashes[name] == content

    def _as_kept(self, outcome: Outcome, record: Record, depends: tuple[str, ...]) -> Kept:
        names = (each.removeprefix(PACKAGE) for each in depends if each.startswith(PACKAGE))
        return Kept(
            record,
            record.reused or self.run,
            record.ran or record.began,
            tuple(outcome.details),
            depends,
            {name: states().get(name, "") for name in names},
            self._noted,
        )

    def _keep(self, key: str, kept: Kept, cell: Cell) -> None:
        self._unwritten.append((key, kept, cell.case.declaration.file))
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            self.flush()

    @cached_property
    def _own_files(self) -> list[str]:
        own = room_folder("harness").parent
        return [str(own / name) for name in self.grounds.code]

    @cached_property
    def _noted(self) -> str:
        noted = noted_here()
        key = hash_of_texts(noted)
        self.store.write(key, msgspec.json.encode(noted))
        return key

    def _explain(self, other: Kept, record: Record, again: Record) -> str:
        """Why the hash of an outcome is not enough, with all that is known of it."""
        kept = f"run {other.run} kept another outcome for the same hash, {_ending(other.record)}"
        told = f"{kept}; here {_ending(record)}"
        if _differ(record, again):
            return f"{told}. It is flaky: run once more, it ended otherwise here too, {_ending(again)}"
        then = msgspec.json.decode(self.store.read(other.noted) or b"{}", type=dict[str, str])
        now = noted_here()
        lacking = sorted(name for name in {**then, **now} if then.get(name) != now.get(name))
        if then and lacking:
            return f"{told}. The hash lacks what differs between the two: {name_few(lacking)}"
        return (
            f"{told}. The hash lacks something that no run notes, such as a file that is not read by Python's `open`: "
            "name it as `data` in the settings"
        )


def fill_in(outcome: Outcome, kept: Kept) -> Outcome:
    """Complete the outcome of a cell with what is kept of it."""
    outcome.take(kept.record, kept.details)
    outcome.reused, outcome.ran = kept.run, kept.ran
    return outcome


def _have_changed(files: Iterable[str]) -> bool:
    """Whether one of the files is younger than this process, which may have imported an older one."""
    for file in files:
        try:
            # Not the time of the last write, which whoever writes may choose. Not `os.stat` either, which is watched.
            if posix.stat(file).st_ctime > process_start():
                return True
        except OSError:
            continue  # What is not there has its hash, too.
    return False


def _differ(one: Record, other: Record) -> bool:
    return any(_compared(getattr(one, name)) != _compared(getattr(other, name)) for name in _COMPARED)


def _compared(value: object) -> object:
    return _OF_THE_PROCESS.sub("", value) if isinstance(value, str) else value


def _ending(record: Record) -> str:
    """`failed at compare: off by 0.5`; of a pass, how far it was from its tolerance."""
    headroom = f" with headroom {record.metrics.headroom:.17g}" if record.metrics is not None else ""
    return f"{record.status.words} at {record.stage}{headroom}" + (f": {record.reason}" if record.reason else "")


def _is_of_the_moment(outcome: Outcome) -> bool:
    """Whether the cell ended for want of memory, of a file or of a connection."""
    return outcome.raised is not None and issubclass(outcome.raised, (MemoryError, OSError))


def _has_asked_the_exporter(outcome: Outcome) -> bool:
    """Whether the exporter was a witness for the blame: then its code matters, besides the model."""
    return outcome.status is Status.FAILED and any(each.opset is not None for each in outcome.chain)

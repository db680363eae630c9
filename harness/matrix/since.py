"""`--since`: the cells that need not be run again, because nothing that they depend on changed since an earlier run.

Every cell depends on the packages that the exporter and the harness use, the machine, the seed, the harness, data that
the project names, and the exporter without the families of lowerings. A cell also depends on those families that lower
one of its operators, on its own declaration, and on the files and packages that were imported and read for it, which
its record lists. A record that does not know is not used. Cells that did not pass, and cells that an expectation
matches, are always run again. So is one group of cells in twenty, a different one each time, so that a change that
these rules miss is found within twenty runs. The other records are copied, and name the run from which they come. A
gate's policy can refuse copied records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from onnx_parity.harness.axes import PARITY
from onnx_parity.harness.cases.installed import involved, states
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.cases.watching import PACKAGE, PROGRAM, name_of, state_of, watch
from onnx_parity.harness.expecting import no_kernel, unsupported, warned
from onnx_parity.harness.expecting.expectations import FILE, file_of, load, subject_of
from onnx_parity.harness.record import Record, RunInfo, Status
from onnx_parity.harness.results.content import contents, hash_declaration, list_imported, room_folder
from onnx_parity.harness.results.environment import package_versions, platform_name
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.harness.store import read_info, read_records

if TYPE_CHECKING:
    from onnx_parity.harness.pytest_plugin.items import CellItem

#: One of this many groups of cells that need not be run again is run nevertheless.
SAMPLE = 20
_PACKAGE = "onnx_parity"


@dataclass(frozen=True)
class Since:
    """An earlier run, and the files that have changed since."""

    info: RunInfo
    #: By cell.
    records: Mapping[str, Record]
    changed: frozenset[str]
    #: The distributions that have changed.
    packages: frozenset[str] = frozenset()
    root: Path = Path()
    #: Why none of its records can be used; empty if they can.
    unusable: str = ""

    @property
    def turn(self) -> int:
        return self.info.turn + 1

    def carry(self, item: CellItem) -> Record | str:
        """The earlier record to use for the cell, or why the cell has to be run again: `mine/nets.py changed`."""
        record = self.records.get(item.cell.id)
        if record is None:
            return self.unusable or "the earlier run does not have them"
        if record.status not in (Status.PASSED, Status.UNSUPPORTED, Status.ABSENT):
            return "they did not pass"
        if record.source != source_of(item):
            return "their declarations changed"
        if changed := self.find_changed(record):
            return "they start another program" if changed == PROGRAM else f"{changed} changed"
        if new := self._strangers - {each.rpartition(" ")[0] for each in record.depends}:
            return f"{min(new)} is new"
        if self.touches(record):
            return "the exporter or the harness changed"
        if _is_expected(item):
            return "an expectation names them"
        folder = item.path.parent
        lists = (unsupported, no_kernel, warned)
        if any(each.judge_record(record, folder, item.is_in_tier) is not record for each in lists):
            return "what is refused or warned of has been edited"
        if stable_seed(0, "sample", item.group) % SAMPLE == self.turn % SAMPLE:
            return "of a sample"
        return msgspec.structs.replace(record, carried=record.carried or self.info.id, rerun="")

    def find_changed(self, record: Record) -> str:
        """A file or a package that the record's cell depends on and that is another now; empty if there is none."""
        for each in record.depends:
            name, _, content = each.rpartition(" ")
            if each.startswith(PACKAGE):
                if each.removeprefix(PACKAGE) in self.packages:
                    return each
            elif self._hash(name) != content:
                return name
        return ""

    def _hash(self, name: str) -> str:
        if name not in self._hashes:
            self._hashes[name] = state_of(name, self.root)
        return self._hashes[name]

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {}

    @cached_property
    def _strangers(self) -> frozenset[str]:
        """The files that have been imported here and that may concern any cell, such as a `conftest.py`."""
        needed = (name_of(each, self.root) for each in watch().strangers() if not each.startswith(PACKAGE))
        return frozenset(needed)

    def touches(self, record: Record) -> bool:
        """Whether a file that has changed may change the outcome of this record's cell."""
        if not self.changed:
            return False
        words = self._words
        if words is None or record.status is Status.UNSUPPORTED or not record.aten:
            return True
        if record.exporter != PARITY:
            return False
        from onnx_parity.exporter.registry.rules import Aspect, names_in_index

        lowered = {_base(each) for each in names_in_index(Aspect.LOWERING)}
        # A lowering that was removed is no word of its file any longer.
        return any(_base(each) in words or _base(each) not in lowered for each in record.aten)

    @cached_property
    def _words(self) -> frozenset[str] | None:
        """All words in the families that changed, operators' names among them; None if other files changed too."""
        if not self.changed:
            return frozenset()
        importers = _importers()
        reached: set[str] = set()
        left = list(self.changed)
        while left:
            file = left.pop()
            if file not in reached:
                reached.add(file)
                left += importers.get(file, ())
        if not reached <= _files_of_families() or any(map(_changes_what_is_recorded, reached)):
            return None
        folder = room_folder("exporter").parent
        words = {word for file in reached for word in re.findall(r"\w+", (folder / file).read_text("utf-8"))}
        return frozenset(words | _find_lowered(reached))


def _find_lowered(files: Iterable[str]) -> set[str]:
    """The operators that functions of these files lower. Not all of their names are words of the files: some are put
    together there.
    """
    # Imports torch, which those who change nothing need not wait for.
    from onnx_parity.exporter.registry.lowerings import lowered_in

    modules = {f"{_PACKAGE}.{file.removesuffix('.py').replace('/', '.')}" for file in files}
    return {_base(name) for name in lowered_in(modules)}


def since(run: Path, seed: int, subjects: Iterable[str] = (), data: Iterable[Path] = (), root: Path = Path()) -> Since:
    """The earlier run whose records may be carried over, with the files that have changed.

    `subjects` are the exporters and runtimes that are run now. Some may be a user's, with files of their own. `data`
    are the files that the project names, and `root` is the folder to which names of files are relative.
    """
    info = read_info(run)
    if info.seed != seed:
        raise RunStoreError(f"{run} was run with --seed {info.seed}: its cells had other inputs. Give that seed here.")
    now, there = contents(subjects, data), states()
    if (info.packages, info.platform) != (package_versions(info.packages), platform_name()):
        return Since(info, {}, frozenset(), unusable="the versions of packages or the machine are others")
    if not info.contents or not info.distributions:
        return Since(info, {}, frozenset(), unusable="the earlier run does not say what its cells depend on")
    packages = frozenset(
        name for name in {**there, **info.distributions} if there.get(name) != info.distributions.get(name)
    )
    if everywhere := sorted(packages & involved()):
        return Since(info, {}, frozenset(), unusable=f"{', '.join(everywhere)} changed")
    changed = frozenset(file for file in {**now, **info.contents} if now.get(file) != info.contents.get(file))
    return Since(info, {record.cell: record for record in read_records(run)}, changed, packages, root)


def source_of(item: CellItem) -> str:
    """A hash of the source that declares the cell."""
    case = item.cell.case
    return hash_declaration(case.declaration.file, case.name)


def _is_expected(item: CellItem) -> bool:
    cell = item.cell
    files = {FILE, file_of(subject_of(cell.runtime, ())), file_of(subject_of(cell.runtime, cell.transforms))}
    return any(expectation.matches(cell.id) for file in files for expectation in load(item.path.parent / file))


def _base(operator: str) -> str:
    """`aten::max.dim` as `max`."""
    return operator.rpartition("::")[2].partition(".")[0]


@cache
def _changes_what_is_recorded(file: str) -> bool:
    """Whether a file has rules by which other operators are recorded than the program calls: records do not name the
    operators that are called. Those that write in place are recorded as those that do not."""
    from onnx_parity.exporter.registry.rules import Aspect, rules_in

    named: dict[Aspect, set[str]] = {aspect: set() for aspect in Aspect}
    for aspect, names in rules_in(file.removeprefix("exporter/").removesuffix(".py").replace("/", ".")):
        named[aspect] |= {base for name in names if not (base := _base(name)).endswith("_")}
    lowered = named.pop(Aspect.LOWERING)
    if Path(file).name != "lowering.py":
        return any(named.values())
    del named[Aspect.RESULT]  # These are rules of what is recorded.
    return any(names - lowered for names in named.values())


@cache
def _importers() -> dict[str, frozenset[str]]:
    """Each file of the exporter with the files that import it."""
    folder = room_folder("exporter")
    importers: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        file = f"exporter/{path.relative_to(folder).as_posix()}"
        for module in list_imported(path):
            for imported in (f"{module}.py", f"{module}/__init__.py"):
                importers.setdefault(imported, set()).add(file)
    return {file: frozenset(each) for file, each in importers.items()}


@cache
def _files_of_families() -> frozenset[str]:
    """The files in folders below `operators/`: each contains what is known of the operators of one family."""
    folder = room_folder("exporter").parent
    return frozenset(path.relative_to(folder).as_posix() for path in folder.glob("exporter/operators/*/**/*.py"))

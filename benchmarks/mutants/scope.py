"""The cells that faults are judged by, the files that they are planted in, and which cells run which statements."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks.mutants import conditions
from benchmarks.mutants.codes import Functions, functions_below
from benchmarks.mutants.fate import import_what_cells_import
from benchmarks.mutants.reached import NotWatchedError, Ran, Reached, ran
from onnx_parity.exporter.registry.rules import all_rules
from onnx_parity.harness.axes import PARITY, Device, Selection, Tier
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.project import find_project
from onnx_parity.harness.results.content import contents, room_folder

#: Where faults are planted, and the share of them that each gets.
AREAS = {
    "exporter/operators/*": 0.5,
    "exporter/lowering/opsets/*": 0.25,
    "exporter/rewrites/*": 0.1,
    "exporter/recording/*": 0.05,
    "exporter/sizes/*": 0.05,
    "exporter/script/*": 0.05,
}
#: The same for faults under conditions: where something is lowered or rewritten.
CONDITIONAL_AREAS = {"exporter/operators/*": 0.7, "exporter/lowering/opsets/*": 0.2, "exporter/rewrites/*": 0.1}
#: The same for those that are judged by the cells of their own families.
FAMILY_AREAS = {"exporter/operators/*": 1.0}
#: Where the cases of a family are if not in the file of its name alone.
_FILES_OF = {
    "indexing": {"indexing", "assignment", "writes"}, "elementwise": {"elementwise", "arithmetic"},
    "linear_algebra": {"linear_algebra", "complex_numbers"},
}  # fmt: skip
KEPT = Path("runs/mutants")


def watched(root: Path, areas: Iterable[str]) -> dict[str, Path]:
    """The files that faults are planted in, by name."""
    paths = (path for pattern in areas for path in sorted(root.glob(pattern.replace("*", "**/*.py"))))
    return {path.relative_to(root).as_posix(): path for path in paths}


def files_of(family: str) -> Set[str]:
    """The files of declarations, by their stems, that have the cases of a family of operators."""
    return _FILES_OF.get(family, {family})


def all_families(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "exporter/operators").iterdir() if path.is_dir())


def cells(tier: Tier, only: Sequence[str], *, costly: bool = False) -> dict[Path, list[Cell]]:
    """The cells of this exporter on the CPU, by the file of their declarations, whose place matches a pattern; with all
    of costly cases if wanted."""
    found: dict[Path, list[Cell]] = {}
    selection = Selection(tier=tier, devices=(Device.CPU,), costly=costly)
    for place in find_project(Path.cwd()).declarations:
        for file in sorted(place.glob("*.py")):
            here = f"{place.name}/{file.stem}"
            # Other files are not imported: those of models import torchvision.
            if only and not any(fnmatchcase(here, pattern.rpartition("/")[0]) for pattern in only):
                continue
            for name, declaration in declared_under(file):
                if not only or any(fnmatchcase(f"{here}/{name}", pattern) for pattern in only):
                    each = [cell for cell in cells_of(name, declaration, selection) if cell.exporter == PARITY]
                    found.setdefault(file, []).extend(each)
    return found


@dataclass(frozen=True)
class Scope:
    """The cells of the default tier, and the exporter, with all modules that cells import."""

    root: Path
    by_file: Mapping[Path, Sequence[Cell]]
    cells: Mapping[str, Cell]
    functions: Functions
    #: The files that faults are planted in, by name.
    files: Mapping[str, Path]
    #: A hash of the exporter.
    depends_on: str

    @classmethod
    def of(cls, by_file: Mapping[Path, Sequence[Cell]]) -> Scope:
        root = room_folder("exporter").parent
        found = {cell.id: cell for each in by_file.values() for cell in each}
        with tempfile.TemporaryDirectory() as folder:
            few = list(found.values())[:: max(1, len(found) // 20)]
            import_what_cells_import(few, Path(folder) / "stderr")
        _ = list(all_rules())  # Imports the files of all families.
        hashes = {file: each for file, each in contents().items() if file.startswith("exporter/")}
        depends_on = digest(map(" ".join, sorted(hashes.items())))
        return cls(root, by_file, found, functions_below(root / "exporter"), watched(root, AREAS), depends_on)

    def families(self) -> frozenset[str]:
        """The families of operators that have cells here, and "" for what is of none."""
        files = {file.stem for file in self.by_file}
        return frozenset(("", *(each for each in all_families(self.root) if files_of(each) & files)))

    def reached(
        self, pool: Executor, progress: Progress, terminal: Console, *, with_conditions: bool = False
    ) -> Reached:
        """What the cells run, and, if asked for, under which conditions: as it was kept, or found out now."""
        found = Reached()
        task = progress.add_task("what the cells run", total=len(self.by_file))
        # Statements of other files take time to note, and may not be wanted.
        noted = (*self.files, Path(conditions.__file__).read_text("utf-8") if with_conditions else "")
        under_conditions = frozenset(watched(self.root, CONDITIONAL_AREAS)) if with_conditions else frozenset()
        folder_of_these = KEPT / "ran" / digest(noted)[:8]
        with tempfile.TemporaryDirectory() as folder:

            def ran_of(file: Path) -> Ran:
                kept = folder_of_these / f"{file.parent.name}.{file.stem}"
                depends_here = digest((self.depends_on, file.read_text("utf-8")))
                aside = Path(folder) / f"stderr of {kept.name}"
                try:
                    return ran(
                        self.by_file[file],
                        self.files,
                        self.functions,
                        depends_here,
                        kept,
                        aside,
                        with_conditions=under_conditions,
                    )
                except NotWatchedError as error:
                    terminal.print(f"{error}\nFaults are not judged by these cells.", markup=False)
                    return Ran(depends_here)

            for each in pool.map(ran_of, self.by_file):
                found.add(each)
                progress.advance(task)
        return found


def digest(of: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(of).encode()).hexdigest()

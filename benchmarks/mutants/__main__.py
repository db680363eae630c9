"""Plants faults in lowerings, opset forms, passes and capture, and counts which of them the matrix notices.

    python -m benchmarks.mutants --mutants 300 --only "op_cases/*/*" --search 300

First, the program of every cell is exported once to see which statements of the exporter it runs. Then each fault is
planted in a process of its own, and the cells that run its statement are run: those of the smoke tier first, until one
of them fails. What is found out is kept in `runs/mutants/`, and the same command goes on where it was stopped.

With `--conditions`, faults hold under one condition only, as most regressions do: in one dtype, at some opsets, for
negative or dynamic axes, for an empty tensor. `--family` runs no other cells than those of the fault's own family.

Each fault is printed as soon as it is judged, and survivors once more at the end, to be looked at: an equivalent mutant
is named with its reason in `benchmarks/mutants/equivalent.toml`; for any other, a case is missing.
"""

from __future__ import annotations

import gc
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.mutants.fate import Fate, Sound, in_batches, judge, spread
from benchmarks.mutants.reached import Reached
from benchmarks.mutants.scope import (
    AREAS,
    CONDITIONAL_AREAS,
    FAMILY_AREAS,
    KEPT,
    Scope,
    all_families,
    cells,
    digest,
    files_of,
)
from benchmarks.mutants.searched import found_after, programs, searcher_of
from benchmarks.mutants.shares import shown
from benchmarks.mutants.sites import Mutant, conditional_mutants_of, mutants_of
from benchmarks.mutants.unit_tests import FOLDER, Tests, noticed_by
from benchmarks.mutants.unit_tests import tests as tests_of
from onnx_parity.harness.axes import Tier
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.project import find_project
from onnx_parity.harness.results.content import contents, room_folder

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


def drawn(
    root: Path,
    number: int,
    seed: int,
    statements: Collection[str],
    areas: Mapping[str, float] = AREAS,
    *,
    conditions: bool = False,
    families: Collection[str] | None = None,
) -> list[Mutant]:
    """A sample of the faults in statements that some cell runs, so many of each area. With `conditions`, they hold
    under conditions that are met there, and there are as many of each condition; `families` says in which lowerings.

    Each has a place of its own in the order, so that a larger sample contains the smaller one of the same seed, and new
    cases and faults change little of a sample.
    """

    def order(mutant: Mutant) -> str:
        return digest((str(seed), mutant.key))

    chosen: list[Mutant] = []
    faults_of = conditional_mutants_of if conditions else mutants_of
    for pattern, share in areas.items():
        found = [
            mutant
            for path in sorted(root.glob(pattern.replace("*", "**/*.py")))
            for mutant in faults_of(path, path.relative_to(root).as_posix())
            if mutant.place in statements and (families is None or mutant.family in families)
        ]
        found.sort(key=order)
        if conditions:
            found = _in_turns(
                _in_turns(found, lambda mutant: (mutant.condition, mutant.kind)), lambda mutant: mutant.condition
            )
        chosen += found[: max(1, round(share * number))]
    return sorted(chosen, key=order)


def _in_turns(mutants: Iterable[Mutant], group: Callable[[Mutant], object]) -> list[Mutant]:
    """The first fault of each group, then the second of each."""
    turns, placed = Counter[object](), []
    for mutant in mutants:
        placed.append((turns[group(mutant)], mutant))
        turns[group(mutant)] += 1
    return [mutant for _, mutant in sorted(placed, key=lambda each: each[0])]


def main(
    mutants: Annotated[int, typer.Option(min=1, help="How many faults are planted.")] = 300,
    seed: Annotated[int, typer.Option(help="The seed by which they are drawn.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option(help="Only these declarations, as FOLDER/FILE/NAME with * and ?.")
    ] = None,
    conditions: Annotated[
        bool, typer.Option("--conditions", help="Faults that hold under one condition only.")
    ] = False,
    family: Annotated[bool, typer.Option("--family", help="Only the cells of each fault's own family.")] = False,
    most: Annotated[int, typer.Option(min=1, help="Cells of a tier that are run for one fault.")] = 200,
    seconds: Annotated[float, typer.Option(min=0, help="Processor time of a tier's cells for one fault.")] = 60,
    search: Annotated[float, typer.Option(min=0, help="Also search for each fault, for so many seconds.")] = 0,
    tests: Annotated[bool, typer.Option("--tests", help="Also run unit tests for what no cell notices.")] = False,
    processes: Annotated[int, typer.Option("-n", min=1, help="Processes at a time.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Every fault, as JSON.")] = False,
) -> None:
    """Plant faults in the exporter and count which of them the matrix notices.

    `--family` needs `--conditions`.

    Exit codes: 0 all targets are met; 1 one is not; 2 used wrongly.
    """
    terminal = Console(stderr=True)
    if family and not conditions:
        terminal.print("--family counts faults of --conditions: give both")
        raise typer.Exit(2)
    if family and not only:
        families_of_all = all_families(room_folder("exporter").parent)
        only = sorted({f"*/{file}/*" for each in families_of_all for file in files_of(each)})
    by_file = cells(Tier.DEFAULT, only or ())
    if not by_file:
        terminal.print(f"no declaration matches {', '.join(only or ())}")
        raise typer.Exit(2)
    areas = FAMILY_AREAS if family else CONDITIONAL_AREAS if conditions else AREAS
    scope = Scope.of(by_file)
    smoke = {cell.id for each in cells(Tier.SMOKE, only or ()).values() for cell in each}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=terminal, transient=True) as progress,
        tempfile.TemporaryDirectory() as folder,
        # Every thread waits for a process of its own.
        ThreadPoolExecutor(processes) as pool,
    ):
        reached = scope.reached(pool, progress, terminal, with_conditions=conditions)
        # A collection of garbage would write to all of these objects, and so copy them for every fault's process.
        gc.collect()
        gc.freeze()
        # A fault of another family has no cells of its own here.
        families = scope.families() if only and conditions else None
        chosen = drawn(scope.root, mutants, seed, reached.statements, areas, conditions=conditions, families=families)
        judged = _Judge(scope, smoke, reached, (most, seconds), Path(folder), only_family=family)
        if tests:
            progress.add_task("what the unit tests run", total=None)
            judged.prepare_tests()
        if search:
            progress.add_task("the programs of a search", total=None)
            judged.prepare_search(search)
        task = progress.add_task("faults", total=len(chosen))
        fates = []
        try:
            for mutant, fate in zip(chosen, pool.map(judged.of, chosen), strict=True):
                fates.append((mutant, fate))
                terminal.print(
                    f"{len(fates)} of {len(chosen)} {fate.became}: {mutant}",
                    markup=False,
                    highlight=False,
                    soft_wrap=True,
                )
                progress.advance(task)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            judged.end()
    if as_json:
        typer.echo(msgspec.json.encode([fate for _, fate in fates]))
    reasons = tomllib.loads(EQUIVALENT.read_text("utf-8")) if EQUIVALENT.exists() else {}
    met = shown(fates, reasons, reached, scope.cells, Console(stderr=as_json), searching=search > 0, only_family=family)
    raise typer.Exit(0 if met else 1)


class _Judge:
    """Finds out what becomes of faults, and keeps it."""

    def __init__(
        self,
        scope: Scope,
        smoke: Collection[str],
        reached: Reached,
        most: tuple[int, float],
        folder: Path,
        *,
        only_family: bool = False,
    ) -> None:
        self._scope, self._smoke, self._reached, self._most, self._folder = scope, smoke, reached, most, folder
        self._only_family = only_family
        self._sound = Sound(
            list(scope.cells.values()), folder / "stderr of a sound process", KEPT / "models", scope.depends_on
        )
        self._lock = threading.Lock()
        self._kept = KEPT / ("of_families.jsonl" if only_family else "fates.jsonl")
        self._known = self._read()
        self._declared = digest(file.read_text("utf-8") for file in sorted(scope.by_file))
        self._seconds, self._search_depends_on = 0.0, ""
        self._tests: Tests | None = None

    def end(self) -> None:
        self._sound.end()

    def prepare_tests(self) -> None:
        texts = (path.read_text("utf-8") for path in sorted(Path(FOLDER).rglob("*.py")))
        depends_on = digest((self._scope.depends_on, *texts))
        aside = self._folder / "stderr of the unit tests"
        self._tests = tests_of(self._scope.files, self._scope.functions, depends_on, KEPT / "tests", aside)

    def prepare_search(self, seconds: float) -> None:
        self._seconds = seconds
        self._searcher = searcher_of([str(place) for place in find_project(Path.cwd()).declarations])
        searched = {name: each for name, each in contents().items() if name.startswith("harness/search")}
        depends_on = self._search_depends_on = digest(
            (self._scope.depends_on, *map(" ".join, sorted(searched.items())))
        )
        kept = KEPT / "search"
        aside = self._folder / "stderr of a search"
        self._programs = programs(
            self._searcher, seconds, self._scope.files, self._scope.functions, depends_on, kept, aside
        )

    def of(self, mutant: Mutant) -> Fate:
        """What becomes of a fault: as it was kept, if nothing has changed, or found out now."""
        path, ids = self._scope.root / mutant.file, self._reached.touched(mutant.place)
        aside = self._folder / f"stderr of {threading.get_ident()}"
        fate = self._known.get(mutant.key)
        is_noticed = fate is not None and fate.tier and fate.by_family != ""
        if fate is None or not (is_noticed or fate.declared == self._declared):
            fate = self._by_cells(mutant, path, ids, aside)
            self._keep(fate)
        if self._tests is not None and not (fate.test or fate.not_planted or fate.tier):
            own = self._tests.reaching(mutant.place)
            test = noticed_by(mutant, path, self._scope.functions, own, aside)
            fate = msgspec.structs.replace(fate, test=test)
            self._keep(fate)
        is_known = fate.search_depends_on == self._search_depends_on and (
            fate.search >= self._seconds or fate.searched is not None
        )
        if self._seconds and not fate.not_planted and not is_known:
            reaching = self._programs.reaching(mutant.place, self._seconds)
            found = found_after(mutant, path, self._scope.functions, self._searcher, reaching, aside)
            fate = msgspec.structs.replace(
                fate, searched=found, search=self._seconds, search_depends_on=self._search_depends_on
            )
            self._keep(fate)
        return fate

    def _by_cells(self, mutant: Mutant, path: Path, ids: Sequence[str], aside: Path) -> Fate:
        """What becomes of a fault if cells are run. Of one under a condition, those of its own family come first, and
        further ones only if they say more: which tier notices it."""
        own, others = list(ids), list[str]()
        by_family = None
        if mutant.family and mutant.condition is not None:
            own = [each for each in ids if self._scope.cells[each].case.family in files_of(mutant.family)]
            others = [] if self._only_family else [each for each in ids if each not in set(own)]
        tiers = (Tier.SMOKE, Tier.DEFAULT)
        fate = self._judged(mutant, path, own, tiers, aside)
        if mutant.family and mutant.condition is not None:
            by_family = fate.notice.cell if fate.notice else ""
        if others and fate.tier != Tier.SMOKE and not fate.not_planted:
            further = self._judged(mutant, path, others, tiers[:1] if fate.tier else tiers, aside)
            fate = msgspec.structs.replace(
                further if further.tier else fate,
                ran=fate.ran + further.ran,
                differed=fate.differed + further.differed,
                seconds=fate.seconds + further.seconds,
            )
        return msgspec.structs.replace(
            fate,
            depends_on=self._scope.depends_on,
            declared=self._declared,
            touched=len(ids),
            by_family=by_family,
        )

    def _judged(self, mutant: Mutant, path: Path, ids: Sequence[str], tiers: Sequence[Tier], aside: Path) -> Fate:
        few = [
            (tier.value, self._few(each for each in ids if (each in self._smoke) is (tier is Tier.SMOKE)))
            for tier in tiers
        ]
        return judge(mutant, path, self._scope.functions, few, self._sound, aside, self._most[1])

    def _few(self, ids: Iterable[str]) -> list[Cell]:
        """Those of the cells that are run for a fault, in their order."""
        return in_batches(spread(self._scope.cells[each] for each in ids)[: self._most[0]])

    def _keep(self, fate: Fate) -> None:
        with self._lock, self._kept.open("ab") as file:
            file.write(msgspec.json.encode(fate) + b"\n")

    def _read(self) -> dict[str, Fate]:
        """What is kept; of each fault the last line."""
        if not self._kept.exists():
            return {}
        lines = self._kept.read_bytes().splitlines()
        found = (msgspec.json.decode(line, type=Fate) for line in lines)
        return {fate.mutant: fate for fate in found if fate.depends_on == self._scope.depends_on}


if __name__ == "__main__":
    typer.run(main)

"""What became of many faults: the survivors, and the shares that are noticed, blamed and located."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.mutants.fate import Fate, Notice
from benchmarks.mutants.reached import Reached
from benchmarks.mutants.sites import Mutant
from onnx_parity.exporter.registry.lowerings import lowered_in
from onnx_parity.harness.axes import Tier
from onnx_parity.harness.judging.outcome import blank_record
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.matrix.since import Since
from onnx_parity.harness.record import Blame, Record, RunInfo, Status
from onnx_parity.harness.results.content import room_folder
from onnx_parity.harness.results.environment import describe_run

#: What must hold of the faults that are not equivalent.
DEFAULT_KILLS, SMOKE_KILLS, FAMILY_KILLS, BLAMED, LOCALISED, SEARCHED = 0.97, 0.9, 0.9, 0.97, 0.9, 0.85


def shown(
    fates: Sequence[tuple[Mutant, Fate]],
    equivalent: Mapping[str, str],
    reached: Reached,
    everything: Mapping[str, Cell],
    terminal: Console,
    *,
    searching: bool,
    only_family: bool = False,
) -> bool:
    """Print the survivors and the figures; whether all targets are met. If only cells of own families ran, there is one
    figure."""
    planted = [(mutant, fate) for mutant, fate in fates if not fate.not_planted]
    # A condition may hold where the fault makes no difference.
    changing = [(mutant, fate) for mutant, fate in planted if fate.tier or fate.differed or not fate.condition]
    telling = [(mutant, fate) for mutant, fate in changing if not is_named(fate, equivalent)]
    for mutant, fate in telling:
        if not fate.tier:
            differ = f"{fate.differed} of whose models are other ones"
            by = f", noticed by {fate.test}" if fate.test else ""
            terminal.print(f"survived {fate.ran} cells, {differ}{by}: {mutant}", markup=False, soft_wrap=True)
    for mutant, fate in planted:
        if fate.tier and is_named(fate, equivalent):
            terminal.print(f"noticed, and so not equivalent: {mutant}", markup=False, soft_wrap=True)
    noticed = [(mutant, fate.notice) for mutant, fate in telling if fate.notice is not None]
    # A program that is refused has no result that could be judged, and one that ends the process no stage.
    judged = [(mutant, notice) for mutant, notice in noticed if notice.status == Status.FAILED]
    named = [(mutant, notice) for mutant, notice in judged if "exporter/operators/" in mutant.file]
    for mutant, notice in judged:
        if notice.blame != Blame.EXPORTER:
            terminal.print(f"blamed on {notice.blame} by {notice.cell}: {mutant}", markup=False, soft_wrap=True)
    for mutant, notice in named:
        if not is_located(mutant, notice):
            place = notice.operator or "no operator"
            terminal.print(f"located at {place} by {notice.cell}: {mutant}", markup=False, soft_wrap=True)
    for condition, number in Counter(fate.condition for _, fate in telling if fate.condition).most_common():
        survived = sum(not fate.tier for _, fate in telling if fate.condition == condition)
        terminal.print(f"  {number:4} {condition}, {survived} of them survive", highlight=False)
    for kind, number in Counter(fate.kind for _, fate in telling).most_common():
        survived = sum(not fate.tier for _, fate in telling if fate.kind == kind)
        terminal.print(f"  {number:4} {kind}, {survived} of them survive", highlight=False)
    since = _Reruns(everything)
    by_cells = sum(bool(fate.tier) for _, fate in telling)
    by_tests = sum(bool(fate.test) for _, fate in telling)
    missed = [mutant for mutant, _ in telling if not since.miss_none(mutant, reached)]
    for mutant in missed:
        terminal.print(f"--since misses cells that run it: {mutant}", markup=False, soft_wrap=True)
    figures = [
        (
            f"noticed by the tests: {by_cells} by cells of the default tier, {by_tests} by unit tests alone",
            by_cells + by_tests,
            len(telling),
            DEFAULT_KILLS,
        ),
        ("noticed by the smoke tier", sum(fate.tier == Tier.SMOKE for _, fate in telling), len(telling), SMOKE_KILLS),
        ("blamed on the exporter", sum(each.blame == Blame.EXPORTER for _, each in judged), len(judged), BLAMED),
        ("located at the operator", sum(is_located(*each) for each in named), len(named), LOCALISED),
        (
            "all of whose cells --since runs again",
            len(telling) - len(missed),
            len(telling),
            1.0,
        ),
    ]
    of_families = [fate for _, fate in telling if fate.by_family is not None]
    if of_families:
        by_family = sum(bool(fate.by_family) for fate in of_families)
        own = ("noticed by cells of their own family", by_family, len(of_families), FAMILY_KILLS)
        figures = [own] if only_family else [*figures, own]
    if searching:
        found = sum(fate.searched is not None for _, fate in telling)
        figures.append(("found by search alone", found, len(telling), SEARCHED))
    terminal.print(
        f"{len(fates)} faults, {len(fates) - len(planted)} not planted, {len(planted) - len(changing)} of which change "
        f"no model of a cell that ran, {len(changing) - len(telling)} equivalent; "
        f"{sum(fate.seconds for _, fate in planted):.0f} s of processor time for their cells"
    )
    for what, number, of, least in figures:
        share = number / of if of else 1.0
        low, high = interval(number, of)
        word = "ok   " if share >= least else "short"
        of_all = f"{number} of {of}, {low:.0%} to {high:.0%} of all; at least {least:.0%}"
        terminal.print(f"{word}  {share:6.1%} {what} ({of_all})", highlight=False, soft_wrap=True)
    # Shares of nothing are met, which says nothing.
    return bool(telling) and all(number >= least * of for _, number, of, least in figures)


def is_named(fate: Fate, equivalent: Collection[str]) -> bool:
    """Whether a fault is among those that no input can show: it, or the same fault without its condition."""
    return fate.mutant in equivalent or fate.mutant.removesuffix(f", {fate.condition}") in equivalent


#: With this probability a share of all faults is within the interval of its sample: so many standard deviations.
_DEVIATIONS = 1.96


def interval(number: int, of: int) -> tuple[float, float]:
    """Within which bounds a share of all is with 95 %, of which a sample has `number` (Wilson's interval)."""
    if not of:
        return 0.0, 1.0
    share, squared = number / of, _DEVIATIONS**2
    centre = (share + squared / (2 * of)) / (1 + squared / of)
    half = _DEVIATIONS / (1 + squared / of) * math.sqrt(share * (1 - share) / of + squared / (4 * of * of))
    return max(0.0, centre - half), min(1.0, centre + half)


def is_located(mutant: Mutant, notice: Notice) -> bool:
    """Whether the operator that was named is one whose lowering has the fault: it is in the file, or in a file of
    lowerings that imports it, as those of several decompositions import `jacobi.py`.
    """
    modules = {f"onnx_parity.{each.removesuffix('.py').replace('/', '.')}" for each in users_of(mutant.file)}
    return notice.operator in {name.partition(".")[0] for name in lowered_in(modules)}


@cache
def users_of(file: str) -> frozenset[str]:
    """The file, and the files of lowerings that import it, or import one that does."""
    folder = room_folder("exporter").parent
    sources = {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in (folder / "exporter/operators").rglob("*.py")
    }
    found, left = {file}, [file]
    while left:
        module = left.pop().removesuffix(".py").replace("/", ".")
        imported = re.compile(rf"\b{re.escape(module)} import\b")
        new = {name for name, source in sources.items() if name not in found and imported.search(source)}
        found |= new
        left += new
    return frozenset(found)


class _Reruns:
    """Which cells `--since` runs again after a change of a fault's file."""

    def __init__(self, everything: Mapping[str, Cell]) -> None:
        self._everything = everything
        self._run: RunInfo = describe_run(seed=0, tier=Tier.DEFAULT, argv=[], project=Path.cwd())
        self._by_file: dict[str, Since] = {}

    def miss_none(self, mutant: Mutant, reached: Reached) -> bool:
        """Whether every cell that runs the fault's statement is run again: no cell that notices it can be missed."""
        if mutant.file not in self._by_file:
            self._by_file[mutant.file] = Since(self._run, {}, frozenset({mutant.file}))
        since = self._by_file[mutant.file]
        programs = {reached.operators[cell]: cell for cell in reached.touched(mutant.place)}
        return all(since.touches(self._passed(cell, operators)) for operators, cell in programs.items())

    def _passed(self, cell: str, operators: tuple[str, ...]) -> Record:
        record = blank_record(self._everything[cell], "", "", worker="")
        return msgspec.structs.replace(record, status=Status.PASSED, aten=operators)

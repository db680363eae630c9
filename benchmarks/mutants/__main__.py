"""Plants faults in lowerings, opset forms, passes and capture, and counts which of them the matrix notices.

    python -m benchmarks.mutants --mutants 300 --only "op_cases/*" -n 2

First, every cell is run once to see which functions of the exporter it runs; that is kept in `runs/reached.json` until
a file of the exporter changes. Then each fault is planted in a process of its own, and the cells that run its function
are run: those of the smoke tier first, until one of them fails. Survivors are printed, to be looked at: an equivalent
mutant is named with its reason in `benchmarks/mutants/equivalent.toml`; for any other, a case is missing.
"""

from __future__ import annotations

import random
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import FunctionType
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from benchmarks.mutants.reached import Reached, survey
from benchmarks.mutants.sites import Mutant, mutants_of
from benchmarks.mutants.trial import Trial, judge, searched, spread
from onnx_parity.exporter.lowering import families  # noqa: F401  (all lowerings have to exist before faults are planted)
from onnx_parity.exporter.lowering.registry import find, operators_named
from onnx_parity.harness.axes import PARITY, Device, Selection, Tier
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.judging.outcome import blank_record
from onnx_parity.harness.matrix.cells import Cell, cells_of
from onnx_parity.harness.matrix.since import Since
from onnx_parity.harness.project import find_project
from onnx_parity.harness.record import Blame, Status
from onnx_parity.harness.results.content import contents, room_folder
from onnx_parity.harness.results.environment import describe_run

#: Where faults are planted, and the share of them that each gets.
AREAS = {
    "exporter/lowering/aten/*": 0.45,
    "exporter/lowering/opsets/*": 0.25,
    "exporter/passes/*": 0.1,
    "exporter/capture/*": 0.2,
}
#: What must hold of the faults that are not equivalent.
DEFAULT_KILLS, SMOKE_KILLS, BLAMED, LOCALISED, SEARCHED = 0.97, 0.9, 0.97, 0.9, 0.85
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
KEPT = Path("runs/reached.json")


def drawn(root: Path, number: int, seed: int, functions: set[str]) -> list[Mutant]:
    """A sample of the faults in functions that some cell runs, so many of each area."""
    generator = random.Random(seed)
    chosen: list[Mutant] = []
    for pattern, share in AREAS.items():
        found = [
            mutant
            for path in sorted(root.glob(pattern.replace("*", "**/*.py")))
            for mutant in mutants_of(path, path.relative_to(root).as_posix())
            if f"{mutant.file}:{mutant.function}" in functions
        ]
        chosen += generator.sample(found, min(len(found), max(1, round(share * number))))
    return chosen


def cells(tier: Tier, only: Sequence[str]) -> list[Cell]:
    """The cells of this exporter on the CPU, of the declarations whose place matches a pattern."""
    found = []
    for place in find_project(Path.cwd()).declarations:
        for name, declaration in declared_under(place):
            where = f"{place.name}/{declaration.file.stem}/{name}"
            if not only or any(fnmatchcase(where, pattern) for pattern in only):
                selection = Selection(tier=tier, devices=(Device.CPU,))
                found += list(cells_of(name, declaration, selection))
    return [cell for cell in found if cell.exporter == PARITY]


def main(
    mutants: Annotated[int, typer.Option(min=1, help="How many faults are planted.")] = 300,
    seed: Annotated[int, typer.Option(help="The seed by which they are drawn.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option(help="Only these declarations, as FOLDER/FILE/NAME with * and ?.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Cells of a tier that are run for one fault.")] = 400,
    search: Annotated[float, typer.Option(min=0, help="Also search for each fault, for so many seconds.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Every fault, as JSON.")] = False,
) -> None:
    """Plant faults in the exporter and count which of them the matrix notices.

    Exit codes: 0 all targets are met; 1 one is not; 2 used wrongly.
    """
    terminal, root = Console(stderr=True), room_folder("exporter").parent
    tiers = {tier: cells(tier, only or ()) for tier in (Tier.SMOKE, Tier.DEFAULT)}
    if not tiers[Tier.DEFAULT]:
        terminal.print(f"no declaration matches {', '.join(only or ())}")
        raise typer.Exit(2)
    everything = {cell.id: cell for cell in (*tiers[Tier.SMOKE], *tiers[Tier.DEFAULT])}
    with Progress(console=terminal, transient=True) as progress:
        reached = _reached(list(everything.values()), root, progress)
        functions = {each for names in reached.cells.values() for each in names}
        chosen = drawn(root, mutants, seed, functions)
        shown = progress.add_task("faults", total=len(chosen))
        trials = []
        smoke = {cell.id for cell in tiers[Tier.SMOKE]}
        with tempfile.TemporaryDirectory(prefix="parity-") as aside:
            for mutant in chosen:
                ids = reached.touched(mutant.file, mutant.function)
                in_tiers = [
                    (
                        tier.value,
                        spread(everything[each] for each in ids if (each in smoke) is (tier is Tier.SMOKE))[:most],
                    )
                    for tier in (Tier.SMOKE, Tier.DEFAULT)
                ]
                trial = judge(mutant, root / mutant.file, in_tiers, Path(aside) / "stderr")
                if search and not trial.not_planted:
                    places = [str(place) for place in find_project(Path.cwd()).declarations]
                    after = searched(mutant, root / mutant.file, places, search, Path(aside) / "stderr")
                    trial = msgspec.structs.replace(trial, searched=after)
                trials.append((mutant, trial))
                progress.advance(shown)
    if as_json:
        typer.echo(msgspec.json.encode([trial for _, trial in trials]))
    raise typer.Exit(0 if _print(trials, everything, reached, Console(stderr=as_json), searching=search > 0) else 1)


def _reached(all_cells: list[Cell], root: Path, progress: Progress) -> Reached:
    """What the cells run: as it was kept, if no file of the exporter has changed and no cell is new."""
    hashes = {file: each for file, each in contents().items() if file.startswith("exporter/")}
    if KEPT.exists():
        kept = msgspec.json.decode(KEPT.read_bytes(), type=Reached)
        if kept.contents == hashes and {cell.id for cell in all_cells} <= set(kept.cells):
            return kept
    task = progress.add_task("what the cells run", total=len(all_cells))
    found = survey(all_cells, root, hashes, lambda: progress.advance(task))
    # Cells that do not pass are kept too: they run nothing that could be noticed.
    found.cells.update({cell.id: [] for cell in all_cells if cell.id not in found.cells})
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_bytes(msgspec.json.encode(found))
    return found


def _print(
    trials: Sequence[tuple[Mutant, Trial]],
    everything: Mapping[str, Cell],
    reached: Reached,
    terminal: Console,
    *,
    searching: bool,
) -> bool:
    """Print the survivors and the figures; whether all targets are met."""
    reasons = tomllib.loads(EQUIVALENT.read_text("utf-8")) if EQUIVALENT.exists() else {}
    planted = [(mutant, trial) for mutant, trial in trials if not trial.not_planted]
    telling = [(mutant, trial) for mutant, trial in planted if trial.mutant not in reasons]
    for mutant, trial in telling:
        if not trial.tier:
            terminal.print(f"survived {trial.ran} cells: {mutant}", markup=False, soft_wrap=True)
    noticed = [(mutant, trial, trial.notice) for mutant, trial in telling if trial.notice is not None]
    failed = [each for each in noticed if each[2].status == "failed"]
    judged = [
        each
        for each in failed
        if each[2].stage in ("compare", "load", "run", "check", "export", "rerun_sizes", "rerun_values")
    ]
    named = [each for each in judged if "lowering/aten" in each[0].file]
    for kind, number in Counter(trial.kind for _, trial in planted).most_common():
        survived = sum(not trial.tier for _, trial in telling if trial.kind == kind)
        terminal.print(f"  {number:4} {kind}, {survived} of them survive", highlight=False)
    # Shares of nothing are met, which says nothing.
    met = bool(telling)
    figures = [
        ("noticed by the default tier", sum(bool(trial.tier) for _, trial in telling), len(telling), DEFAULT_KILLS),
        ("noticed by the smoke tier", sum(trial.tier == Tier.SMOKE for _, trial in telling), len(telling), SMOKE_KILLS),
        ("blamed on the exporter", sum(n.blame == Blame.EXPORTER for _, _, n in judged), len(judged), BLAMED),
        ("located at the operator", sum(_is_located(m, n.operator) for m, _, n in named), len(named), LOCALISED),
        ("rerun by --since", sum(_reruns(m, everything[n.cell], reached) for m, _, n in noticed), len(noticed), 1.0),
    ]
    if searching:
        found = sum(trial.searched is not None for _, trial in telling)
        figures.append(("found by search alone", found, len(telling), SEARCHED))
    terminal.print(
        f"{len(trials)} faults, {len(trials) - len(planted)} not planted, {len(planted) - len(telling)} equivalent"
    )
    for what, number, of, least in figures:
        share = number / of if of else 1.0
        met = met and share >= least
        terminal.print(
            f"{'ok   ' if share >= least else 'short'}  {share:6.1%} {what} ({number} of {of}; at least {least:.0%})",
            highlight=False,
        )
    return met


def _is_located(mutant: Mutant, operator: str) -> bool:
    """Whether the operator that was named is one that the fault's file lowers."""
    functions = (find(each, 18) for each in operators_named(operator)) if operator else ()
    files = (function.__code__.co_filename for function in functions if isinstance(function, FunctionType))
    return any(file.endswith(mutant.file) for file in files)


def _reruns(mutant: Mutant, cell: Cell, reached: Reached) -> bool:
    """Whether `--since` runs the cell that noticed the fault again after a change of the fault's file."""
    passed = msgspec.structs.replace(
        blank_record(cell, "", "", worker=""), status=Status.PASSED, aten=reached.aten.get(cell.id, ())
    )
    run = describe_run(seed=0, tier=Tier.DEFAULT, argv=[], project=Path.cwd())
    return Since(run, {cell.id: passed}, frozenset({mutant.file})).touches(passed)


if __name__ == "__main__":
    typer.run(main)

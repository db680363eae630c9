"""Installs the old release of each defect, and says whether the project notices the defect there.

python -m benchmarks.real_defects --only "*average_pool*"

The reporter's program is run first, with the old release and with the next one: where it does not tell them apart, the
defect does not count. Then cells of the operator are run with both, and, for a runtime, the cases of
the operator in `op_cases/onnx/`. What fails with the old release alone notices the defect. A cell has to blame the
culprit and to have the operator; a case is a model of this operator alone, which the runtime alone can get wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from packaging.version import Version

from benchmarks.options import choose
from benchmarks.real_defects.defect import Defect, read_defects
from benchmarks.real_defects.looking import RUNTIMES, failing_cases, has_operator, is_of, wrong_cells
from onnx_parity.harness.bisecting.environments import Environments, cache_folder
from onnx_parity.harness.record import Blame, Record, Stage

__all__ = ["Found", "judge"]

_ROOT = Path(__file__).parents[2]
#: The stages that end a cell whose model runs, and is wrong.
_SILENT = (Stage.COMPARE, Stage.RERUN_SIZES, Stage.RERUN_VALUES)


@dataclass(frozen=True, slots=True)
class Found:
    """What the project makes of a defect: what fails with the old release alone."""

    #: Cells, those of them that blame the culprit, and those of these with the operator.
    cells: int
    blamed: int
    located: int
    #: Cases of the operator.
    cases: int = 0
    #: One of them.
    example: str = ""

    @property
    def is_noticed(self) -> bool:
        return bool(self.cells or self.cases)

    @property
    def is_blamed(self) -> bool:
        return bool(self.located or self.cases)

    @property
    def words(self) -> str:
        if not self.is_noticed:
            return "not noticed"
        cells = f"{self.cells} cells, {self.blamed} blame the culprit, {self.located} have the operator"
        return f"noticed by {cells}; {self.cases} cases of the operator ({self.example})"


def python_with(environments: Environments, distribution: str, version: str) -> str:
    """The Python of an environment with this release."""
    environment = environments.of(distribution, Version(version))
    if environment.unusable:
        raise RuntimeError(f"{distribution} {version} cannot be used here: {environment.unusable}")
    return environment.python


def shown(defects: Iterable[Defect], python: str) -> Mapping[str, str]:
    """What each program shows in an environment."""
    left, found = [each.name for each in defects], dict[str, str]()
    while left:
        words = [python, "-m", "benchmarks.real_defects.child", "shows", *left]
        done = subprocess.run(words, cwd=_ROOT, capture_output=True, check=False, text=True)
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                found |= json.loads(line)
        left = [name for name in left if name not in found]
        # A program that ends the process shows what it is to show; those after it are run in another one.
        found |= dict.fromkeys(left[:1], "it ended the process")
        left = left[1:]
    return found


def judge(
    defect: Defect, old: Mapping[str, Record], new: Mapping[str, Record], cases: Sequence[str] = (), *, silent: bool
) -> Found:
    """What fails with the old release alone, in the way of the defect: by a wrong result if it is silent."""
    noticed = [
        record
        for cell, record in old.items()
        if cell not in new and is_of(defect, record) and (record.stage in _SILENT) is silent
    ]
    blamed = [record for record in noticed if _blames(record, defect.culprit)]
    located = [record for record in blamed if has_operator(record, defect.operator)]
    example = next(iter([*(record.cell for record in located), *cases]), "")
    return Found(len(noticed), len(blamed), len(located), len(cases), example)


def _releases(defect: Defect) -> tuple[str, str, str]:
    return defect.distribution, defect.broken, defect.mended or ""


def _blames(record: Record, culprit: str) -> bool:
    if record.blame is Blame.EXPORTER:
        return record.exporter == culprit
    return record.blame is Blame.RUNTIME and record.runtime == culprit


def look(
    defects: Sequence[Defect], python: str, mended: str, silent: Collection[str]
) -> Iterable[tuple[Defect, Found]]:
    """What the project makes of the defects of one release, beside the next one."""
    placed = [each for each in defects if each.places]
    old = wrong_cells(placed, python) if placed else {}
    # What the old release does right needs no further look.
    # A name ends where a case's arguments or its cell's dtype begin: `full` is no name of `full_like`.
    new = wrong_cells(placed, mended, {f"{record.name}{end}" for record in old.values() for end in "[-"})
    for defect in defects:
        cases: set[str] = set()
        if defect.culprit in RUNTIMES:
            both = [failing_cases(defect.operator, defect.culprit, each, silent=defect.name in silent)
                    for each in (python, mended)]  # fmt: skip
            cases = both[0] - both[1]
        yield defect, judge(defect, old, new, sorted(cases), silent=defect.name in silent)


def main(
    only: Annotated[list[str] | None, typer.Option(help="Only the programs of these names, with *.")] = None,
) -> None:
    """Print for every defect whether it is noticed, and the shares."""
    environments = Environments(cache_folder() / "environments")
    defects = {each.name: each for each in read_defects()}
    chosen = [defects[name] for name in choose("--only", only, defects)]
    found: list[Found] = []
    silent: set[str] = set()
    # The defects of one release need the same environments, and share the cells that they name.
    for (distribution, broken, next_), each in groupby(sorted(chosen, key=_releases), _releases):
        group = list(each)
        python = python_with(environments, distribution, broken)
        mended = python_with(environments, distribution, next_) if next_ else sys.executable
        wrong, right = shown(group, python), shown(group, mended)
        there = []
        for defect in group:
            if wrong.get(defect.name) and not right.get(defect.name):
                there.append(defect)
            else:
                print(f"{defect.name}: {distribution} {broken} does not show it here", flush=True)
        silent |= {defect.name for defect in there if ", expected " in wrong[defect.name]}
        for defect, one in look(there, python, mended, silent):
            found.append(one)
            print(f"{distribution} {broken}: {defect.says} {one.words}", flush=True)
    noticed = [one for one in found if one.is_noticed]
    print(
        f"{len(found)} of {len(chosen)} defects are there with the old release, {len(silent)} of them silent; "
        f"{len(noticed)} are noticed, {sum(one.is_blamed for one in noticed)} with culprit and operator"
    )


if __name__ == "__main__":
    typer.run(main)

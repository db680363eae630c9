"""Installs the old release of each defect in `defects.toml`, and says whether the matrix notices the defect there.

python -m benchmarks.real_defects --only "*average_pool*"

The reporter's program is run first, with the old release and with one in which the defect is fixed: where it does not
tell them apart, the defect does not count. Then `parity run` runs cells of the operator with both. A cell that fails
with the old release alone is one that notices; it has to blame the culprit and to have the operator in its graph.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from packaging.version import Version

from onnx_parity.harness.bisecting.environments import Environments, cache_folder
from onnx_parity.harness.record import WRONG, Blame, Record
from onnx_parity.harness.store import read_records

__all__ = ["Defect", "read_defects"]

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


class Defect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of `defects.toml`."""

    program: str
    distribution: str
    broken: str
    right: str
    issue: str
    fix: str
    silent: bool
    culprit: str
    operator: str
    run: tuple[str, ...]

    @property
    def path(self) -> Path:
        return _HERE / "programs" / f"{self.program}.py"


@dataclass(frozen=True, slots=True)
class Found:
    """What the matrix makes of a defect."""

    #: Cells that fail with the old release alone, those of them that blame the culprit, and those with the operator.
    cells: int
    blamed: int
    located: int
    #: One of them.
    example: str = ""

    @property
    def words(self) -> str:
        if not self.cells:
            return "not noticed"
        return f"noticed by {self.cells} cells, {self.blamed} blame the culprit, {self.located} have the operator"


def read_defects() -> list[Defect]:
    entries = tomllib.loads((_HERE / "defects.toml").read_text("utf-8"))["defect"]
    return msgspec.convert(entries, list[Defect])


def python_with(environments: Environments, distribution: str, version: str) -> str:
    """The Python of an environment with this release."""
    environment = environments.of(distribution, Version(version))
    if environment.unusable:
        raise RuntimeError(f"{distribution} {version} cannot be used here: {environment.unusable}")
    return environment.python


def shows(defect: Defect, python: str) -> bool:
    """Whether the reporter's program shows the defect."""
    with tempfile.TemporaryDirectory(prefix="parity-") as aside:
        done = subprocess.run([python, str(defect.path)], cwd=aside, capture_output=True, check=False)
    return done.returncode != 0


def wrong_cells(run: tuple[str, ...], python: str) -> dict[str, Record]:
    """The cells that fail in an environment."""
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        words = ["run", "-n", "0", "--no-report", "--runs", folder, "--devices", "cpu", *run]
        subprocess.run([python, "-m", "onnx_parity", *words], cwd=_ROOT, capture_output=True, check=False)
        found = [path for path in Path(folder).iterdir() if path.is_dir() and not path.is_symlink()]
        if len(found) != 1:
            raise RuntimeError(f"parity {' '.join(words)} made no run")
        return {record.cell: record for record in read_records(found[0]) if record.status in WRONG}


def judge(defect: Defect, old: dict[str, Record], new: dict[str, Record]) -> Found:
    noticed = [record for cell, record in old.items() if cell not in new]
    blamed = [record for record in noticed if _blames(record, defect.culprit)]
    located = [record for record in blamed if _has(record, defect.operator)]
    return Found(len(noticed), len(blamed), len(located), located[0].cell if located else "")


def _blames(record: Record, culprit: str) -> bool:
    if record.blame is Blame.EXPORTER:
        return record.exporter == culprit
    return record.blame is Blame.RUNTIME and record.runtime == culprit


def _has(record: Record, operator: str) -> bool:
    """Whether the graph has the ONNX operator, or the program the operator or function that an exporter gets wrong."""
    names = {use.op for use in record.onnx} | {name.partition("::")[2] for name in record.aten}
    return operator in names | {call.rpartition(".")[2] for call in record.calls}


def main(
    only: Annotated[list[str] | None, typer.Option(help="Only the programs of these names, with *.")] = None,
) -> None:
    """Print for every defect whether the matrix notices it, and the shares."""
    environments = Environments(cache_folder() / "environments")
    #: Defects of one release may have the same cells.
    runs: dict[tuple[str, tuple[str, ...]], dict[str, Record]] = {}
    found: dict[str, Found] = {}
    defects = [each for each in read_defects() if not only or any(fnmatchcase(each.program, one) for one in only)]
    for defect in defects:
        old, right = (python_with(environments, defect.distribution, each) for each in (defect.broken, defect.right))
        if not shows(defect, old) or shows(defect, right):
            print(f"{defect.program}: {defect.distribution} {defect.broken} does not show it here", flush=True)
            continue
        for python in (old, sys.executable):
            if (python, defect.run) not in runs:
                runs[python, defect.run] = wrong_cells(defect.run, python)
        found[defect.program] = judge(defect, runs[old, defect.run], runs[sys.executable, defect.run])
        print(f"{defect.program}: {found[defect.program].words}", flush=True)
    noticed = [each for each in found.values() if each.cells]
    print(
        f"{len(found)} of {len(defects)} defects are there with the old release; {len(noticed)} are noticed, "
        f"{sum(bool(each.blamed) for each in noticed)} with the culprit, "
        f"{sum(bool(each.located) for each in noticed)} with the operator"
    )


if __name__ == "__main__":
    typer.run(main)

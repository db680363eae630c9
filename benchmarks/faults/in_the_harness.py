"""Plants faults in the harness itself, and says which of them its own tests notice.

python -m benchmarks.faults.in_the_harness --only "record*"

Each fault is a line of a copy of the project made wrong. The tests of the folder that the line is in are run there, and
end at the first that fails. Exit code 1 if a fault is not noticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.options import choose

__all__ = ["FAULTS", "Fault", "plant"]

_ROOT = Path(__file__).parents[2]
#: What pytest ends with if tests failed.
_FAILED = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """A line made wrong. It stands in the file once."""

    file: str
    right: str
    wrong: str
    #: The tests that are run, from `tests/`.
    tests: tuple[str, ...]


_STAGES = ("harness/running/test_stages.py",)
FAULTS = {
    "other values are not run": Fault(
        "harness/running/stages.py",
        "for trial in (reference.other_values, with_nan)",
        "for trial in (with_nan,)",
        _STAGES,
    ),
    "a NaN is not run": Fault(
        "harness/running/stages.py",
        "for trial in (reference.other_values, with_nan)",
        "for trial in (reference.other_values,)",
        _STAGES,
    ),
    "other sizes are not run": Fault(
        "harness/running/stages.py", "for trial in reference.other_sizes:", "for trial in ():", _STAGES
    ),
    "the check of the model is skipped": Fault(
        "harness/running/stages.py", "if not made.is_checked:", "if False:", _STAGES
    ),
    "the first output only is compared": Fault(
        "harness/running/stages.py",
        "judge_outputs(given, expected, outcome.chain)",
        "judge_outputs(given[:1], expected[:1], outcome.chain)",
        _STAGES,
    ),
    "an input that the runtime writes to is no fault": Fault(
        "harness/running/stages.py",
        "    if changed:\n        raise ChangedInput",
        "    if False:\n        raise ChangedInput",
        ("harness/subjects/test_adapters.py",),
    ),
    "a refusal of anything is a refusal of the exporter": Fault(
        "harness/running/stages.py",
        "exporter.refusal(error) if outcome.stage is Stage.EXPORT else",
        "str(error) if outcome.stage is Stage.EXPORT else",
        _STAGES,
    ),
    "the seed of a run is not used": Fault(
        "harness/cases/seeds.py", "(str(run_seed), *parts)", '("0", *parts)', ("harness/cases/test_seeds.py",)
    ),
    "other values are the same ones": Fault(
        "harness/judging/reference.py",
        "other = InputSet(draw=1)",
        "other = InputSet()",
        ("harness/judging/test_reference.py", *_STAGES),
    ),
    "axes without elements are not compared": Fault(
        "harness/running/stages.py", "for trial in consult_on_empty_axes(program):", "for trial in ():", _STAGES
    ),
    "another opset than was asked for": Fault(
        "harness/subjects/delivered.py",
        "if delivered.opset != opset:",
        "if False:",
        ("harness/subjects/test_subjects.py", *_STAGES),
    ),
    "an axis that the model fixes": Fault(
        "harness/subjects/delivered.py",
        "if isinstance(asked, str) and not isinstance(got, str):",
        "if False:",
        ("harness/subjects/test_subjects.py", *_STAGES),
    ),
    "a fusion that is missed": Fault(
        "harness/subjects/delivered.py",
        "if most_nodes is not None and len(delivered.nodes) > most_nodes:",
        "if False:",
        ("harness/subjects/test_subjects.py", *_STAGES),
    ),
    "tolerances are 1,000 times as wide": Fault(
        "exporter/verification/oracle.py",
        "ratio = np.minimum(error / tolerance, _LARGEST)",
        "ratio = np.minimum(error / (1000 * tolerance), _LARGEST)",
        ("harness/judging/test_oracle.py", "harness/judging/test_blame.py"),
    ),
    "tolerances of integers": Fault(
        "exporter/verification/oracle.py",
        "if got.dtype != value.dtype:",
        "if got.dtype.kind != value.dtype.kind:",
        ("harness/judging/test_oracle.py",),
    ),
    "shapes that broadcast are equal": Fault(
        "exporter/verification/oracle.py",
        "if got.shape != value.shape:",
        "if got.size != value.size:",
        ("harness/judging/test_oracle.py",),
    ),
    "NaN is as good as any value": Fault(
        "exporter/verification/oracle.py",
        "both_nan = np.isnan(wide) & np.isnan(value)",
        "both_nan = np.isnan(wide) | np.isnan(value)",
        ("harness/judging/test_oracle.py",),
    ),
    "any mismatch may be rounding": Fault(
        "harness/judging/blame.py", "_ROUNDING = 100.0", "_ROUNDING = 1e12", ("harness/judging/test_blame.py",)
    ),
    "a runtime is blamed for what the graph does": Fault(
        "harness/judging/blame.py",
        "if len(with_runtime) > len(with_torch):",
        "if False:",
        ("harness/judging/test_blame.py",),
    ),
    "an expectation holds for all opsets": Fault(
        "harness/expecting/expectations.py",
        "and (not self.opset or point.opset in opsets_of(self.opset))",
        "and (not self.opset or bool(opsets_of(self.opset)))",
        ("harness/expecting",),
    ),
    "an expectation holds at any stage": Fault(
        "harness/expecting/expectations.py",
        "return stage is self.stage",
        "return True",
        ("harness/expecting",),
    ),
    "what no file says is refused is refused": Fault(
        "harness/expecting/unsupported.py",
        "if file.agrees(record, refused=record.status is Status.UNSUPPORTED):",
        "if record.status is Status.UNSUPPORTED or file.agrees(record, refused=False):",
        ("harness/expecting/test_unsupported.py",),
    ),
    "a refusal holds at all opsets": Fault(
        "harness/expecting/unsupported.py",
        "each.names(family, case, dtype, shapes) and opset in each.at()",
        "each.names(family, case, dtype, shapes) and bool(each.at())",
        ("harness/expecting/test_unsupported.py",),
    ),
    "a kernel that no file lists is lacking": Fault(
        "harness/expecting/no_kernel.py",
        "if file is None or record.lacks in file.lacking or",
        "if file is None or bool(file.lacking) or",
        ("harness/expecting/test_no_kernel.py",),
    ),
    "of two records of a cell the older one counts": Fault(
        "harness/store.py",
        "if before is None or _counts_more(record) >= _counts_more(before):",
        "if before is None:",
        ("harness/results/test_store.py",),
    ),
    "what is kept for another key is used": Fault(
        "harness/reuse/store.py",
        "if len(data) > _LARGEST or not hmac.compare_digest(checksum, self._checksum(key, content)):",
        "if len(data) > _LARGEST:",
        ("harness/reuse/test_store.py",),
    ),
    "an outcome is used again whatever it has read": Fault(
        "harness/reuse/reuse.py",
        "return self._hashes[name] == content",
        "return bool(content)",
        ("harness/reuse/test_reuse.py",),
    ),
    "a record is lost": Fault(
        "harness/store.py",
        '        self.append_lines(_seal(line) + b"\\n")',
        '        self.append_lines(_seal(line) + b"\\n" if record.status != "failed" else b"")',
        ("harness/results/test_store.py",),
    ),
    "a shard leaves out cells": Fault(
        "harness/matrix/shards.py", "1 + stable_seed(0,", "stable_seed(0,", ("harness/matrix/test_shards.py",)
    ),
    "the last opset of a case is not run": Fault(
        "harness/matrix/cells.py",
        "opsets = tuple(dict.fromkeys((*opsets, *also.opsets(dtype, form, selection))))",
        "opsets = tuple(dict.fromkeys((*opsets, *also.opsets(dtype, form, selection))))[:-1]",
        ("harness/matrix/test_cells.py",),
    ),
    "dynamic axes are left out": Fault(
        "harness/matrix/cells.py",
        "shapes = tuple(Shapes) if declaration.dynamic else (Shapes.STATIC,)",
        "shapes = (Shapes.STATIC,)",
        ("harness/matrix/test_cells.py",),
    ),
    "what failed before is carried over": Fault(
        "harness/matrix/since.py",
        "if record.status not in (Status.PASSED, Status.UNSUPPORTED, Status.ABSENT):",
        "if record.status is Status.CRASHED:",
        ("harness/matrix/test_since.py",),
    ),
    "a changed file does not concern cells": Fault(
        "harness/matrix/since.py", "elif self._hash(name) != content:", "elif False:", ("harness/matrix/test_since.py",)
    ),
    "the gate does not see another blame": Fault(
        "harness/gate/differing.py",
        'for field in ("status", "stage", "blame"):',
        'for field in ("status",):',
        ("harness/gate", "harness/results/test_columnar.py"),
    ),
    "what is refused now is no loss": Fault(
        "harness/gate/findings.py",
        "if was is Status.PASSED and now.status is not Status.PASSED:",
        "if was is Status.PASSED and now.status is Status.ABSENT:",
        ("harness/gate",),
    ),
    "what is not run any more is no loss": Fault(
        "harness/gate/findings.py",
        "if record.status is not Status.ABSENT and record.cell not in run.records",
        "if record.status is Status.FAILED and record.cell not in run.records",
        ("harness/gate",),
    ),
    "the gate fails nothing": Fault(
        "harness/gate/verdict.py",
        "return bool(self.with_action(Action.FAIL))",
        "return False",
        ("harness/gate",),
    ),
    "a cell whose process ends has passed": Fault(
        "harness/judging/outcome.py",
        "status=Status.CRASHED,",
        "status=Status.PASSED,",
        ("harness/running/test_crash.py",),
    ),
}


def plant(fault: Fault, root: Path) -> None:
    """Make the line wrong in a copy of the project."""
    path = root / fault.file
    text = path.read_text("utf-8")
    if text.count(fault.right) != 1:
        raise ValueError(f"{fault.file} has {fault.right!r} {text.count(fault.right)} times, and not once")
    path.write_text(text.replace(fault.right, fault.wrong), "utf-8")


def copy_project(to: Path) -> None:
    """Copy the files that git knows, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = _ROOT / name, to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target, follow_symlinks=False)


def first_that_fails(fault: Fault, root: Path) -> str | None:
    """The first test that notices the fault; None if all pass."""
    words = ["-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", *(f"tests/{each}" for each in fault.tests)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, _FAILED):
        raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else None


def main(
    only: Annotated[list[str] | None, typer.Option(help="Only the faults of these names, with *.")] = None,
) -> None:
    """Print for every fault the first test that notices it."""
    chosen = {name: FAULTS[name] for name in choose("--only", only, FAULTS)}
    missed = 0
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        root = Path(folder)
        copy_project(root)
        for name, fault in chosen.items():
            began, path = time.monotonic(), root / fault.file
            kept = path.read_text("utf-8")
            plant(fault, root)
            noticed = first_that_fails(fault, root)
            path.write_text(kept, "utf-8")
            missed += noticed is None
            print(
                f"{'noticed' if noticed else 'MISSED':8} {name} ({time.monotonic() - began:.0f} s) {noticed or ''}",
                flush=True,
            )
    print(f"{len(chosen) - missed} of {len(chosen)} faults in the harness are noticed by its tests")
    raise typer.Exit(1 if missed else 0)


if __name__ == "__main__":
    typer.run(main)

"""The failure bundles of a run: `exporter/verification/bundle.py` describes their contents.

A process writes at most `MOST` bundles, none larger than `LARGEST`. `parity repro CELL` creates a missing one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from onnx_parity.exporter.verification.bundle import Bundle, BundleError, write_bundle
from onnx_parity.exporter.verification.repro import OF_ONNX_REFERENCE, OF_ONNXRUNTIME, Runner
from onnx_parity.harness.axes import ONNX_REFERENCE, ONNXRUNTIME
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.record import Record, RunInfo
from onnx_parity.harness.results.environment import package_versions
from onnx_parity.harness.subjects import loading
from onnx_parity.harness.subjects.runtimes import RUNTIMES
from onnx_parity.harness.transformations.transformation import floor_of

__all__ = ["FOLDER", "Bundles", "Kept", "bundle_of", "runner_of", "slug"]

#: The number of bundles that one process keeps of a run.
MOST = 50
#: The maximum bytes of model, inputs and outputs in one bundle.
LARGEST = 64 << 20

#: The folder of bundles in a run's folder.
FOLDER = "failures"
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether and where a bundle was kept."""

    #: The folder relative to the run's; empty if the bundle was not kept.
    folder: str
    #: For the reader of the failure: where the bundle is, or why it was not kept.
    line: str


class Bundles:
    """The bundles of one process's part of a run."""

    def __init__(self, run: Path, info: RunInfo, home: Path | None = None) -> None:
        """`home` is the folder of the run that messages name, if the bundles will be moved there."""
        self._run = run
        self._home = home or run
        self._info = info
        self._kept = 0

    def keep(self, record: Record, outcome: Outcome) -> Kept:
        """Write the bundle of a cell that failed, if it may still be kept."""
        bundle = bundle_of(outcome, record, self._info)
        why_not = ""
        if self._kept >= MOST:
            why_not = f"{MOST} are"
        elif bundle.nbytes > LARGEST:
            why_not = f"it would be {bundle.nbytes >> 20} MiB"
        if why_not:
            return Kept("", f"bundle: not kept, {why_not}. This makes it:  parity repro '{record.cell}'")
        folder = f"{FOLDER}/{slug(record.cell)}"
        try:
            write_bundle(bundle, self._run / folder)
        except (BundleError, OSError) as error:
            # If the disk is full, the outcome must not be lost as well.
            return Kept("", f"bundle: not kept: {error}")
        self._kept += 1
        return Kept(folder, f"bundle: {_from_here(self._home / folder)}")


def _from_here(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def bundle_of(outcome: Outcome, record: Record, run: RunInfo) -> Bundle:
    """The bundle of a cell: without a model where the export failed, without outputs where torch itself failed."""
    trial = outcome.trial or (outcome.prepared.reference.example if outcome.prepared else None)
    said = f"{record.stage}: {record.reason}" if record.reason else record.status.words
    return Bundle(
        title=f"{record.cell}\n{said}\nagain:  {record.again}",
        model=outcome.delivered.model if outcome.delivered else None,
        feeds=trial.feeds if trial else {},
        expected=trial.expected if trial else (),
        runtime=outcome.runtime,
        runner=runner_of(outcome.runtime),
        floor=floor_of(outcome.chain),
        again=(record.nodeid, *record.options),
        environment=run,
    )


def runner_of(runtime: str) -> Runner:
    """How a bundle's script runs a model in this runtime, and what it needs for that."""
    name, _, variant = runtime.partition(":")
    packages = RUNTIMES[runtime].packages
    known = {ONNXRUNTIME: OF_ONNXRUNTIME, ONNX_REFERENCE: OF_ONNX_REFERENCE}
    source = known[name].source if name in known else Path(loading.__file__).with_name(f"{name}.py")
    if "import onnx\n" in source.read_text("utf-8"):
        packages = tuple(dict.fromkeys(("onnx", *packages)))
    installed = package_versions(packages)
    needs = tuple(f"{each}=={installed[each]}" for each in packages if each in installed)
    return Runner(source, variant, needs)


def slug(cell: str) -> str:
    """A cell's id as the name of a folder on any system; ids that differ stay different."""
    plain = re.sub(r"[^A-Za-z0-9_.=-]+", "_", cell)
    if plain == cell and len(plain) <= _LONGEST_NAME:
        return plain
    return f"{plain[:_LONGEST_NAME]}-{hashlib.sha256(cell.encode()).hexdigest()[:8]}"

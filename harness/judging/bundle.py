"""Failure bundles: a folder with everything that is needed to reproduce a failing cell without this project.

    model.onnx                          the exported model, with its weights beside it if they are separate
    test_data_set_0/input_0.pb ...      the inputs and torch's outputs, in the layout of onnx's own backend tests
    allowed.npz                         for each element of the outputs, the centre of errors and the tolerance
    bundle.json                         the cell, why it failed, the command that runs it again; versions and platform
    repro.py                            a copy of `repro_script.py`: loads the model, runs it and compares; needs numpy,
                                        onnx and the runtime

A process writes at most `MOST` bundles, none larger than `LARGEST`. `parity repro CELL` creates a missing one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import onnx

from onnx_parity.exporter.arrays import Array, Fed
from onnx_parity.exporter.verification.oracle import Expected
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.record import Record, RunInfo
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.harness.transformations.transformation import floor_of

#: The number of bundles that one process keeps of a run.
MOST = 50
#: The maximum bytes of model, inputs and outputs in one bundle.
LARGEST = 64 << 20

#: The folder of bundles in a run's folder.
FOLDER = "failures"
_LONGEST_NAME = 120
#: The file by which a folder is recognized as a bundle.
_DESCRIPTION = "bundle.json"


class BundleError(Exception):
    """The bundle cannot be written there. The message says why."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The contents of a bundle."""

    #: The first lines for a reader: headline, reason, how to run it again.
    title: str
    delivered: Delivered | None
    feeds: Mapping[str, Fed]
    expected: Sequence[Expected]
    runtime: str
    #: The least signal to noise of its outputs in dB, where it computes in fewer bits; None if they are judged exactly.
    floor: float | None
    #: The words of the command that runs it again, after `pytest`.
    again: tuple[str, ...]
    #: The run's `RunInfo`: versions, platform, commit, what is missing.
    environment: RunInfo

    @property
    def nbytes(self) -> int:
        data = sum(array.nbytes for fed in self.feeds.values() for array in _arrays(fed))
        for each in self.expected:
            data += each.value.nbytes + sum(part.nbytes for part in (each.centre, each.tolerance) if part is not None)
        return data + (_size(self.delivered.model) if self.delivered else 0)


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
        failure = failure_of(outcome, record, self._info)
        why_not = ""
        if self._kept >= MOST:
            why_not = f"{MOST} are"
        elif failure.nbytes > LARGEST:
            why_not = f"it would be {failure.nbytes >> 20} MiB"
        if why_not:
            return Kept("", f"bundle: not kept, {why_not}. This makes it:  parity repro '{record.cell}'")
        folder = f"{FOLDER}/{slug(record.cell)}"
        try:
            write(failure, self._run / folder)
        except (BundleError, OSError) as error:
            # If the disk is full, the outcome must not be lost as well.
            return Kept("", f"bundle: not kept: {error}")
        self._kept += 1
        return Kept(folder, f"bundle: {_from_here(self._home / folder)}")


def _from_here(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def failure_of(outcome: Outcome, record: Record, run: RunInfo) -> Failure:
    """The bundle's contents: without a model where the export failed, without outputs where torch itself failed."""
    trial = outcome.trial or (outcome.prepared.reference.example if outcome.prepared else None)
    return Failure(
        title=f"{record.cell}\n{record.stage}: {record.reason}\nagain:  {record.again}",
        delivered=outcome.delivered,
        feeds=trial.feeds if trial else {},
        expected=trial.expected if trial else (),
        runtime=outcome.runtime,
        floor=floor_of(outcome.chain),
        again=(record.nodeid, *record.options),
        environment=run,
    )


def write(failure: Failure, folder: Path) -> None:
    """Write a bundle, replacing an older bundle in this folder. A folder with anything else in it is refused."""
    if (folder / _DESCRIPTION).exists():
        shutil.rmtree(folder)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BundleError(
            f"{folder} contains something other than a bundle: give a folder that is empty or does not exist yet."
        )
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    description = {
        "title": failure.title, "again": failure.again, "runtime": failure.runtime, "floor": failure.floor,
        "environment": failure.environment,
    }  # fmt: skip
    (folder / _DESCRIPTION).write_bytes(msgspec.json.format(msgspec.json.encode(description)))
    shutil.copyfile(Path(__file__).with_name("repro_script.py"), folder / "repro.py")
    names: list[str] = []
    optionals: set[str] = set()
    if failure.delivered is not None:
        _write_model(failure.delivered.model, folder)
        graph = failure.delivered.proto.graph
        names = [value.name for value in graph.output]
        optionals = {value.name for value in graph.input if value.type.HasField("optional_type")}
    for number, (name, fed) in enumerate(failure.feeds.items()):
        (data / f"input_{number}.pb").write_bytes(_fed(fed, name, is_optional=name in optionals))
    allowed: dict[str, Array] = {}
    for number, expected in enumerate(failure.expected):
        name = names[number] if number < len(names) else ""
        (data / f"output_{number}.pb").write_bytes(_tensor(expected.value, name))
        parts = (("centre", expected.centre), ("tolerance", expected.tolerance), ("zeros", expected.zeros))
        allowed |= {f"{what}_{number}": part for what, part in parts if part is not None}
    np.savez(folder / "allowed.npz", allow_pickle=False, **allowed)


def slug(cell: str) -> str:
    """A cell's id as the name of a folder on any system; ids that differ stay different."""
    plain = re.sub(r"[^A-Za-z0-9_.=-]+", "_", cell)
    if plain == cell and len(plain) <= _LONGEST_NAME:
        return plain
    return f"{plain[:_LONGEST_NAME]}-{hashlib.sha256(cell.encode()).hexdigest()[:8]}"


def _arrays(fed: Fed) -> list[Array]:
    return fed if isinstance(fed, list) else [] if fed is None else [fed]


def _fed(fed: Fed, name: str, *, is_optional: bool) -> bytes:
    if isinstance(fed, list):
        items = [np.asarray(item, order="C") for item in fed]
        return bytes(onnx.numpy_helper.from_list(items, name).SerializeToString())
    if fed is None or is_optional:
        return bytes(onnx.numpy_helper.from_optional(fed, name).SerializeToString())
    return _tensor(fed, name)


def _tensor(array: Array, name: str) -> bytes:
    return bytes(onnx.numpy_helper.from_array(np.asarray(array, order="C"), name).SerializeToString())


def _size(model: bytes | Path) -> int:
    if isinstance(model, bytes):
        return len(model)
    return sum(path.stat().st_size for path in model.parent.iterdir())


def _write_model(model: bytes | Path, folder: Path) -> None:
    if isinstance(model, bytes):
        (folder / "model.onnx").write_bytes(model)
        return
    for path in model.parent.iterdir():
        shutil.copyfile(path, folder / path.name)

"""Failure bundles: a folder with everything that is needed to reproduce a failure without this project.

model.onnx      the exported model, with its weights beside it if they are separate
data.npz        the inputs, torch's outputs, and for each element of these the centre of errors and the tolerance
bundle.json     what failed and why, the command that runs it again; versions and platform
repro.py        loads the model, runs it and compares, with nothing but numpy and the runtime; `repro.py` makes it
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from onnx_parity.exporter.arrays import Array, Fed
from onnx_parity.exporter.verification.oracle import Expected
from onnx_parity.exporter.verification.repro import OF_ONNXRUNTIME, Runner, Stored, script_of, script_without_model

__all__ = ["DESCRIPTION", "SCRIPT", "Bundle", "BundleError", "write_bundle"]

#: The file by which a folder is recognized as a bundle, and the script.
DESCRIPTION, SCRIPT = "bundle.json", "repro.py"


class BundleError(Exception):
    """The bundle cannot be written there. The message says why."""


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a bundle."""

    #: The first lines for a reader: headline, reason, how to run it again.
    title: str
    #: The model as bytes, or as a file in a folder of its own, with its weights; None if the export failed.
    model: bytes | Path | None
    feeds: Mapping[str, Fed]
    expected: Sequence[Expected]
    runtime: str
    #: How the script runs a model in this runtime.
    runner: Runner = OF_ONNXRUNTIME
    #: The least signal to noise of its outputs in dB, where it computes in fewer bits; None if they are judged exactly.
    floor: float | None = None
    #: The words of the command that runs it again, after `pytest`.
    again: tuple[str, ...] = ()
    #: Versions and platform, as an object that becomes JSON.
    environment: Any = None
    #: What is known of releases with the failure, by distribution, as an object that becomes JSON.
    history: Any = None

    @property
    def nbytes(self) -> int:
        data = sum(array.nbytes for fed in self.feeds.values() for array in _arrays(fed))
        for each in self.expected:
            data += each.value.nbytes + sum(part.nbytes for part in (each.centre, each.tolerance) if part is not None)
        return data + (_size(self.model) if self.model is not None else 0)


def write_bundle(bundle: Bundle, folder: Path) -> None:
    """Write a bundle, replacing an older bundle in this folder. A folder with anything else in it is refused."""
    if (folder / DESCRIPTION).exists():
        shutil.rmtree(folder)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BundleError(
            f"{folder} contains something other than a bundle: give a folder that is empty or does not exist yet."
        )
    folder.mkdir(parents=True)
    description = {
        "title": bundle.title, "again": bundle.again, "runtime": bundle.runtime, "floor": bundle.floor,
        "environment": bundle.environment, "history": bundle.history or {},
    }  # fmt: skip
    (folder / DESCRIPTION).write_bytes(msgspec.json.format(msgspec.json.encode(description)))
    if bundle.model is not None:
        _write_model(bundle.model, folder)
    stored = Stored()
    inputs = {name: stored.keep_fed(f"input_{number}", fed) for number, (name, fed) in enumerate(bundle.feeds.items())}
    outputs = [
        [stored.keep(f"output_{number}", each.value)]
        + [
            stored.keep(f"{name}_{number}", part)
            for name, part in (("centre", each.centre), ("tolerance", each.tolerance), ("zeros", each.zeros))
        ]
        for number, each in enumerate(bundle.expected)
    ]
    np.savez(folder / "data.npz", allow_pickle=False, **stored.arrays)
    if bundle.model is None:
        text = script_without_model(bundle.title, bundle.again)
    else:
        text = script_of(bundle.title, bundle.runner, inputs, outputs, bundle.floor)
    (folder / SCRIPT).write_text(text, encoding="utf-8")


def _arrays(fed: Fed) -> list[Array]:
    return fed if isinstance(fed, list) else [] if fed is None else [fed]


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

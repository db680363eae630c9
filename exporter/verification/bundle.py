"""Failure bundles: a folder with everything that is needed to reproduce a failure without this project.

model.onnx                          the exported model, with its weights beside it if they are separate
test_data_set_0/input_0.pb ...      the inputs and torch's outputs, in the layout of onnx's own backend tests
allowed.npz                         for each element of the outputs, the centre of errors and the tolerance
bundle.json                         what failed and why, the command that runs it again; versions and platform
repro.py                            a copy of `repro_script.py`: loads the model, runs it and compares; needs numpy,
                                    onnx and the runtime
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx

from onnx_parity.exporter.arrays import Array, Fed
from onnx_parity.exporter.verification.oracle import Expected

__all__ = ["Bundle", "BundleError", "write_bundle"]

#: The file by which a folder is recognized as a bundle.
_DESCRIPTION = "bundle.json"


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
    #: The function, `module:name`, that runs a model in a runtime that the script does not know itself.
    runner: str = ""
    #: The least signal to noise of its outputs in dB, where it computes in fewer bits; None if they are judged exactly.
    floor: float | None = None
    #: The words of the command that runs it again, after `pytest`.
    again: tuple[str, ...] = ()
    #: Versions and platform, as an object that becomes JSON.
    environment: Any = None

    @property
    def nbytes(self) -> int:
        data = sum(array.nbytes for fed in self.feeds.values() for array in _arrays(fed))
        for each in self.expected:
            data += each.value.nbytes + sum(part.nbytes for part in (each.centre, each.tolerance) if part is not None)
        return data + (_size(self.model) if self.model is not None else 0)


def write_bundle(bundle: Bundle, folder: Path) -> None:
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
        "title": bundle.title, "again": bundle.again, "runtime": bundle.runtime, "runner": bundle.runner,
        "floor": bundle.floor, "environment": bundle.environment,
    }  # fmt: skip
    (folder / _DESCRIPTION).write_bytes(msgspec.json.format(msgspec.json.encode(description)))
    shutil.copyfile(Path(__file__).with_name("repro_script.py"), folder / "repro.py")
    names: list[str] = []
    optionals: set[str] = set()
    if bundle.model is not None:
        _write_model(bundle.model, folder)
        graph = onnx.load_model(str(folder / "model.onnx"), load_external_data=False).graph
        names = [value.name for value in graph.output]
        optionals = {value.name for value in graph.input if value.type.HasField("optional_type")}
    for number, (name, fed) in enumerate(bundle.feeds.items()):
        (data / f"input_{number}.pb").write_bytes(_fed(fed, name, is_optional=name in optionals))
    allowed: dict[str, Array] = {}
    for number, expected in enumerate(bundle.expected):
        name = names[number] if number < len(names) else ""
        (data / f"output_{number}.pb").write_bytes(_tensor(expected.value, name))
        parts = (("centre", expected.centre), ("tolerance", expected.tolerance), ("zeros", expected.zeros))
        allowed |= {f"{what}_{number}": part for what, part in parts if part is not None}
    np.savez(folder / "allowed.npz", allow_pickle=False, **allowed)


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

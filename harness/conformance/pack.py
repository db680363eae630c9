"""Writes a conformance pack: a folder for each test, and `manifest.json`. docs/conformance.md describes the format."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import msgspec
from onnx import numpy_helper

from onnx_parity.harness.onnx_node import OnnxCase, OnnxNode

__all__ = ["FORMAT", "MANIFEST", "NotAPackError", "Test", "declared_cases", "write_pack"]

FORMAT, VERSION = "onnx-parity-pack", 1
MANIFEST = "manifest.json"
_TESTS = "tests"
#: The package of the declarations. It is named and not imported, because declarations build on the harness.
_DECLARATIONS = "onnx_parity.op_cases.onnx"


class NotAPackError(ValueError):
    """A folder holds something that is not a pack, and would be written over."""


class Test(msgspec.Struct, frozen=True):
    """One test in the manifest."""

    id: str
    folder: str
    operators: dict[str, int]
    types: list[str]
    attributes: dict[str, object]
    opset: int
    ir_version: int
    bytes: int
    #: `equal`, or `elementwise`: by the files `centre_0.f64` and `tolerance_0.f64`.
    tolerances: list[str]
    source: str
    #: The files of the folder, and the SHA-256 of each.
    sha256: dict[str, str]


class Manifest(msgspec.Struct, frozen=True):
    format: str
    version: int
    tests: list[Test]


def declared_cases() -> Iterator[OnnxCase]:
    """The cases of all files of `op_cases/onnx/`, in the order in which they are declared."""
    package = import_module(_DECLARATIONS)
    for name in sorted(module.name for module in iter_modules(package.__path__)):
        for value in vars(import_module(f"{_DECLARATIONS}.{name}")).values():
            if isinstance(value, OnnxNode):
                yield from value.list_cases()


def write_pack(folder: Path, cases: Iterable[OnnxCase]) -> Manifest:
    """Write a pack of these cases. One that is there is replaced, and anything else is refused."""
    if folder.exists() and any(folder.iterdir()):
        if not _is_pack(folder):
            raise NotAPackError(f"{folder} is not empty and holds no pack. Name a new folder.")
        (folder / MANIFEST).unlink()
        shutil.rmtree(folder / _TESTS, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    # The first thing in the folder, so that a pack whose writing was interrupted can be written again.
    _write_manifest(folder, Manifest(FORMAT, VERSION, []))
    manifest = Manifest(FORMAT, VERSION, [_write_test(folder, case) for case in cases])
    _write_manifest(folder, manifest)
    return manifest


def _is_pack(folder: Path) -> bool:
    try:
        found = msgspec.json.decode((folder / MANIFEST).read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    text = msgspec.json.format(msgspec.json.encode(manifest, order="deterministic"), indent=1)
    (folder / MANIFEST).write_bytes(text + b"\n")


def _write_test(folder: Path, case: OnnxCase) -> Test:
    model = case.make_model()
    files = _files_of(case, model.SerializeToString(deterministic=True))
    place = f"{_TESTS}/{case.id}"
    for name, content in files.items():
        path = folder / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    elementwise = any(name.endswith(".f64") for name in files)
    return Test(
        id=case.id,
        folder=place,
        operators={case.declared.operator: case.version},
        types=[case.type],
        attributes=dict(case.attributes),
        opset=case.opset,
        ir_version=model.ir_version,
        bytes=sum(map(len, files.values())),
        tolerances=["elementwise" if elementwise else "equal"],
        source="op_cases/onnx",
        sha256={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    )


def _files_of(case: OnnxCase, model: bytes) -> Mapping[str, bytes]:
    data = "test_data_set_0"
    files = {"model.onnx": model}
    for number, value in enumerate(case.draw_inputs()):
        files[f"{data}/input_{number}.pb"] = numpy_helper.from_array(value, f"x{number}").SerializeToString(
            deterministic=True
        )
    expected = case.expect_output()
    files[f"{data}/output_0.pb"] = numpy_helper.from_array(expected.value, "y").SerializeToString(deterministic=True)
    if expected.centre is not None and expected.tolerance is not None:
        files[f"{data}/centre_0.f64"] = expected.centre.astype("<f8").tobytes()
        files[f"{data}/tolerance_0.f64"] = expected.tolerance.astype("<f8").tobytes()
    return files

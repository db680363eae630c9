"""The manifest of a conformance pack: what each test covers, how its outputs are judged, and its files.

`docs/conformance.md` describes it, and each pack has its JSON schema, made from these classes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
from msgspec import Meta

__all__ = [
    "LISTS",
    "MANIFEST",
    "Drawn",
    "Judged",
    "Manifest",
    "Open",
    "Output",
    "PackError",
    "Test",
    "Value",
    "changed_files",
    "read_format",
    "read_manifest",
    "schema_of",
    "write_json",
]

FORMAT, VERSION = "onnx-parity-pack", 3
MANIFEST = "manifest.json"
#: The lists of tests, each of which is a file of ids in the folder `mustpass`, and one for each opset.
LISTS = ("core", "full", "models", "language-models", "node-tests")


class PackError(ValueError):
    """A pack or a submission that cannot be used. The message says in one line what is wrong, and where."""


class Judged(StrEnum):
    """How the elements of an output are compared."""

    EQUAL = "equal"
    ELEMENTWISE = "elementwise"
    DISTRIBUTION = "distribution"


class Open(StrEnum):
    """What the specification leaves open of an output, and a runner does not compare."""

    ZERO_SIGN = "zero_sign"
    NAN_PAYLOAD = "nan_payload"


#: Of an input or an output.
Type = Annotated[
    str, Meta(description="In ONNX's words: tensor(float), seq(tensor(int64)), map(int64, float), optional(...)")
]


class Value(msgspec.Struct, frozen=True):
    """An input of a model."""

    name: str
    type: Type


class Drawn(msgspec.Struct, frozen=True):
    """What an output that is drawn at random must be like. The mean and the deviation are those of its elements."""

    shape: list[int]
    low: Annotated[float, Meta(description="No element is less")]
    high: Annotated[float, Meta(description="No element is more")]
    mean: float
    mean_within: Annotated[float, Meta(description="How far from `mean` the mean may be")]
    deviation: float
    deviation_within: Annotated[float, Meta(description="How far from `deviation` the standard deviation may be")]


class Output(msgspec.Struct, frozen=True):
    """An output of a model, and how it is judged."""

    name: str
    type: Type
    judged: Annotated[
        Judged,
        Meta(description="elementwise: within tolerance_N.f64 of centre_N.f64, which lie beside output_N.pb; "
             "distribution: there is no output_N.pb"),
    ]  # fmt: skip
    open: Annotated[list[Open], Meta(description="What is not compared")]
    distribution: Annotated[Drawn | None, Meta(description="Of an output that is drawn at random")]


class Test(msgspec.Struct, frozen=True):
    """One test: a model, and sets of inputs with the outputs that are expected for them."""

    id: Annotated[str, Meta(description="Stays the same from one pack to the next", pattern=r"^[A-Za-z0-9_.=,+-]+$")]
    folder: Annotated[str, Meta(description="Relative to the manifest, with forward slashes")]
    model: Annotated[str, Meta(description="The file of the model, relative to the folder")]
    data_sets: Annotated[int, Meta(description="The folders test_data_set_0, test_data_set_1 and so on", ge=1)]
    inputs: Annotated[list[Value], Meta(description="In the order of the graph: input_0.pb, input_1.pb and so on")]
    outputs: Annotated[list[Output], Meta(description="In the order of the graph: output_0.pb and so on")]
    operators: Annotated[
        dict[str, int], Meta(description="Those of the model, with the version of each; other domains stand before ::")
    ]
    types: Annotated[list[str], Meta(description="The types of elements of inputs and outputs: float, bfloat16, int8")]
    attributes: Annotated[
        dict[str, Any], Meta(description="Those that are set, of a test of one operator; others have their default")
    ]
    opset: int
    ir_version: int
    bytes: Annotated[int, Meta(description="The size of all files")]
    lists: Annotated[list[str], Meta(description="The lists of tests that it is in: core, full, models and so on")]
    source: Annotated[str, Meta(description="Where the test is declared")]
    sha256: Annotated[dict[str, str], Meta(description="The files, relative to the folder, with the SHA-256 of each")]


class Manifest(msgspec.Struct, frozen=True):
    """All tests of a pack."""

    format: Annotated[str, Meta(description=FORMAT)]
    version: Annotated[int, Meta(description="Of this format. A reader refuses one that it does not know")]
    made_by: Annotated[str, Meta(description="The version of this project")]
    tests: list[Test]


def schema_of(described: type[object], name: str) -> dict[str, Any]:
    """The JSON schema of a file of these formats."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **msgspec.json.schema(described)}


def write_json(path: Path, value: object) -> None:
    """Write JSON with a line for each field, and with keys in an order that does not change."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=1) + b"\n")


def read_format(path: Path, form: str, version: int, what: str) -> bytes:
    """The bytes of a JSON file that names this format and version."""
    try:
        text = path.read_bytes()
        found = msgspec.json.decode(text)
    except FileNotFoundError:
        raise PackError(f"{path.parent} has no {path.name}: it is no {what}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PackError(f"{path} is no JSON: {error}.") from None
    if not isinstance(found, dict) or found.get("format") != form:
        raise PackError(f"{path} does not have the format {form}: it is no {what}.")
    if found.get("version") != version:
        raise PackError(f"{path} has version {found.get('version')} of its format; version {version} is read here.")
    return text


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a pack. Its files are not read: `changed_files` does that."""
    path = folder / MANIFEST
    text = read_format(path, FORMAT, VERSION, "pack")
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.ValidationError as error:
        raise PackError(f"{path} does not follow its schema: {error}.") from None
    seen: set[str] = set()
    for test in manifest.tests:
        if test.id in seen:
            raise PackError(f"{path} has two tests with the id {test.id}.")
        seen.add(test.id)
        for name in (test.model, *test.sha256):
            inside(folder, f"{test.folder}/{name}", path)
    return manifest


def inside(folder: Path, name: str, named_by: Path) -> Path:
    """The path of a file that another file names, which has to lie in the folder."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name:
        raise PackError(f"{named_by} names {name}, which is not a path inside {folder}.")
    return folder / pure


def changed_files(folder: Path, test: Test) -> Iterator[str]:
    """What is wrong with the files of a test: those that are missing, and those that are not as they were written."""
    root = folder.resolve()
    for name, digest in test.sha256.items():
        path = folder / test.folder / name
        try:
            if not path.resolve(strict=True).is_relative_to(root):
                yield f"{path} leads out of {folder}."
            elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                yield f"{path} is not as the manifest says: its SHA-256 is another one."
        except OSError as error:
            yield f"{path} cannot be read: {error.strerror}."

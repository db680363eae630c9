"""External data: the file and the offset of each weight that is not stored in the model itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import onnx_ir as ir
from msgspec.structs import replace

from onnx_parity.exporter.errors import ArgumentError, WriteError
from onnx_parity.exporter.files.lazy_tensors import chunks_of
from onnx_parity.exporter.files.safetensors_files import SafetensorsFile

__all__ = ["ExternalData", "Place", "Placement", "external_data_path", "place"]

#: Smaller tensors stay in the model, where shape inference can read them.
EXTERNAL_FROM = 1024


@dataclass(frozen=True, slots=True)
class ExternalData:
    """How weights are stored in files beside the model: `external_data=ExternalData(shard_size=2 * 10**9)`."""

    #: The maximum size of a file of weights in bytes; a larger weight has a file of its own. None: one file for all.
    shard_size: int | None = None
    #: Safetensors files in the model's folder or below. The model refers to weights whose bytes equal those in a file,
    #: and they are not written again. A weight on the meta device is assumed to equal the tensor of the same name. If
    #: the files are given to `export`, large weights are neither transposed nor folded, so that they are found there.
    safetensors: Sequence[str | os.PathLike[str]] = ()
    #: The offsets of weights are multiples of this, so that a runtime can map them into memory.
    alignment: int = 4096

    def __post_init__(self) -> None:
        if self.shard_size is not None and not _counts_bytes(self.shard_size):
            raise ArgumentError(
                f"shard_size is {self.shard_size!r}: give the maximum bytes of a file, or None for one file"
            )
        if not _counts_bytes(self.alignment):
            raise ArgumentError(f"alignment is {self.alignment!r}: give a number of bytes, 1 or more")
        files = self.safetensors
        if not isinstance(files, list | tuple) or not all(isinstance(file, str | os.PathLike) for file in files):
            raise ArgumentError(f"safetensors is {files!r}: give a list of paths")


def _counts_bytes(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


class Place(msgspec.Struct, frozen=True):
    """Where a weight is stored: the file, relative to the model, and the offset in it."""

    location: str
    offset: int


class _Shard:
    """One file of weights, under construction."""

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self.tensors: list[tuple[int, ir.TensorProtocol]] = []
        self.end = 0

    def add(self, tensor: ir.TensorProtocol) -> int:
        offset = self._next()
        self.tensors.append((offset, tensor))
        self.end = offset + tensor.nbytes
        return offset

    def size_with(self, tensor: ir.TensorProtocol) -> int:
        return self._next() + tensor.nbytes

    def _next(self) -> int:
        return -(-self.end // self._alignment) * self._alignment

    def chunks(self) -> Iterator[bytes | memoryview]:
        position = 0
        for offset, tensor in self.tensors:
            if offset > position:
                yield bytes(offset - position)
            yield from chunks_of(tensor)
            position = offset + tensor.nbytes


class Placement(msgspec.Struct, frozen=True):
    """The place of each value, by its id, and the files to write."""

    places: dict[int, Place]
    files: dict[Path, _Shard]

    def renamed(self, names: Mapping[str, str]) -> Placement:
        """The same placement with some files renamed."""
        places = {
            value_id: replace(place, location=names.get(place.location, place.location))
            for value_id, place in self.places.items()
        }
        return Placement(places, self.files)


def external_data_path(path: str | os.PathLike[str]) -> Path:
    return Path(f"{os.fspath(path)}.data")


def place(model: ir.Model, target: Path, how: ExternalData) -> Placement:
    """The places of the weights of a model that is written to `target`."""
    places: dict[int, Place] = {}
    files = [SafetensorsFile.read(path) for path in how.safetensors]
    locations = [_location(file.path, target) for file in files]
    shards: list[_Shard] = []
    sharded: list[tuple[int, int, int]] = []
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        assert tensor is not None
        for file, location in zip(files, locations, strict=True):
            entry = file.holds(name, tensor)
            if entry is not None:
                places[id(value)] = Place(location, entry.offset)
                break
        else:
            if tensor.nbytes < EXTERNAL_FROM:
                continue
            if not shards or (how.shard_size is not None and shards[-1].size_with(tensor) > how.shard_size):
                shards.append(_Shard(how.alignment))
            sharded.append((id(value), len(shards) - 1, shards[-1].add(tensor)))
    paths = _paths(target, len(shards), always=not files)
    _refuse_to_overwrite(files, [target, *paths])
    _refuse_undecodable(paths)
    for value_id, shard, offset in sharded:
        places[value_id] = Place(paths[shard].name, offset)
    if paths and not shards:
        shards.append(_Shard(how.alignment))
    return Placement(places, dict(zip(paths, shards, strict=True)))


def _paths(target: Path, count: int, *, always: bool) -> list[Path]:
    if count < 2:
        return [external_data_path(target)] if count or always else []
    return [target.with_name(f"{target.name}-{number:05}-of-{count:05}.data") for number in range(1, count + 1)]


def _refuse_to_overwrite(files: Sequence[SafetensorsFile], written: Sequence[Path]) -> None:
    """Refuse to write a file that the model also refers to."""
    for path in written:
        for file in files:
            if path.exists() and file.path.samefile(path):
                raise WriteError(
                    f"the model refers to the weights in {file.path}, but writing it would replace that file: "
                    "give the model another name"
                )


def _refuse_undecodable(paths: Sequence[Path]) -> None:
    """Refuse file names that are not valid Unicode. ONNX stores names as Unicode, but file systems allow others."""
    for path in paths:
        try:
            path.name.encode()
        except UnicodeEncodeError:
            raise WriteError(
                f"the model cannot refer to a file of weights named {path.name!r}, which is not valid Unicode: give "
                "the model another name"
            ) from None


def _location(file: Path, target: Path) -> str:
    """The file relative to the model. ONNX allows files in the model's folder and below only."""
    try:
        return file.resolve().relative_to(target.parent.resolve()).as_posix()
    except ValueError:
        raise WriteError(
            f"the model cannot refer to {file}, which is not in its folder, {target.parent}, or below, as ONNX "
            "requires: write the model to the folder of its weights."
        ) from None

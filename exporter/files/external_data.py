"""Where the weights of a model lie when they do not lie in it: which file, and from which byte on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from onnx_parity.exporter.errors import ArgumentError, WriteError
from onnx_parity.exporter.files.lazy_tensors import chunks_of
from onnx_parity.exporter.files.safetensors_files import SafetensorsFile

__all__ = ["ExternalData", "Place", "Placement", "external_data_path", "place"]

#: Smaller tensors stay in the model, where shape inference can read them.
EXTERNAL_FROM = 1024


@dataclass(frozen=True, slots=True)
class ExternalData:
    """How weights lie beside the model: `external_data=ExternalData(shard_size=2 * 10**9)`."""

    #: The most bytes of a file of weights; a weight that is larger has one of its own. None: all in one file.
    shard_size: int | None = None
    #: Safetensors files in the model's folder. Weights that they hold, byte for byte, are referred to there and not
    #: written again; weights on the meta device are taken to be those of the same name.
    safetensors: Sequence[str | os.PathLike[str]] = ()
    #: Weights begin at multiples of this, so that a runtime can map them.
    alignment: int = 4096

    def __post_init__(self) -> None:
        if self.shard_size is not None and not _counts_bytes(self.shard_size):
            raise ArgumentError(
                f"shard_size is {self.shard_size!r}: give the most bytes of a file, or None for one file"
            )
        if not _counts_bytes(self.alignment):
            raise ArgumentError(f"alignment is {self.alignment!r}: give 1 or more bytes")
        files = self.safetensors
        if not isinstance(files, list | tuple) or not all(isinstance(file, str | os.PathLike) for file in files):
            raise ArgumentError(f"safetensors is {files!r}: give a list of paths")


def _counts_bytes(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


@dataclass(frozen=True, slots=True)
class Place:
    location: str
    offset: int


class _Shard:
    """One file of weights, to be written from its first byte to its last."""

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


@dataclass(frozen=True, slots=True)
class Placement:
    """Of values by identity, where each lies; and the files to write."""

    places: dict[int, Place]
    files: dict[Path, _Shard]


def external_data_path(path: str | os.PathLike[str]) -> Path:
    return Path(f"{os.fspath(path)}.data")


def place(model: ir.Model, target: Path, how: ExternalData) -> Placement:
    """Decide where each weight of a model that is written to `target` lies."""
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
    for value_id, shard, offset in sharded:
        places[value_id] = Place(paths[shard].name, offset)
    if paths and not shards:
        shards.append(_Shard(how.alignment))
    return Placement(places, dict(zip(paths, shards, strict=True)))


def _paths(target: Path, count: int, *, always: bool) -> list[Path]:
    if count < 2:
        return [external_data_path(target)] if count or always else []
    return [target.with_name(f"{target.name}-{number:05}-of-{count:05}.data") for number in range(1, count + 1)]


def _location(file: Path, target: Path) -> str:
    """The file as the model names it. ONNX allows what lies in the model's folder or below."""
    try:
        return file.resolve().relative_to(target.parent.resolve()).as_posix()
    except ValueError:
        raise WriteError(
            f"the model cannot refer to {file}, which lies outside of its folder, {target.parent}: ONNX allows files "
            "in it and below. Write the model beside its weights."
        ) from None

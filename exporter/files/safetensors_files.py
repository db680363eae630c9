"""Finds weights in safetensors files, so that a model can refer to them instead of storing them again.

A safetensors file begins with the length of a JSON header in eight bytes, followed by the header: names, dtypes,
shapes, and the offsets of the bytes of each tensor after it. Tensors are stored in the format that ONNX requires:
dense, row-major, little-endian.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.errors import WriteError
from onnx_parity.exporter.files.lazy_tensors import WeightTensor, chunks_of

__all__ = ["Entry", "SafetensorsFile", "read_when_written"]

_DTYPES = {
    "F32": ir.DataType.FLOAT,
    "F64": ir.DataType.DOUBLE,
    "F16": ir.DataType.FLOAT16,
    "BF16": ir.DataType.BFLOAT16,
    "I64": ir.DataType.INT64,
    "I32": ir.DataType.INT32,
    "I16": ir.DataType.INT16,
    "I8": ir.DataType.INT8,
    "U8": ir.DataType.UINT8,
    "U16": ir.DataType.UINT16,
    "U32": ir.DataType.UINT32,
    "U64": ir.DataType.UINT64,
    "BOOL": ir.DataType.BOOL,
}
#: A longer header is assumed to be an error.
_LONGEST_HEADER = 100_000_000
#: The number of bytes that are compared at a time.
_BLOCK = 1 << 24


class Entry(msgspec.Struct, frozen=True):
    """One tensor of a file, whose bytes begin at `offset`."""

    dtype: ir.DataType | None
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class SafetensorsFile(msgspec.Struct, frozen=True):
    path: Path
    entries: Mapping[str, Entry]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SafetensorsFile:
        """Read the header without the tensors."""
        file = Path(path)
        try:
            size = file.stat().st_size
            with file.open("rb") as opened:
                length = int.from_bytes(opened.read(8), "little")
                if not 2 <= length <= min(_LONGEST_HEADER, size - 8):
                    raise ValueError(f"a header of {length:,} bytes")
                header = json.loads(opened.read(length))
            if not isinstance(header, dict):
                raise ValueError("its header is not a JSON object")
            entries = {
                name: _entry(name, each, 8 + length, size) for name, each in header.items() if name != "__metadata__"
            }
        except OSError as error:
            raise WriteError(f"cannot read the weights of {file}: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise WriteError(f"{file} is not a safetensors file: {error}") from error
        return cls(file, entries)

    def holds(self, name: str, tensor: ir.TensorProtocol) -> Entry | None:
        """The entry of a tensor with this name, dtype, shape and bytes. Bytes are not compared if it has no data."""
        entry = self.entries.get(name)
        if entry is None or entry.dtype is not tensor.dtype or entry.shape != tuple(tensor.shape.numpy()):
            return None
        if isinstance(tensor, TorchTensor) and tensor.raw.is_meta:
            return entry
        return entry if self._has_bytes(entry, tensor) else None

    def _has_bytes(self, entry: Entry, tensor: ir.TensorProtocol) -> bool:
        if not entry.nbytes:
            return True
        with self.path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            position = entry.offset
            for chunk in chunks_of(tensor):
                ours = np.frombuffer(chunk, np.uint8)
                for start in range(0, ours.size, _BLOCK):
                    block = ours[start : start + _BLOCK]
                    # A copy, because the map cannot be closed while there is an array that is a view of it.
                    theirs = np.frombuffer(mapped[position : position + block.size], np.uint8)
                    if not np.array_equal(block, theirs):
                        return False
                    position += block.size
        return True


class _Stored(msgspec.Struct, frozen=True):
    """A tensor of a file, whose rows are read when they are asked for, as numbers of a dtype."""

    path: Path
    entry: Entry
    dtype: torch.dtype

    def __call__(self, start: int | None = None, end: int | None = None) -> torch.Tensor:
        count, *row = self.entry.shape or (1,)
        first, last, _ = slice(start, end).indices(count)
        size = self.entry.nbytes // max(count, 1)
        data = bytearray(size * (last - first))
        with self.path.open("rb") as file:
            file.seek(self.entry.offset + size * first)
            if file.readinto(data) < len(data):
                raise WriteError(f"{self.path} has become shorter since its header was read")
        assert self.entry.dtype is not None
        stored = TO_TORCH[self.entry.dtype]
        numbers = torch.frombuffer(data, dtype=stored) if data else torch.empty(0, dtype=stored)
        shape = self.entry.shape if start is end is None else (last - first, *row)
        return numbers.reshape(shape).to(self.dtype)


def read_when_written(weights: Mapping[str, WeightTensor], paths: Iterable[str | os.PathLike[str]]) -> None:
    """Let weights on the meta device be read from safetensors files when they are needed, by their names. Floats of
    another dtype there, as of bfloat16, are converted."""
    for file in map(SafetensorsFile.read, paths):
        for name, entry in file.entries.items():
            weight = weights.get(name)
            if weight is None or not weight.raw.is_meta:
                continue
            wanted = weight.raw.dtype
            stored = None if entry.dtype is None else TO_TORCH[entry.dtype]
            fits = stored is wanted or (stored is not None and stored.is_floating_point and wanted.is_floating_point)
            if not fits or entry.shape != tuple(weight.raw.shape):
                raise WriteError(
                    f"the weight {name!r} is {wanted}{list(weight.raw.shape)} in the program, and "
                    f"{stored}{list(entry.shape)} in {file.path}: give the files of a checkpoint of this program"
                )
            weight.stored = _Stored(file.path, entry, wanted)


def _entry(name: str, described: object, first: int, size: int) -> Entry:
    """A tensor as the header describes it. The bytes of the tensors begin at `first`, and the file has `size` bytes."""
    match described:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            raise ValueError(f"{name!r} has no dtype, shape and two offsets")
    if not all(isinstance(each, int) and each >= 0 for each in shape):
        raise ValueError(f"{name!r} has the shape {shape}")
    if not 0 <= begin <= end <= size - first:
        raise ValueError(f"the bytes of {name!r} are outside of it")
    known = _DTYPES.get(dtype)
    if known is not None and end - begin != math.prod(shape) * known.itemsize:
        raise ValueError(f"{name!r} has {end - begin:,} bytes, which is not what its dtype and shape need")
    return Entry(known, tuple(shape), first + begin, end - begin)

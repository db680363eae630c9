"""Serializes a model to bytes or a file without copying its weights into protobuf messages.

All but the weights (nodes, names, shapes) is encoded in `protobuf.py`. For each weight, a header is written here,
followed by its bytes from memory. A file is written under another name and then renamed, so that it is never
incomplete: see `put_in_place.py`.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.errors import WriteError
from onnx_parity.exporter.files import fields
from onnx_parity.exporter.files.external_data import ExternalData, Placement, place
from onnx_parity.exporter.files.lazy_tensors import chunks_of, one_thread
from onnx_parity.exporter.files.protobuf import NotEncoded, encode, prefix, tensor_header
from onnx_parity.exporter.files.put_in_place import NewFile, put_in_place
from onnx_parity.exporter.files.unfinished import name_unfinished, remove_unfinished
from onnx_parity.exporter.torch_inside.garbage import leaving_garbage

__all__ = [
    "Sink",
    "checked_target",
    "fits_inline",
    "serialize",
    "serialize_outline",
    "size_of_weights",
    "write_file",
    "write_to",
]

#: Protobuf refuses messages of 2 GiB and more.
INLINE_LIMIT = 2**31 - 1

_ONE_FILE = ExternalData()


class Sink(Protocol):
    """Anything that takes bytes: an open binary file."""

    def write(self, data: bytes | memoryview, /) -> object: ...


#: Weights of more bytes hold no sizes, which are what inference of shapes reads.
_LARGE_WEIGHT = 1024


class _Weight(msgspec.Struct, frozen=True):
    """An initializer: its protobuf header without data, and the source of the data."""

    header: bytes
    data: ir.TensorProtocol
    nbytes: int
    #: Whether the data is in another file.
    elsewhere: bool

    def head(self) -> bytes:
        """The bytes before the data: tag and length of the graph's field, the header, tag and length of the data."""
        if self.elsewhere:
            return prefix(fields.Graph.INITIALIZER, len(self.header)) + self.header
        tag = prefix(fields.Tensor.RAW_DATA, self.nbytes)
        return prefix(fields.Graph.INITIALIZER, len(self.header) + len(tag) + self.nbytes) + self.header + tag


def size_of_weights(model: ir.Model) -> int:
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)


def fits_inline(model: ir.Model) -> bool:
    """Whether the model with its weights is small enough for protobuf, with 1 MiB for everything but the weights."""
    return size_of_weights(model) < INLINE_LIMIT - 2**20


@leaving_garbage()
def serialize(model: ir.Model) -> bytes:
    """The model as bytes, including its weights."""
    _refuse_too_large(model)
    with one_thread():
        return b"".join(_chunks(model, external=None))


@leaving_garbage()
def serialize_outline(model: ir.Model) -> tuple[bytes, dict[str, ir.TensorProtocol]]:
    """A model of the same graph whose larger weights are inputs, and these weights by their names.

    What looks at the graph, or takes weights as they are in memory, needs neither encode nor decode them.
    """
    initializers, inputs = model.graph.initializers, model.graph.inputs
    values = list(initializers.values())
    large = [each for each in values if each.const_value is not None and each.const_value.nbytes > _LARGE_WEIGHT]
    further = [value for value in large if not value.is_graph_input()]
    try:
        for value in large:
            initializers.pop(str(value.name))
        inputs.extend(further)
        outline = serialize(model)
    finally:
        for _ in further:
            inputs.pop()
        initializers.clear()
        for value in values:
            initializers.add(value)
    return outline, {str(value.name): value.const_value for value in large if value.const_value is not None}


@leaving_garbage()
def write_to(model: ir.Model, sink: Sink) -> None:
    """Write the model, including its weights, to an open binary file."""
    _refuse_too_large(model)
    try:
        with one_thread():
            for chunk in _chunks(model, external=None):
                _write_whole(sink, chunk)
        if isinstance(sink, io.BufferedIOBase):
            sink.flush()  # A disk that is full is noticed by then.
    except WriteError:
        raise
    # A closed file raises a ValueError.
    except (OSError, ValueError) as error:
        raise WriteError(
            f"cannot write the model to {sink!r}: {_message(error)}. The bytes that were written are not a model: "
            f"it needs {size_of_weights(model):,} bytes and a file opened for writing bytes."
        ) from error


def _write_whole(sink: Sink, chunk: bytes | memoryview) -> None:
    """Write all bytes. An unbuffered file may take only some of them, and says how many."""
    rest = memoryview(chunk).cast("B")
    while True:
        written = sink.write(rest)
        if not isinstance(written, int):
            if isinstance(sink, io.RawIOBase):
                raise OSError(errno.EAGAIN, "the file would block")
            return  # An object of the caller's, which does not say how many.
        if written >= len(rest):
            return
        if not written:
            raise OSError(errno.EIO, "the file takes no more bytes")
        rest = rest[written:]


def checked_target(path: str | os.PathLike[str]) -> Path:
    """The file that a model is to be written to. Raises a `WriteError` if it cannot be one."""
    # A symbolic link is kept, and the file that it points to is written.
    try:
        target = Path(os.path.realpath(path))
        is_folder = target.is_dir()
    except (OSError, ValueError) as error:
        # The path is too long, or contains a null character.
        raise WriteError(
            f"cannot write the model to {os.fspath(path)!r}: {_message(error)}. Give another path."
        ) from error
    if is_folder:
        raise WriteError(f"cannot write the model to {target}: it is a folder. Give the name of a file in it.")
    if not target.parent.is_dir():
        raise WriteError(
            f"cannot write the model to {target}: {target.parent} is not an existing folder. Create it first."
        )
    return target


@leaving_garbage()
def write_file(model: ir.Model, path: str | os.PathLike[str], external_data: bool | ExternalData | None = None) -> None:
    """Write the model to `path`. With `external_data`, its weights go to `<path>.data`, or to the files of an
    `ExternalData`.

    With None, the weights are written into the model unless it is larger than protobuf allows.
    """
    target = checked_target(path)
    if external_data is None:
        external_data = not fits_inline(model)
    if not external_data:
        _refuse_too_large(model)
    if target.exists() and not target.is_file():
        _write_to_device(model, target, bool(external_data))
        return
    _write_and_put_in_place(model, target, external_data)


def _write_and_put_in_place(model: ir.Model, target: Path, external_data: bool | ExternalData) -> None:
    weights: list[NewFile] = []
    model_aside: Path | None = None
    try:
        external = None
        if external_data:
            external = place(model, target, external_data if isinstance(external_data, ExternalData) else _ONE_FILE)
            for data_path, shard in external.files.items():
                weights.append(NewFile(_write_aside(data_path, shard.chunks()), data_path))
        model_aside = _write_aside(target, _chunks(model, external))

        def referring_to(names: Mapping[str, str]) -> Path:
            assert external is not None
            return _write_aside(target, _chunks(model, external.renamed(names)))

        put_in_place(NewFile(model_aside, target), weights, referring_to)
    except BaseException as error:
        for written in (*(each.aside for each in weights), model_aside):
            if written is not None:
                written.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, WriteError):
            raise _cannot_write(model, target, error) from error
        raise


def _write_to_device(model: ir.Model, target: Path, external_data: bool) -> None:
    """Write to a pipe or a device. These cannot be replaced by renaming a file."""
    if external_data:
        raise WriteError(f"cannot write external data beside {target}, which is not a regular file: give another path")
    _refuse_too_large(model)
    try:
        with target.open("wb") as file, one_thread():
            for chunk in _chunks(model, external=None):
                file.write(chunk)
    except WriteError:
        raise
    except OSError as error:
        raise _cannot_write(model, target, error) from error


def _message(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error).rstrip(".")


def _cannot_write(model: ir.Model, target: Path, error: OSError) -> WriteError:
    return WriteError(
        f"cannot write the model to {target}: {error.strerror or error}. Nothing was changed there. "
        f"It needs {size_of_weights(model):,} bytes and permission to write in {target.parent}."
    )


def _write_aside(final: Path, chunks: Iterator[bytes | memoryview]) -> Path:
    """Write a new file in the folder of `final`, and remove it if that fails."""
    remove_unfinished(final)
    aside = name_unfinished(final)
    # tempfile is not used, because only the owner may read the files that it creates.
    with aside.open("xb", buffering=2**20) as file:
        try:
            with one_thread():
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
            if final.exists():
                aside.chmod(final.stat().st_mode)
        except BaseException:
            aside.unlink()
            raise
    return aside


def _refuse_too_large(model: ir.Model) -> None:
    size = size_of_weights(model)
    if size >= INLINE_LIMIT:
        raise WriteError(
            f"the weights have {size:,} bytes, and a model in one file may have {INLINE_LIMIT:,}: "
            "save it to a path with external_data=True"
        )


def _chunks(model: ir.Model, external: Placement | None) -> Iterator[bytes | memoryview]:
    """The serialized model, in pieces."""
    values = list(model.graph.initializers.values())
    weights = [_weight(value, external) for value in values]
    model.graph.initializers.clear()
    try:
        rest, graph = _without_weights(model)
    finally:
        for value in values:
            model.graph.initializers.add(value)
    heads = [weight.head() for weight in weights]
    length = len(graph) + sum(map(len, heads)) + sum(weight.nbytes for weight in weights if not weight.elsewhere)
    if len(graph) >= INLINE_LIMIT:
        raise WriteError(
            f"the graph without its weights has {len(graph):,} bytes, of constants and nodes, and a model may have "
            f"{INLINE_LIMIT:,}: pass large constants as buffers of the module"
        )
    yield rest + prefix(fields.Model.GRAPH, length) + graph
    for head, weight in zip(heads, weights, strict=True):
        yield head
        if not weight.elsewhere:
            yield from chunks_of(weight.data)


def _weight(value: ir.Value, external: Placement | None) -> _Weight:
    data = value.const_value
    assert data is not None
    nbytes = data.nbytes
    where = None if external is None else external.places.get(id(value))
    entries = {"location": where.location, "offset": where.offset, "length": nbytes} if where is not None else None
    try:
        header = tensor_header(value.name, data.dtype, data.shape.numpy(), entries)
    except (NotEncoded, UnicodeEncodeError) as error:
        raise WriteError(f"the weight {value.name!r} cannot be written: {error}. Give it another name.") from error
    return _Weight(header, data, nbytes, elsewhere=where is not None)


def _without_weights(model: ir.Model) -> tuple[bytes, bytes]:
    """The fields of the model but for its graph, and those of its graph.

    What the exporter does not encode itself, onnx_ir does; or it says what is wrong.
    """
    try:
        return encode(model)
    except NotEncoded:
        proto = ir.serde.serialize_model(model)
        graph = proto.graph.SerializeToString(deterministic=True)
        proto.ClearField("graph")
        return proto.SerializeToString(deterministic=True), graph

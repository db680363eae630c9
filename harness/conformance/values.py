"""The values of inputs and outputs as files: tensors, sequences, maps and optionals, in the protobufs that ONNX has for
them, and how the outputs of a runtime differ from what is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import MapProto, OptionalProto, SequenceProto, TensorProto, TypeProto, numpy_helper

from onnx_parity.exporter.arrays import Array, is_float, ulp
from onnx_parity.exporter.verification.oracle import Expected, judge
from onnx_parity.harness.conformance.manifest import Judged, Open, Output
from onnx_parity.harness.onnx_cases.case import Distribution, Expectation
from onnx_parity.harness.onnx_cases.given import Value
from onnx_parity.harness.onnx_cases.types import code_of, dtype_of, element_of, key_of, spell_type

__all__ = [
    "UnfitError",
    "compare_outputs",
    "describe_type",
    "encode_value",
    "expected_value",
    "read_expected",
    "read_value",
    "tensors_of",
]


class UnfitError(Exception):
    """A case or a cell that can be no test of a pack. The message is the reason, alike for all that have it."""


def describe_type(of: TypeProto) -> str:
    """A type in the words of ONNX's schemas, if a test of a pack may have it."""
    try:
        return spell_type(of)
    except ValueError as error:
        raise UnfitError(str(error)) from None


#: What the protobufs of sequences and optionals call a value of each form.
_PARTS = {"tensor": "tensor", "seq": "sequence", "map": "map"}
_PROTOS: Mapping[str, type[Message]] = {
    "tensor": TensorProto, "seq": SequenceProto, "map": MapProto, "optional": OptionalProto,
}  # fmt: skip


def encode_value(value: Value, type_: str, name: str = "") -> bytes:
    """The TensorProto, SequenceProto, MapProto or OptionalProto of a value of this type."""
    serialized: bytes = _make_proto(value, type_, name).SerializeToString(deterministic=True)
    return serialized


def _make_proto(value: Value, type_: str, name: str = "") -> Message:
    form, inner = _split(type_)
    if form == "optional":
        made = OptionalProto(name=name, elem_type=OptionalProto.UNDEFINED)
        if value is not None:
            part = _PARTS[_split(inner)[0]]
            made.elem_type = OptionalProto.DataType.Value(part.upper())
            getattr(made, f"{part}_value").CopyFrom(_make_proto(value, inner))
        return made
    if isinstance(value, list):
        part = _PARTS[_split(inner)[0]]
        made = SequenceProto(name=name, elem_type=SequenceProto.DataType.Value(part.upper()))
        getattr(made, f"{part}_values").extend(_make_proto(each, inner) for each in value)
        return made
    if isinstance(value, dict):
        return _make_map(value, type_, name)
    if value is None:
        raise UnfitError("an optional tensor is left out")
    return numpy_helper.from_array(value, name)


def _make_map(items: Mapping[Any, Any], type_: str, name: str) -> MapProto:
    """The keys in ascending order, and each value as a tensor of rank 0."""
    made, keys = MapProto(name=name, key_type=code_of(f"tensor({key_of(type_)})")), sorted(items)
    if key_of(type_) == "string":
        made.string_keys.extend(key.encode() for key in keys)
    else:
        made.keys.extend(keys)
    values = [np.asarray(items[key], dtype_of(type_)) for key in keys]
    made.values.CopyFrom(_make_proto(values, f"seq(tensor({element_of(type_)}))"))
    return made


def _split(type_: str) -> tuple[str, str]:
    """`seq` and `tensor(float)` of `seq(tensor(float))`."""
    form, _, inner = type_.partition("(")
    return form, inner[:-1]


def read_value(path: Path, type_: str) -> Value:
    """The value of a file; None is an optional without a value."""
    value: Value = _read_proto(_PROTOS[_split(type_)[0]].FromString(path.read_bytes()), type_)
    return value


def _read_proto(proto: Any, type_: str) -> Any:
    form, inner = _split(type_)
    match form:
        case "optional":
            part = _PARTS[_split(inner)[0]]
            is_there = proto.elem_type == OptionalProto.DataType.Value(part.upper())
            return _read_proto(getattr(proto, f"{part}_value"), inner) if is_there else None
        case "seq":
            return [_read_proto(each, inner) for each in getattr(proto, f"{_PARTS[_split(inner)[0]]}_values")]
        case "map":
            keys = [key.decode() for key in proto.string_keys] if key_of(type_) == "string" else proto.keys
            return dict(zip(keys, map(numpy_helper.to_array, proto.values.tensor_values), strict=True))
        case _:
            return numpy_helper.to_array(proto)


def _arrays_of(value: Value) -> list[Array]:
    """The tensors of a value, those of a map in the order of its keys."""
    if isinstance(value, list):
        return [array for each in value for array in _arrays_of(each)]
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return [] if value is None else [value]


def tensors_of(expected: Expectation) -> list[Expected]:
    """The tensors of an output, in the same order. One without a value has none, and neither has a random one."""
    if isinstance(expected, list):
        return [tensor for each in expected for tensor in tensors_of(each)]
    if isinstance(expected, dict):
        return [expected[key] for key in sorted(expected)]
    return [expected] if isinstance(expected, Expected) else []


def expected_value(expected: Expectation) -> Value:
    """What stands in the file of an output that is not drawn at random."""
    if isinstance(expected, list):
        items: Any = [expected_value(each) for each in expected]
        return items  # type: ignore[no-any-return]
    if isinstance(expected, dict):
        return {key: each.value for key, each in expected.items()}
    return expected.value if isinstance(expected, Expected) else None


def read_expected(described: Output, folder: Path, index: int) -> Expectation:
    """An expected output of a pack, as the oracle has it."""
    drawn = described.distribution
    if drawn is not None:
        return Distribution(tuple(drawn.shape), drawn.low, drawn.high, drawn.mean, drawn.deviation)
    value = read_value(folder / f"output_{index}.pb", described.type)
    sizes = [array.size for array in _arrays_of(value)]
    parts: list[Iterator[Array]] = []
    if described.judged is Judged.ELEMENTWISE:
        for name in ("centre", "tolerance"):
            whole = np.frombuffer((folder / f"{name}_{index}.f64").read_bytes(), "<f8")
            parts.append(iter(np.split(whole, np.cumsum(sizes)[:-1])))

    def expect_value(value: Any) -> Any:
        if isinstance(value, list):
            return [expect_value(each) for each in value]
        if isinstance(value, dict):
            return {key: expect_value(value[key]) for key in sorted(value)}
        return (
            None if value is None else _expect(value, described, *(next(part).reshape(value.shape) for part in parts))
        )

    expected: Expectation = expect_value(value)
    return expected


def _expect(value: Array, described: Output, centre: Array | None = None, tolerance: Array | None = None) -> Expected:
    zeros = value == 0 if is_float(value.dtype) and Open.ZERO_SIGN not in described.open else None
    if centre is None or tolerance is None:
        return Expected(value, zeros=zeros)
    magnitude = np.where(np.isfinite(centre), np.abs(centre), 0.0)
    return Expected(value, centre, tolerance, ulp(magnitude, value.dtype), zeros)


def compare_outputs(described: Sequence[Output], given: Sequence[Value], expected: Sequence[Expectation]) -> str:
    """How outputs differ from what is expected; empty if they do not. What is drawn at random is held to its
    distribution. The tensors of sequences and maps are numbered on, in the messages of the oracle."""
    ours: list[Array] = []
    theirs: list[Expected] = []
    for number, (output, got, want) in enumerate(zip(described, given, expected, strict=True)):
        if isinstance(want, Distribution):
            if not isinstance(got, np.ndarray) or got.dtype != dtype_of(output.type):
                return f"output {number} is no {output.type}"
            if difference := want.judge(got):
                return f"output {number}: {difference}"
            continue
        if (kind := _kind_of(got)) != (wanted := _kind_of(expected_value(want))):
            return f"output {number} is {kind} in place of {wanted}"
        ours += _arrays_of(got)
        theirs += tensors_of(want)
    return judge(ours, theirs).detail


def _kind_of(value: Value) -> str:
    if isinstance(value, dict):
        return f"a map of {len(value)}: {', '.join(map(repr, sorted(value)))}"
    if isinstance(value, list):
        return "; ".join([f"a sequence of {len(value)}", *(_kind_of(each) for each in value if isinstance(each, dict))])
    return "nothing" if value is None else "a tensor"

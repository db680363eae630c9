"""The values of inputs and outputs as files: tensors, sequences and optionals, in the protobufs that ONNX has for them,
and how the outputs of a runtime differ from what is expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from onnx import OptionalProto, SequenceProto, TensorProto, TypeProto, numpy_helper

from onnx_parity.exporter.arrays import Array, Fed, is_float, ulp
from onnx_parity.exporter.verification.oracle import Expected, judge
from onnx_parity.harness.conformance.manifest import Judged, Open, Output
from onnx_parity.harness.onnx_cases.case import Distribution, Expectation
from onnx_parity.harness.onnx_cases.types import dtype_of, spell_type

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


def encode_value(fed: Fed, type_: str, name: str = "") -> bytes:
    """The TensorProto, SequenceProto or OptionalProto of a value of this type."""
    return _serialize(_make_proto(fed, type_, name))


def _make_proto(fed: Fed, type_: str, name: str) -> TensorProto | SequenceProto | OptionalProto:
    if type_.startswith("optional("):
        made = OptionalProto(name=name, elem_type=OptionalProto.UNDEFINED)
        if isinstance(fed, list):
            made.elem_type = OptionalProto.SEQUENCE
            made.sequence_value.CopyFrom(_make_sequence(fed, ""))
        elif fed is not None:
            made.elem_type = OptionalProto.TENSOR
            made.tensor_value.CopyFrom(numpy_helper.from_array(fed))
        return made
    if isinstance(fed, list):
        return _make_sequence(fed, name)
    if fed is None:
        raise UnfitError("an optional tensor is left out")
    return numpy_helper.from_array(fed, name)


def _make_sequence(items: Sequence[Array], name: str) -> SequenceProto:
    made = SequenceProto(name=name, elem_type=SequenceProto.TENSOR)
    made.tensor_values.extend(map(numpy_helper.from_array, items))
    return made


def _serialize(proto: TensorProto | SequenceProto | OptionalProto) -> bytes:
    serialized: bytes = proto.SerializeToString(deterministic=True)
    return serialized


def read_value(path: Path, type_: str) -> Fed:
    """The value of a file; None is an optional without a value."""
    content = path.read_bytes()
    if type_.startswith("optional("):
        found = OptionalProto.FromString(content)
        if found.elem_type == OptionalProto.SEQUENCE:
            return _read_items(found.sequence_value)
        return _read_array(found.tensor_value) if found.elem_type == OptionalProto.TENSOR else None
    if type_.startswith("seq("):
        return _read_items(SequenceProto.FromString(content))
    return _read_array(TensorProto.FromString(content))


def _read_array(proto: TensorProto) -> Array:
    array: Array = numpy_helper.to_array(proto)
    return array


def _read_items(proto: SequenceProto) -> list[Array]:
    return list(map(_read_array, proto.tensor_values))


def tensors_of(expected: Expectation) -> list[Expected]:
    """The tensors of an output, in their order. One without a value has none, and neither has a random one."""
    items = expected if isinstance(expected, list) else [expected]
    return [each for each in items if isinstance(each, Expected)]


def expected_value(expected: Expectation) -> Fed:
    """What stands in the file of an output that is not drawn at random."""
    if isinstance(expected, list):
        return [each.value for each in tensors_of(expected)]
    return expected.value if isinstance(expected, Expected) else None


def read_expected(described: Output, folder: Path, index: int) -> Expectation:
    """An expected output of a pack, as the oracle has it."""
    drawn = described.distribution
    if drawn is not None:
        return Distribution(tuple(drawn.shape), drawn.low, drawn.high, drawn.mean, drawn.deviation)
    value = read_value(folder / f"output_{index}.pb", described.type)
    items = value if isinstance(value, list) else [] if value is None else [value]
    sizes = [item.size for item in items]
    parts: list[Iterator[Array]] = []
    if described.judged is Judged.ELEMENTWISE:
        for name in ("centre", "tolerance"):
            whole = np.frombuffer((folder / f"{name}_{index}.f64").read_bytes(), "<f8")
            parts.append(iter(np.split(whole, np.cumsum(sizes)[:-1])))
    found: list[Expectation] = [
        _expect(item, described, *(next(part).reshape(item.shape) for part in parts)) for item in items
    ]
    return found if isinstance(value, list) else found[0] if found else None


def _expect(value: Array, described: Output, centre: Array | None = None, tolerance: Array | None = None) -> Expected:
    zeros = value == 0 if is_float(value.dtype) and Open.ZERO_SIGN not in described.open else None
    if centre is None or tolerance is None:
        return Expected(value, zeros=zeros)
    magnitude = np.where(np.isfinite(centre), np.abs(centre), 0.0)
    return Expected(value, centre, tolerance, ulp(magnitude, value.dtype), zeros)


def compare_outputs(described: Sequence[Output], given: Sequence[Fed], expected: Sequence[Expectation]) -> str:
    """How outputs differ from what is expected; empty if they do not. What is drawn at random is held to its
    distribution. The tensors of sequences are numbered on, in the messages of the oracle."""
    ours: list[Array] = []
    theirs: list[Expected] = []
    for number, (output, got, want) in enumerate(zip(described, given, expected, strict=True)):
        if isinstance(want, Distribution):
            if not isinstance(got, np.ndarray) or got.dtype != dtype_of(output.type):
                return f"output {number} is no {output.type}"
            if difference := want.judge(got):
                return f"output {number}: {difference}"
            continue
        items = [got] if isinstance(got, np.ndarray) else got or []
        if type(got) is not type(expected_value(want)) or len(items) != len(tensors_of(want)):
            return f"output {number} is {_kind_of(got)} in place of {_kind_of(expected_value(want))}"
        ours += items
        theirs += tensors_of(want)
    return judge(ours, theirs).detail


def _kind_of(value: Fed) -> str:
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    return "nothing" if value is None else "a tensor"

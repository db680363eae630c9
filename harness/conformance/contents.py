"""The contents of one test of a pack, from a case of an operator or from a cell of the matrix, as files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from onnx_parity.exporter.arrays import Float64Array, is_float
from onnx_parity.exporter.verification.oracle import Expected
from onnx_parity.harness.conformance.manifest import LISTS, Drawn, Judged, Open, Output, Test, Value
from onnx_parity.harness.conformance.values import (
    UnfitError,
    describe_type,
    encode_value,
    expected_value,
    tensors_of,
)
from onnx_parity.harness.judging.bundle import slug
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.onnx_cases.case import Distribution, Expectation
from onnx_parity.harness.onnx_cases.given import Value as InputValue
from onnx_parity.harness.onnx_cases.node_tests import NodeTest
from onnx_parity.harness.onnx_cases.types import element_of
from onnx_parity.harness.onnx_node import OnnxCase
from onnx_parity.harness.record import Blame, Kind, Stage
from onnx_parity.harness.subjects.delivered import Delivered, inputs_of

__all__ = [
    "CORE",
    "FULL",
    "LISTS_OF_NODE_TEST",
    "MODEL",
    "Contents",
    "DataSet",
    "id_of_cell",
    "lists_of_case",
    "lists_of_cell",
    "of_case",
    "of_cell",
    "of_node_test",
    "write_test",
]

MODEL = "model.onnx"
#: Models with more weights than this are no tests.
MOST_WEIGHTS = 128 << 20
CORE, FULL, MODELS, LANGUAGE_MODELS, NODE_TESTS = LISTS


LISTS_OF_NODE_TEST = (FULL, NODE_TESTS)


@dataclass(frozen=True, slots=True)
class DataSet:
    """Inputs of a model, and what is expected for them, in the order of the graph."""

    inputs: Sequence[InputValue]
    expected: Sequence[Expectation]


@dataclass(frozen=True, slots=True)
class Contents:
    """A test that is not written yet."""

    id: str
    model: onnx.ModelProto
    data_sets: Sequence[DataSet]
    lists: Sequence[str]
    source: str
    attributes: Mapping[str, object] = field(default_factory=dict)
    #: The folder, which tests of the same weights share, and the file of the model.
    folder: str = ""
    file: str = MODEL
    #: Weights that are not in the model.
    beside: Mapping[str, bytes] = field(default_factory=dict)


def of_case(case: OnnxCase) -> Contents:
    model, inputs, expected = case.make_test()
    data = DataSet(inputs, expected)
    return Contents(case.id, model, [data], lists_of_case(case), "op_cases/onnx", case.attributes)


def of_node_test(test: NodeTest, expected: Sequence[Expectation]) -> Contents:
    data = DataSet(test.inputs, expected)
    return Contents(test.id, test.model, [data], LISTS_OF_NODE_TEST, "onnx.backend.test", test.attributes)


def lists_of_case(case: OnnxCase) -> tuple[str, ...]:
    return (CORE, FULL) if case.in_core else (FULL,)


def id_of_cell(cell: Cell) -> str:
    return slug(f"{cell.case.label}-{cell.dtype}-opset{cell.opset}")


def lists_of_cell(cell: Cell) -> tuple[str, ...]:
    if cell.case.declaration.kind is not Kind.MODEL:
        return (FULL,)
    return (FULL, MODELS, *([LANGUAGE_MODELS] if "language_model" in cell.case.family else []))


def of_cell(outcome: Outcome) -> Contents:
    """The test of a cell that has run: with its model, and with every input set whose outputs were compared."""
    cell, prepared, delivered = outcome.cell, outcome.prepared, outcome.delivered
    if prepared is None or delivered is None or outcome.stage in (Stage.EXPORT, Stage.CHECK):
        raise UnfitError("it has no model at this opset")
    if outcome.blame not in (None, Blame.RUNTIME):
        raise UnfitError(f"its model is not known to be right: {outcome.blame}")
    reference = prepared.reference
    model = delivered.proto
    beside = {} if isinstance(delivered.model, bytes) else _take_weights(model, delivered.model.parent)
    names = [value.name for value in inputs_of(model.graph)]
    data_sets = [
        DataSet([trial.feeds[name] for name in names], _by_output(model.graph, trial.expected))
        for trial in (reference.example, reference.other_values)
        if trial is not None
    ]
    file = cell.case.declaration.file
    contents = Contents(id_of_cell(cell), model, data_sets, lists_of_cell(cell), f"{file.parent.name}/{file.name}")
    if not beside:
        return contents
    # The tests of other opsets have the same inputs, and most often the same weights.
    shared = slug(f"{cell.case.label}-{cell.dtype}")
    return replace(contents, folder=shared, file=f"opset{cell.opset}.onnx", beside=beside)


def _by_output(graph: onnx.GraphProto, tensors: Sequence[Expected]) -> list[Expectation]:
    """What is expected of each output of a model; a program's tensors are numbered on, also those in its lists."""
    if len(graph.output) == len(tensors) and all(value.type.HasField("tensor_type") for value in graph.output):
        return list(tensors)
    if len(graph.output) == 1 and graph.output[0].type.HasField("sequence_type"):
        return [list(tensors)]
    raise UnfitError("it returns a sequence beside other values")


def _take_weights(model: onnx.ModelProto, folder: Path) -> dict[str, bytes]:
    """The files of weights beside a model, under names that follow from their contents; the model names these then."""
    places = list(_places_of_weights(model.graph))
    taken: dict[str, bytes] = {}
    for name in sorted({place.value for place in places}):
        if (folder / name).stat().st_size > MOST_WEIGHTS:
            raise UnfitError(f"its weights have more than {MOST_WEIGHTS >> 20} MiB")
        content = (folder / name).read_bytes()
        digest = f"weights-{hashlib.sha256(content).hexdigest()[:16]}.bin"
        taken[digest] = content
        for place in places:
            place.value = digest if place.value == name else place.value
    return taken


def _places_of_weights(graph: onnx.GraphProto) -> Iterator[onnx.StringStringEntryProto]:
    for tensor in graph.initializer:
        yield from (entry for entry in tensor.external_data if entry.key == "location")
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _places_of_weights(inner)


def write_test(contents: Contents, folder: Path, tests: str) -> Test:
    """Write the files of a test into a folder below the folder `tests` of a pack, and describe them."""
    graph = contents.model.graph
    place = f"{tests}/{contents.folder or contents.id}"
    model: bytes = contents.model.SerializeToString(deterministic=True)
    inputs = [Value(value.name, describe_type(value.type)) for value in inputs_of(graph)]
    outputs = [
        _describe_output(value, [data.expected[number] for data in contents.data_sets])
        for number, value in enumerate(graph.output)
    ]
    files = {contents.file: model, **contents.beside}
    for number, data in enumerate(contents.data_sets):
        named = _files_of(inputs, outputs, data)
        files |= {f"test_data_set_{number}/{name}": content for name, content in named}
    for name, content in files.items():
        path = folder / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    delivered = Delivered(model)
    described = [*(each.type for each in inputs), *(each.type for each in outputs)]
    return Test(
        id=contents.id,
        folder=place,
        model=contents.file,
        data_sets=len(contents.data_sets),
        inputs=inputs,
        outputs=outputs,
        operators={f"{each.domain}::{each.op}" if each.domain else each.op: each.since_version
                   for each in delivered.uses()},
        types=sorted({element_of(each) for each in described}),
        attributes={name: _plain(value) for name, value in contents.attributes.items()},
        opset=delivered.opset,
        ir_version=contents.model.ir_version,
        bytes=sum(map(len, files.values())),
        lists=list(contents.lists),
        source=contents.source,
        sha256={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    )  # fmt: skip


def _files_of(inputs: Sequence[Value], outputs: Sequence[Output], data: DataSet) -> Iterator[tuple[str, bytes]]:
    for number, (value, fed) in enumerate(zip(inputs, data.inputs, strict=True)):
        yield f"input_{number}.pb", encode_value(fed, value.type, value.name)
    for number, (output, expected) in enumerate(zip(outputs, data.expected, strict=True)):
        if output.judged is not Judged.DISTRIBUTION:
            yield f"output_{number}.pb", encode_value(expected_value(expected), output.type, output.name)
        if output.judged is Judged.ELEMENTWISE:
            tensors = tensors_of(expected)
            yield f"centre_{number}.f64", _plain_floats(each.centre for each in tensors)
            yield f"tolerance_{number}.f64", _plain_floats(each.tolerance for each in tensors)


def _plain_floats(arrays: Iterable[Float64Array | None]) -> bytes:
    return b"".join(each.astype("<f8").tobytes() for each in arrays if each is not None)


def _judged(expected: Expectation) -> Judged:
    if isinstance(expected, Distribution):
        return Judged.DISTRIBUTION
    tensors = tensors_of(expected)
    within = bool(tensors) and all(each.centre is not None and each.tolerance is not None for each in tensors)
    return Judged.ELEMENTWISE if within else Judged.EQUAL


def _describe_output(value: onnx.ValueInfoProto, expected: Sequence[Expectation]) -> Output:
    type_ = describe_type(value.type)
    first = expected[0]
    floats = [each for one in expected for each in tensors_of(one) if is_float(each.value.dtype)]
    left_open: list[Open] = []
    if floats:
        # The sign is compared of all zeros or of none: where some are not certain, of none.
        certain = all(each.zeros is not None and each.zeros[each.value == 0].all() for each in floats)
        left_open = [Open.NAN_PAYLOAD, *([] if certain else [Open.ZERO_SIGN])]
    drawn = Drawn(list(first.shape), *map(float, first.numbers())) if isinstance(first, Distribution) else None
    return Output(value.name, type_, _judged(first), left_open, drawn)


def _plain(value: object) -> object:
    """An attribute for JSON: a tensor as the list of its elements, a complex number as a pair, a graph by its name."""
    if isinstance(value, TensorProto):
        return _plain(numpy_helper.to_array(value))
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "c":
            return np.stack([value.real, value.imag], -1).tolist()
        return (value.astype(np.float64) if value.dtype.kind == "V" else value).tolist()
    if isinstance(value, onnx.TypeProto | onnx.SparseTensorProto):
        return str(value)
    return value.decode() if isinstance(value, bytes) else value.name if isinstance(value, onnx.GraphProto) else value

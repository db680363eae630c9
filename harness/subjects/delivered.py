"""A model that an exporter delivered, as bytes or as a file, and the checks that onnx's checker does not make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import onnx

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.cases.dynamic_axes import DynamicAxes, named_axes
from onnx_parity.harness.record import OnnxUse


class DeliveryError(Exception):
    """The model is valid ONNX, but not the model that was requested."""


@dataclass(frozen=True)
class Delivered:
    """A model in the form in which an exporter delivered it: bytes, or a file with its weights beside it."""

    model: bytes | Path

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """The model, without its weights if they are in a separate file."""
        model = onnx.ModelProto()
        model.ParseFromString(self.model if isinstance(self.model, bytes) else self.model.read_bytes())
        return model

    @cached_property
    def opset(self) -> int:
        """The version of the standard operators; 0 if the model imports none."""
        return next((each.version for each in self.proto.opset_import if each.domain in ("", "ai.onnx")), 0)

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        graphs = (self.proto.graph.node, *(function.node for function in self.proto.functions))
        return tuple(node for graph in graphs for node in _walk(graph))

    def uses(self) -> tuple[OnnxUse, ...]:
        counts = Counter((node.domain, node.op_type) for node in self.nodes)
        return tuple(
            OnnxUse(op, since_version(op, self.opset, domain), count, domain)
            for (domain, op), count in sorted(counts.items())
        )


def proto_of(model: bytes | Path) -> onnx.ModelProto:
    """The model with its weights."""
    return onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)


def inputs_of(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs that are no weights: before IR version 4 those are listed as inputs too."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def input_names(model: onnx.ModelProto) -> tuple[str, ...]:
    """The names of its inputs that are no weights."""
    return tuple(value.name for value in inputs_of(model.graph))


def shapes_of(feeds: Mapping[str, Fed], dynamic: DynamicAxes) -> dict[str, tuple[int | str, ...]]:
    """The expected shape of every input of a model, with a number or the name of a symbol for each axis."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    for name, fed in feeds.items():
        array = fed[0] if isinstance(fed, list) else fed
        assert array is not None, "the example of an OrNone is a tensor"
        axes = named_axes(dynamic.get(name, {}))
        shapes[name] = tuple(axes.get(axis, size) for axis, size in enumerate(array.shape))
    return shapes


def check(
    delivered: Delivered,
    opset: int,
    shapes: Mapping[str, tuple[int | str, ...]],
    outputs: int,
    most_nodes: int | None = None,
) -> None:
    """Run onnx's full check, and check the requested opset, inputs and symbolic axes, and that no fusion was missed."""
    model = delivered.model
    onnx.checker.check_model(model if isinstance(model, bytes) else str(model), full_check=True)
    if delivered.opset != opset:
        raise DeliveryError(f"opset {opset} was requested, but opset {delivered.opset} was delivered")
    graph = delivered.proto.graph
    found = {value.name: tuple(_sizes(value)) for value in inputs_of(graph)}
    if list(found) != list(shapes):
        raise DeliveryError(f"inputs {_names(shapes)} were requested, but {_names(found)} were delivered")
    for name, shape in shapes.items():
        if len(found[name]) != len(shape):
            raise DeliveryError(f"input {name} has rank {len(shape)}, but rank {len(found[name])} in the model")
        for axis, (asked, got) in enumerate(zip(shape, found[name], strict=True)):
            where = f"input {name}, axis {axis}"
            if isinstance(asked, str) and not isinstance(got, str):
                raise DeliveryError(f"{where}: {asked!r} was requested as symbolic, but the model fixes it to {got}")
            if isinstance(asked, int) and got != asked:
                raise DeliveryError(f"{where}: size {asked} was exported, but the model has {got!r}")
    holding = sum(not value.type.HasField("tensor_type") for value in graph.output)
    tensors = len(graph.output) - holding
    # The number of items of a sequence, and whether an optional has a value, is only known at run time.
    if tensors > outputs if holding else tensors != outputs:
        raise DeliveryError(f"the program has {outputs} outputs, but the model has {len(graph.output)}")
    if most_nodes is not None and len(delivered.nodes) > most_nodes:
        allowed = f"{most_nodes} {'node' if most_nodes == 1 else 'nodes'}"
        raise DeliveryError(
            f"the declaration allows {allowed} at opset {opset}, but the model has {len(delivered.nodes)}: "
            f"{_names(node.op_type for node in delivered.nodes)}"
        )


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _sizes(value: onnx.ValueInfoProto) -> Iterator[int | str]:
    """The sizes of a tensor; for a sequence or an optional, those of its tensors."""
    kind = value.type
    while not kind.HasField("tensor_type"):
        kind = kind.sequence_type.elem_type if kind.HasField("sequence_type") else kind.optional_type.elem_type
    for dimension in kind.tensor_type.shape.dim:
        yield dimension.dim_value if dimension.HasField("dim_value") else dimension.dim_param


def _walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _walk(attribute.g.node)
            elif attribute.type == onnx.AttributeProto.GRAPHS:
                for graph in attribute.graphs:
                    yield from _walk(graph.node)


@cache
def since_version(op: str, opset: int, domain: str) -> int:
    """The version that defines the operator at this opset; 0 for an operator that onnx does not have."""
    try:
        return onnx.defs.get_schema(op, opset, domain).since_version
    except onnx.defs.SchemaError:
        return 0

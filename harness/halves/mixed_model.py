"""Writes a float32 model so that some of its nodes compute in half, and the same model in float32 with rounded values.

The second shows on any device what the first computes where its kernels are those of half. onnxruntime has few of them
on the CPU: it computes one node after another in float32 there, and a value that is too large for half stays finite.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.passes import common

from onnx_parity.exporter.arrays import to_array
from onnx_parity.harness.halves.placing import BY_ATTRIBUTE, halved_inputs, halved_outputs
from onnx_parity.harness.halves.ranges import HALVES

__all__ = ["casts_in", "mixed", "rounded"]

_TYPES = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}


def mixed(model: ir.Model, in_half: Set[str], half: str) -> ir.Model:
    """The model in which the nodes that return these values compute in half. Its inputs and outputs stay float32."""
    result = model.clone()
    writer = _Writer(result, half)
    nodes = [node for node in result.graph if node.outputs[0].name in in_half]
    reads = {node: list(halved_inputs(node, result, half).items()) for node in nodes}
    makes = {node: halved_outputs(node, result, half) for node in nodes}
    # What is made in half is read in half by these nodes, and cast for all others.
    for node in nodes:
        for value in makes[node]:
            elsewhere = [(use.node, use.idx) for use in value.uses() if (use.idx, value) not in reads.get(use.node, ())]
            if elsewhere or value.is_graph_output():
                writer.cast_back(node, value, elsewhere)
    made = {value for values in makes.values() for value in values}
    for node in nodes:
        for number, value in reads[node]:
            if value not in made:
                node.replace_input_with(number, writer.halved(value, node))
    for node in nodes:
        for value in makes[node]:
            value.type = ir.TensorType(_TYPES[half])
        writer.change_attribute(node, makes[node])
    return _tidied(result)


def rounded(model: ir.Model, in_half: Set[str], half: str) -> ir.Model:
    """The model in float32, with each value that the mixed model has in half rounded to it."""
    result = model.clone()
    writer = _Writer(result, half)
    nodes = [node for node in result.graph if node.outputs[0].name in in_half]
    reads = {node: list(halved_inputs(node, result, half).items()) for node in nodes}
    made = {value for node in nodes for value in halved_outputs(node, result, half)}
    for node in nodes:
        for number, value in reads[node]:
            if value not in made:
                node.replace_input_with(number, writer.widened(writer.halved(value, node), node))
    for value in made:
        writer.round(value)
    return _tidied(result)


def casts_in(model: ir.Model) -> int:
    return sum(node.op_type == "Cast" and not node.domain for node in model.graph)


class _Writer:
    def __init__(self, model: ir.Model, half: str) -> None:
        self._graph, self._half = model.graph, half
        self._halved: dict[ir.Value, ir.Value] = {}
        self._widened: dict[ir.Value, ir.Value] = {}

    def halved(self, value: ir.Value, reader: ir.Node) -> ir.Value:
        """A float32 value in half: a constant as a constant, and any other by a cast before its first reader."""
        if value not in self._halved:
            if value.is_initializer() and value.const_value is not None:
                self._halved[value] = self._constant(value)
            else:
                self._halved[value] = self._cast(value, _TYPES[self._half], reader)
        return self._halved[value]

    def widened(self, value: ir.Value, reader: ir.Node) -> ir.Value:
        if value not in self._widened:
            self._widened[value] = self._cast(value, ir.DataType.FLOAT, reader)
        return self._widened[value]

    def cast_back(self, node: ir.Node, value: ir.Value, readers: list[tuple[ir.Node, int]]) -> None:
        """Let others read, and the model return, a cast of what a node makes in half, which keeps its name."""
        name = value.name or ""
        cast = _cast_of(value, ir.DataType.FLOAT, name)
        value.name = f"{name}_{self._half}"
        self._graph.insert_after(node, cast)
        for reader, number in readers:
            reader.replace_input_with(number, cast.outputs[0])
        self._return_instead(value, cast.outputs[0])

    def round(self, value: ir.Value) -> None:
        node, name = value.producer(), value.name or ""
        assert node is not None
        readers = [(use.node, use.idx) for use in value.uses()]
        down = _cast_of(value, _TYPES[self._half], f"{name}_{self._half}")
        up = _cast_of(down.outputs[0], ir.DataType.FLOAT, name)
        value.name = f"{name}_exact"
        self._graph.insert_after(node, [down, up])
        for reader, number in readers:
            reader.replace_input_with(number, up.outputs[0])
        self._return_instead(value, up.outputs[0])

    def change_attribute(self, node: ir.Node, made: list[ir.Value]) -> None:
        name = BY_ATTRIBUTE.get(node.op_type)
        if not made or name is None:
            return
        if name == "to":
            node.attributes[name] = ir.AttrInt64(name, int(_TYPES[self._half]))
        else:
            given = node.attributes[name].as_tensor().numpy()
            node.attributes[name] = ir.AttrTensor(name, self._tensor(given, name))

    def _return_instead(self, value: ir.Value, other: ir.Value) -> None:
        for number, output in enumerate(self._graph.outputs):
            if output is value:
                self._graph.outputs[number] = other

    def _constant(self, value: ir.Value) -> ir.Value:
        assert value.const_value is not None
        name = f"{value.name}_{self._half}"
        tensor = self._tensor(value.const_value.numpy(), name)
        made = ir.Value(name=name, type=ir.TensorType(_TYPES[self._half]), shape=value.shape, const_value=tensor)
        self._graph.register_initializer(made)
        return made

    def _tensor(self, given: object, name: str) -> ir.Tensor[Any]:
        array = to_array(torch.as_tensor(given).to(HALVES[self._half]))
        return ir.Tensor(array, dtype=_TYPES[self._half], name=name)

    def _cast(self, value: ir.Value, dtype: ir.DataType, reader: ir.Node) -> ir.Value:
        node = _cast_of(value, dtype, f"{value.name}_{dtype.name.lower()}")
        self._graph.insert_before(reader, node)
        return node.outputs[0]


def _cast_of(value: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
    result = ir.Value(name=name, type=ir.TensorType(dtype), shape=value.shape)
    return ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(dtype))], outputs=[result])


def _tidied(model: ir.Model) -> ir.Model:
    for each in (common.TopologicalSortPass(), common.RemoveUnusedNodesPass(), common.NameFixPass()):
        model = each(model).model
    return model

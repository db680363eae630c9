"""Weights as inputs, without values (`export_params=False`) or with values that a caller may override.

With `export_params=False` nothing is folded, and lowerings do not see the value of any weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import onnx_ir as ir
import torch

from onnx_parity.exporter.arrays import in_pairs
from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.rewrites.engine.all_nodes import all_nodes

__all__ = ["list_initializers_as_inputs", "presented", "turn_weights_into_inputs", "unlisted"]


def turn_weights_into_inputs(
    model: ir.Model, weights: Sequence[tuple[str, torch.Tensor]], became: Mapping[str, ir.Value]
) -> dict[str, torch.Tensor]:
    """Make each weight an input, used or not, in the given order after those of the program. Returns them by input."""
    graph = model.graph
    taken = {value.name for value in (*graph.inputs, *graph.initializers.values())}
    taken |= {output.name for node in all_nodes(graph) for output in node.outputs}
    inputs: dict[str, torch.Tensor] = {}
    for name, weight in weights:
        tensor = in_pairs(weight)
        value = became.get(name)
        if value is None or value.name not in graph.initializers:
            if name in taken:
                raise ArgumentError(
                    f"the weight {name!r} would become an input with the name of another input, output or value: give "
                    "other input_names and output_names"
                )
            value = ir.Value(name=name, type=ir.TensorType(TO_ONNX[tensor.dtype]), shape=ir.Shape(tensor.shape))
        else:
            name = str(value.name)
            graph.initializers.pop(name)
            value.const_value = None
        if value not in graph.inputs:
            graph.inputs.append(value)
        inputs[name] = tensor
    return inputs


def list_initializers_as_inputs(model: ir.Model) -> None:
    """List every initializer as an input too, as IR versions before 4 (opset 9) require.

    onnx_ir's AddInitializersToInputsPass does the same, and importing its module takes 8 ms of a first export.
    """
    listed = set(model.graph.inputs)
    model.graph.inputs.extend(value for value in model.graph.initializers.values() if value not in listed)


@contextmanager
def unlisted(model: ir.Model) -> Iterator[None]:
    """A context in which no initializer is listed among the inputs."""
    inputs = model.graph.inputs
    listed = [value for value in inputs if value.is_initializer()]
    for value in listed:
        inputs.remove(value)
    try:
        yield
    finally:
        if listed or model.ir_version < 4:
            list_initializers_as_inputs(model)


@contextmanager
def presented(model: ir.Model, *, with_values: bool, as_inputs: bool) -> Iterator[None]:
    """A context in which the model has no initializers (`with_values=False`), or lists them as inputs (`as_inputs`)."""
    graph = model.graph
    initializers, inputs = list(graph.initializers.values()), list(graph.inputs)
    listed = set(inputs)
    if as_inputs:
        graph.inputs.extend(value for value in initializers if value not in listed)
    if not with_values:
        graph.initializers.clear()
    try:
        yield
    finally:
        if not with_values:
            for value in initializers:
                graph.initializers.add(value)
        if as_inputs:
            graph.inputs.clear()
            graph.inputs.extend(inputs)

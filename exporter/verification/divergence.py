"""Finds where a model that returns wrong results becomes wrong: the first value inside it that differs from torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from onnx_parity.exporter.arrays import Float64Array, in_width, to_array
from onnx_parity.exporter.graph.graph import Node, operator_name
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload
from onnx_parity.exporter.verification.intermediates import computed, shared_values
from onnx_parity.exporter.verification.oracle import expect, judge
from onnx_parity.exporter.verification.trials import Trial

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram

__all__ = ["describe_divergence"]

#: What an operator may raise that has no kernel in float64.
_FAILURES = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


def describe_divergence(program: ONNXProgram, trial: Trial) -> str:
    """One line for a reader about the first value inside the model that is wrong, with the operator of the program that
    it is the result of. Empty if all values that model and program share are right, or if they cannot be compared."""
    graph = program.source.recorded
    feeds = program.feeds(trial.args, trial.kwargs)
    inputs = [feeds[name] for name in program.input_names]
    tensors = [given for given in inputs if isinstance(given, torch.Tensor)]
    if graph is None or len(tensors) != len(inputs) or any(map(_is_random, graph.live_nodes())):
        return ""
    known = computed(graph, tensors)
    try:
        exact = computed(graph, [in_width(tensor, torch.float64) for tensor in tensors], torch.float64)
    except _FAILURES:
        exact = {}
    shared = {name: value for name, value in shared_values(program).items() if value in known}
    for name, got in zip(shared, program.compute_values(list(shared), trial.args, trial.kwargs), strict=True):
        value = shared[name]
        verdict = judge([to_array(got)], [expect(to_array(known[value]), _as_float64(exact.get(value)))])
        if not verdict.passed and value.node is not None:
            operator, place = operator_name(value.node.op), value.node.origin.placed_in_full
            return f"first wrong value: {name!r}, of {operator}{place}: {verdict.detail.removeprefix('output 0 ')}"
    return ""


def _is_random(node: Node) -> bool:
    return isinstance(node.op, OpOverload) and torch.Tag.nondeterministic_seeded in node.op.tags


def _as_float64(tensor: torch.Tensor | None) -> Float64Array | None:
    return None if tensor is None or not tensor.is_floating_point() else to_array(tensor.double())

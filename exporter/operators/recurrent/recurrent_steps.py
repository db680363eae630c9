"""Recurrent layers written out step by step, where ONNX's LSTM, GRU and RNN lack a feature or onnxruntime a kernel.

A step takes the contributions of the input and of the state to the gates, and the state, and returns the next state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["STEPS", "Parameters", "run_direction"]

Step: TypeAlias = Callable[[Graph, Value, Value, "list[Value]", int], "list[Value]"]


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of one layer in one direction, in torch's layout; an LSTM may have a projection (`proj_size`)."""

    input: Value
    state: Value
    input_bias: Value | None
    state_bias: Value | None
    projection: Value | None


def lstm_step(g: Graph, x: Value, h: Value, state: list[Value], hidden: int) -> list[Value]:
    """c' = f * c + i * g; h' = o * tanh(c')"""
    i, f, new, o = g.split(g.op("Add", x, h), 1, [hidden] * 4)
    kept = g.op("Mul", g.op("Sigmoid", f), state[1])
    cell = g.op("Add", kept, g.op("Mul", g.op("Sigmoid", i), g.op("Tanh", new)))
    return [g.op("Mul", g.op("Sigmoid", o), g.op("Tanh", cell)), cell]


def gru_step(g: Graph, x: Value, h: Value, state: list[Value], hidden: int) -> list[Value]:
    """n = tanh(x_n + r * h_n); h' = n + z * (h - n)"""
    x_gates, x_new = g.split(x, 1, [2 * hidden, hidden])
    h_gates, h_new = g.split(h, 1, [2 * hidden, hidden])
    reset, update = g.split(g.op("Sigmoid", g.op("Add", x_gates, h_gates)), 1, [hidden] * 2)
    new = g.op("Tanh", g.op("Add", x_new, g.op("Mul", reset, h_new)))
    return [g.op("Add", new, g.op("Mul", update, g.op("Sub", state[0], new)))]


def rnn_tanh_step(g: Graph, x: Value, h: Value, state: list[Value], hidden: int) -> list[Value]:
    return [g.op("Tanh", g.op("Add", x, h))]


def rnn_relu_step(g: Graph, x: Value, h: Value, state: list[Value], hidden: int) -> list[Value]:
    return [g.op("Relu", g.op("Add", x, h))]


#: By ATen operator: its step, and the number of its gates.
STEPS: dict[str, tuple[Step, int]] = {
    "aten::lstm": (lstm_step, 4),
    "aten::gru": (gru_step, 3),
    "aten::rnn_tanh": (rnn_tanh_step, 1),
    "aten::rnn_relu": (rnn_relu_step, 1),
}


class _Direction(msgspec.Struct, frozen=True):
    """One layer in one direction."""

    g: Graph
    step: Step
    parameters: Parameters
    hidden: int
    #: The shape of the gates at a step.
    gates_shape: tuple[Size, ...]

    def next(self, from_input: Value, state: list[Value], has_step: Value | None) -> list[Value]:
        """The state after a step. Where a sequence does not have the step, it is the state before it."""
        g, parameters = self.g, self.parameters
        from_state = shaped(_affine(g, state[0], parameters.state, parameters.state_bias), self.gates_shape)
        made = self.step(g, shaped(from_input, self.gates_shape), from_state, state, self.hidden)
        if parameters.projection is not None:
            made[0] = g.matmul(made[0], g.transpose(parameters.projection, [1, 0]))
        if has_step is not None:
            made = [g.where(has_step, after, before) for after, before in zip(made, state, strict=True)]
        return [shaped(after, before.sizes) for after, before in zip(made, state, strict=True)]


def run_direction(
    g: Graph,
    operator: str,
    x: Value,
    state: list[Value],
    parameters: Parameters,
    backwards: bool,
    has_step: Value | None = None,
) -> tuple[Value, list[Value]]:
    """One layer in one direction over (step, batch, feature): its outputs, and its final states (batch, hidden).

    `has_step` (step, batch) says which sequences have a step; without it all have.
    """
    step, gates = STEPS[operator]
    hidden = int(parameters.state.sizes[0]) // gates
    direction = _Direction(g, step, parameters, hidden, (x.sizes[1], gates * hidden))
    from_inputs = _affine(g, x, parameters.input, parameters.input_bias)
    steps = x.sizes[0]
    if not isinstance(steps, int):
        return _in_a_loop(direction, from_inputs, steps, state, backwards, has_step)
    of_steps = [g.squeeze(part, [0]) for part in g.split(from_inputs, 0, [1] * steps)]
    flags: list[Value | None] = [None] * steps
    if has_step is not None:
        flags = [g.transpose(part, [1, 0]) for part in g.split(has_step, 0, [1] * steps)]
    order = range(steps)[::-1] if backwards else range(steps)
    outputs: list[Value] = []
    for place in order:
        state = direction.next(of_steps[place], state, flags[place])
        outputs.append(g.unsqueeze(state[0], [0]))
    if backwards:
        outputs.reverse()
    return (g.op("Concat", *outputs, axis_i=0) if steps > 1 else outputs[0]), state


def _in_a_loop(
    direction: _Direction, from_inputs: Value, steps: Size, state: list[Value], backwards: bool, has_step: Value | None
) -> tuple[Value, list[Value]]:
    g = direction.g
    last = g.scalar(steps - 1, torch.int64)

    def advance(number: Value, carried: list[Value]) -> list[Value]:
        place = g.op("Sub", last, number) if backwards else number
        from_input = g.op("Gather", from_inputs, place, axis_i=0)
        flag = None if has_step is None else g.unsqueeze(g.op("Gather", has_step, place, axis_i=0), [1])
        made = direction.next(from_input, carried, flag)
        return [*made, made[0]]

    *ends, outputs = g.repeat(steps, state, advance)
    if backwards:
        outputs = shaped(g.op("Gather", outputs, g.op("Sub", last, g.iota(steps)), axis_i=0), outputs.sizes)
    return outputs, ends


def _affine(g: Graph, x: Value, weight: Value, bias: Value | None) -> Value:
    product = g.matmul(x, g.transpose(weight, [1, 0]))
    return product if bias is None else g.op("Add", product, bias)

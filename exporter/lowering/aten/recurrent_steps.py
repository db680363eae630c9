"""Recurrent layers written out step by step, where ONNX's LSTM, GRU and RNN lack a feature or onnxruntime a kernel.

A step takes the contributions of the input and of the state to the gates, and the state, and returns the next state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = ["STEPS", "Parameters", "run_direction"]

Step: TypeAlias = Callable[[Graph, Value, Value, "list[Value]", int], "list[Value]"]


@dataclass(frozen=True, slots=True)
class Parameters:
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


def run_direction(
    g: Graph, operator: str, x: Value, state: list[Value], parameters: Parameters, backwards: bool
) -> tuple[Value, list[Value]]:
    """One layer in one direction over (step, batch, feature): its outputs, and its final states (batch, hidden)."""
    step, gates = STEPS[operator]
    steps = x.sizes[0]
    if not isinstance(steps, int):
        what = "with projections" if parameters.projection is not None else f"of {x.dtype}"
        g.unsupported(
            f"{operator} {what} is written step by step, so the number of steps must be known at export: remove that "
            "axis from dynamic_axes"
        )
    hidden = int(parameters.state.sizes[0]) // gates
    batch = x.sizes[1]
    shared = _affine(g, x, parameters.input, parameters.input_bias)
    shares = [g.squeeze(part, [0]) for part in g.split(shared, 0, [1] * steps)]
    outputs: list[Value] = []
    for share in reversed(shares) if backwards else shares:
        shaped(share, (batch, gates * hidden))
        own = shaped(_affine(g, state[0], parameters.state, parameters.state_bias), (batch, gates * hidden))
        state = step(g, share, own, state, hidden)
        if parameters.projection is not None:
            state[0] = g.matmul(state[0], g.transpose(parameters.projection, [1, 0]))
        outputs.append(g.unsqueeze(state[0], [0]))
    if backwards:
        outputs.reverse()
    return (g.op("Concat", *outputs, axis_i=0) if steps > 1 else outputs[0]), state


def _affine(g: Graph, x: Value, weight: Value, bias: Value | None) -> Value:
    product = g.matmul(x, g.transpose(weight, [1, 0]))
    return product if bias is None else g.op("Add", product, bias)

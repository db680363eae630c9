"""Recurrent layers, by the equations of the specification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from onnx_parity.harness.onnx_node import Array, call, definition, node

Activation: TypeAlias = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    made: Array = 1 / (1 + np.exp(-x))
    return made


#: Each is made of its alpha and beta, which are these where the operator does not give them.
_ACTIVATIONS: dict[str, tuple[Callable[[float, float], Activation], float, float]] = {
    "Tanh": (lambda alpha, beta: np.tanh, 0.0, 0.0),
    "Sigmoid": (lambda alpha, beta: _sigmoid, 0.0, 0.0),
    "Relu": (lambda alpha, beta: lambda x: np.maximum(x, 0), 0.0, 0.0),
    "Affine": (lambda alpha, beta: lambda x: alpha * x + beta, 1.0, 0.0),
    "LeakyRelu": (lambda alpha, beta: lambda x: np.where(x < 0, alpha * x, x), 0.01, 0.0),
    "ScaledTanh": (lambda alpha, beta: lambda x: alpha * np.tanh(beta * x), 1.0, 1.0),
    "HardSigmoid": (lambda alpha, beta: lambda x: np.clip(alpha * x + beta, 0, 1), 0.2, 0.5),
    "Elu": (lambda alpha, beta: lambda x: np.where(x < 0, alpha * np.expm1(x), x), 1.0, 0.0),
    "Softsign": (lambda alpha, beta: lambda x: x / (1 + np.abs(x)), 0.0, 0.0),
    "Softplus": (lambda alpha, beta: lambda x: np.logaddexp(x, 0), 0.0, 0.0),
}
_TAKE_ALPHA = ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu")
_TAKE_BETA = ("Affine", "ScaledTanh", "HardSigmoid")


def _activations(names: Sequence[str], alphas: Any, betas: Any) -> list[Activation]:
    """The numbers go to those activations, in their order, that take them."""
    left, right = iter(alphas or ()), iter(betas or ())
    made = []
    for name in names:
        make, alpha, beta = _ACTIVATIONS[name]
        made.append(make(next(left, alpha) if name in _TAKE_ALPHA else alpha,
                         next(right, beta) if name in _TAKE_BETA else beta))  # fmt: skip
    return made


def _run(
    x: Array, w: Array, r: Array, b: Any, lengths: Any, states: Sequence[Any], *, gates: int, step: Callable[..., Any],
    usual: Sequence[str], direction: str, hidden_size: int, activations: Any, activation_alpha: Any,
    activation_beta: Any, clip: Any, layout: int, **_: Any,
) -> tuple[Array, ...]:  # fmt: skip
    """All steps of all directions. `step` makes the next states from a product with the inputs and the last states."""
    if layout:
        x = x.swapaxes(0, 1)
        states = [None if state is None else state.swapaxes(0, 1) for state in states]
    time, batch, _ = x.shape
    ways = 2 if direction == "bidirectional" else 1
    names = list(activations or [*usual] * ways)
    if len(names) < len(usual) * ways:
        names = names * ways
    bias = np.zeros((ways, 2 * gates * hidden_size)) if b is None else b
    ends = np.full(batch, time) if lengths is None else lengths
    functions = _activations(names, activation_alpha, activation_beta)
    every = np.zeros((time, ways, batch, hidden_size))
    last = [np.zeros((ways, batch, hidden_size)) for _ in states]

    def bounded(function: Activation) -> Activation:
        return (lambda value: function(np.clip(value, -clip, clip))) if clip else function

    for way in range(ways):
        mine = list(map(bounded, functions[way * len(usual) : (way + 1) * len(usual)]))
        for row in range(batch):
            current = [np.zeros(hidden_size) if state is None else state[way, row] for state in states]
            places: Any = range(int(ends[row]))
            for place in reversed(places) if direction == "reverse" or way else places:
                current = step(x[place, row], w[way], r[way], bias[way], current, mine, way)
                every[place, way, row] = current[0]
            for kept, state in zip(last, current, strict=True):
                kept[way, row] = state
    if layout:
        return every.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in last)
    return every, *last


@definition
def simple(x: Array, w: Array, r: Array, b: Any = None, lengths: Any = None, initial_h: Any = None, *,
           hidden_size: int, direction: str, activations: Any = None, activation_alpha: Any = None,
           activation_beta: Any = None, clip: Any = None, layout: int = 0) -> tuple[Array, ...]:  # fmt: skip
    def step(x: Array, w: Array, r: Array, b: Array, states: Sequence[Array], functions: Any, way: int) -> list[Array]:
        input_bias, hidden_bias = np.split(b, 2)
        return [functions[0](w @ x + r @ states[0] + input_bias + hidden_bias)]

    return _run(x, w, r, b, lengths, [initial_h], gates=1, step=step, usual=("Tanh",), direction=direction,
                hidden_size=hidden_size, activations=activations, activation_alpha=activation_alpha,
                activation_beta=activation_beta, clip=clip, layout=layout)  # fmt: skip


@definition
def gated(x: Array, w: Array, r: Array, b: Any = None, lengths: Any = None, initial_h: Any = None, *,
          linear_before_reset: int, hidden_size: int, direction: str, activations: Any = None,
          activation_alpha: Any = None, activation_beta: Any = None, clip: Any = None, layout: int = 0,
          ) -> tuple[Array, ...]:  # fmt: skip
    def step(x: Array, w: Array, r: Array, b: Array, states: Sequence[Array], functions: Any, way: int) -> list[Array]:
        (before,) = states
        wz, wr, wh, rz, rr, rh = np.split(b, 6)
        (zx, rx, hx), (uz, ur, uh) = np.split(w @ x, 3), np.split(r, 3)
        update = functions[0](zx + uz @ before + wz + rz)
        reset = functions[0](rx + ur @ before + wr + rr)
        if linear_before_reset:
            hidden = functions[1](hx + reset * (uh @ before + rh) + wh)
        else:
            hidden = functions[1](hx + uh @ (reset * before) + rh + wh)
        return [(1 - update) * hidden + update * before]

    return _run(x, w, r, b, lengths, [initial_h], gates=3, step=step, usual=("Sigmoid", "Tanh"), direction=direction,
                hidden_size=hidden_size, activations=activations, activation_alpha=activation_alpha,
                activation_beta=activation_beta, clip=clip, layout=layout)  # fmt: skip


@definition
def long_short_term(x: Array, w: Array, r: Array, b: Any = None, lengths: Any = None, initial_h: Any = None,
                    initial_c: Any = None, peepholes: Any = None, *, hidden_size: int, direction: str,
                    input_forget: int, activations: Any = None, activation_alpha: Any = None,
                    activation_beta: Any = None, clip: Any = None, layout: int = 0) -> tuple[Array, ...]:  # fmt: skip
    def step(x: Array, w: Array, r: Array, b: Array, states: Sequence[Array], functions: Any, way: int) -> list[Array]:
        before, cell = states
        input_bias, hidden_bias = np.split(b, 2)
        i, o, f, c = np.split(w @ x + r @ before + input_bias + hidden_bias, 4)
        pi, po, pf = np.split(peepholes[way], 3) if peepholes is not None else (0, 0, 0)
        gate = functions[0](i + pi * cell)
        forget = 1 - gate if input_forget else functions[0](f + pf * cell)
        new = forget * cell + gate * functions[1](c)
        return [functions[0](o + po * new) * functions[2](new), new]

    return _run(x, w, r, b, lengths, [initial_h, initial_c], gates=4, step=step, usual=("Sigmoid", "Tanh", "Tanh"),
                direction=direction, hidden_size=hidden_size, activations=activations, clip=clip, layout=layout,
                activation_alpha=activation_alpha, activation_beta=activation_beta)  # fmt: skip


def _calls(gates: int, other: Sequence[str], states: int) -> list[Any]:
    """The calls of a layer with so many gates and states, of 2 features and 3 hidden ones, over 3 steps of 2 rows."""
    size, x = 3, (3, 2, 2)
    one = [(1, gates * size, 2), (1, gates * size, size)]
    two = [(2, gates * size, 2), (2, gates * size, size)]
    bias, biases = (1, 2 * gates * size), (2, 2 * gates * size)
    begin, begins = [(1, 2, size)] * states, [(2, 2, size)] * states
    return [
        call(x, *one, hidden_size=size, outputs=range(1 + states)),
        call(x, *one, bias, hidden_size=size, outputs=range(1 + states)),
        call(x, *one, bias, [3, 1], hidden_size=size),
        call(x, *one, bias, None, *begin, hidden_size=size),
        call(x, *one, bias, None, *begin, hidden_size=size, direction="reverse"),
        call(x, *one, bias, [3, 2], hidden_size=size, direction="reverse"),
        call(x, *two, biases, None, *begins, hidden_size=size, direction="bidirectional"),
        call(x, *one, bias, hidden_size=size, clip=0.5),
        call(x, *one, bias, hidden_size=size, activations=list(other)),
        call(x, *one, hidden_size=size, activations=["HardSigmoid", *["Affine"] * (len(other) - 1)],
             activation_alpha=[0.3] * len(other), activation_beta=[0.4] * len(other)),
        call((2, 3, 2), *one, bias, hidden_size=size, layout=1),
        call(x, *one, hidden_size=size, outputs=[1]),
        call(x, *one, hidden_size=size, outputs=[0]),
        call((3, 0, 2), *one, hidden_size=size, outputs=range(1 + states)),
        call((1, 1, 1), (1, gates, 1), (1, gates, 1), hidden_size=1),
    ]  # fmt: skip


rnn = node("RNN", simple, *_calls(1, ["Relu"], 1), low=-1.0, high=1.0)
gru = node(
    "GRU",
    gated,
    *_calls(3, ["Softsign", "Relu"], 1),
    call((3, 2, 2), (1, 9, 2), (1, 9, 3), (1, 18), hidden_size=3, linear_before_reset=1),
    low=-1.0,
    high=1.0,
)
_PEEPHOLES = ((3, 2, 2), (1, 12, 2), (1, 12, 3), (1, 24), None, None, None, (1, 9))
lstm = node(
    "LSTM",
    long_short_term,
    *_calls(4, ["Sigmoid", "Softsign", "Relu"], 2),
    call(*_PEEPHOLES, hidden_size=3),
    call((3, 2, 2), (1, 12, 2), (1, 12, 3), (1, 24), hidden_size=3, input_forget=1),
    call((3, 2, 2), (1, 12, 2), (1, 12, 3), hidden_size=3, outputs=[2]),
    low=-1.0,
    high=1.0,
)

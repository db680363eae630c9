"""Recurrent networks: LSTM, GRU and RNN of any number of layers, in one or both directions."""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.recurrent.packed_sequences import Padding, padded, repacked
from onnx_parity.exporter.operators.recurrent.recurrent_steps import Parameters, run_direction
from onnx_parity.exporter.recording.fakes.metadata import data_dependent_size
from onnx_parity.exporter.registry.lowerings import lowering
from onnx_parity.exporter.registry.results import Contiguous, result_of


class _Cell(msgspec.Struct, frozen=True):
    """ONNX's operator, the order in which it has torch's gates, and how many states it returns."""

    op: str
    gates: tuple[int, ...]
    states: int
    attributes: dict[str, Any]


# The gates of an LSTM are input, forget, cell, output in torch, and input, output, forget, cell in ONNX.
_LSTM = _Cell("LSTM", (0, 3, 1, 2), 2, {})
# Those of a GRU are reset, update, new in torch, and update, reset, hidden in ONNX. torch resets after the product.
_GRU = _Cell("GRU", (1, 0, 2), 1, {"linear_before_reset_i": 1})
_RNN_TANH = _Cell("RNN", (0,), 1, {})
_RNN_RELU = _Cell("RNN", (0,), 1, {"activations_s": ["Relu"]})


@lowering("aten::lstm.input")
def lstm(
    g: Graph, input: Value, hx: list[Value], params: list[Value], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    layers = _Layers(g, _LSTM, params, has_biases, num_layers, dropout if train else 0, bidirectional)
    return layers.run(input, hx, batch_first)


@lowering("aten::gru.input", "aten::rnn_tanh.input", "aten::rnn_relu.input")
def gru_or_rnn(
    g: Graph, input: Value, hx: Value, params: list[Value], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    cell = {"aten::gru": _GRU, "aten::rnn_tanh": _RNN_TANH, "aten::rnn_relu": _RNN_RELU}[g.operator]
    layers = _Layers(g, cell, params, has_biases, num_layers, dropout if train else 0, bidirectional)
    return layers.run(input, [hx], batch_first)


@lowering("aten::lstm.data")
def lstm_over_packed(
    g: Graph, data: Value, batch_sizes: Value, hx: list[Value], params: list[Value], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Value, ...]:  # fmt: skip
    layers = _Layers(g, _LSTM, params, has_biases, num_layers, dropout if train else 0, bidirectional)
    return layers.run_packed(data, batch_sizes, hx)


@lowering("aten::gru.data", "aten::rnn_tanh.data", "aten::rnn_relu.data")
def gru_or_rnn_over_packed(
    g: Graph, data: Value, batch_sizes: Value, hx: Value, params: list[Value], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool,
) -> tuple[Value, ...]:  # fmt: skip
    cell = {"aten::gru": _GRU, "aten::rnn_tanh": _RNN_TANH, "aten::rnn_relu": _RNN_RELU}[g.operator]
    layers = _Layers(g, cell, params, has_biases, num_layers, dropout if train else 0, bidirectional)
    return layers.run_packed(data, batch_sizes, [hx])


class _Layers:
    """A stack of layers. `params` has the weights and then the biases, layer by layer and direction by direction."""

    def __init__(
        self, g: Graph, cell: _Cell, params: list[Value], has_biases: bool, num_layers: int, dropout: float,
        bidirectional: bool,
    ) -> None:  # fmt: skip
        self.g = g
        self.cell = cell
        self.num_layers = num_layers
        self.dropout = dropout
        self.directions = 2 if bidirectional else 1
        self.has_biases = has_biases
        each = len(params) // (num_layers * self.directions)
        self.projects = each == (5 if has_biases else 3)
        self.params = [params[i : i + each] for i in range(0, len(params), each)]
        #: The lengths of the sequences, and (step, sequence) which of them have a step; None if all have every step.
        self.lengths: Value | None = None
        self.has_step: Value | None = None
        self.hidden = int(params[0].sizes[0]) // len(cell.gates)

    def run(self, x: Value, states: list[Value], batch_first: bool) -> tuple[Value, ...]:
        g = self.g
        if batch_first:
            x = g.transpose(x, [1, 0, 2])
        # Of float64, onnxruntime has kernels for LSTM and GRU that fail at run time, and none for RNN.
        stepwise = self.projects or x.dtype is torch.float64
        initial = [self._per_layer(state, zeros=stepwise) for state in states]
        finals: list[list[Value]] = [[] for _ in states]
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = g.dropout(x, self.dropout)
            run_layer = self._layer_by_steps if stepwise else self._layer
            x, last = run_layer(layer, x, [state[layer] for state in initial])
            for collected, state in zip(finals, last, strict=True):
                collected.append(state)
        if batch_first:
            x = g.transpose(x, [1, 0, 2])
        return (x, *(f[0] if len(f) == 1 else g.op("Concat", *f, axis_i=0) for f in finals))

    def run_packed(self, data: Value, batch_sizes: Value, states: list[Value]) -> tuple[Value, ...]:
        g = self.g
        padding = Padding(g, batch_sizes)
        self.lengths, self.has_step = g.cast(padding.lengths, torch.int32), padding.has_step
        x = shaped(padded(g, data, padding), (batch_sizes.sizes[0], states[0].sizes[1], data.sizes[1]))
        y, *finals = self.run(x, states, batch_first=False)
        return (repacked(g, y, padding, 3), *finals)

    def _per_layer(self, state: Value, *, zeros: bool) -> list[Value | None]:
        """The initial state of each layer; None stands for zeros, the default of ONNX's operators."""
        if state.filled == 0 and not zeros:
            return [None] * self.num_layers
        return list(self.g.split(state, 0, [self.directions] * self.num_layers))

    def _layer_by_steps(self, layer: int, x: Value, initial: list[Value | None]) -> tuple[Value, list[Value]]:
        g = self.g
        operator = g.operator
        starts = [g.split(state, 0, [1] * self.directions) for state in initial if state is not None]
        outputs: list[Value] = []
        ends: list[list[Value]] = [[] for _ in starts]
        for direction, params in enumerate(self.params[layer * self.directions : (layer + 1) * self.directions]):
            input_bias, state_bias = params[2:4] if self.has_biases else (None, None)
            projection = params[-1] if self.projects else None
            parameters = Parameters(params[0], params[1], input_bias, state_bias, projection)
            # The hidden state has the size of the projection, or that of the cell.
            sizes = (params[1].sizes[1], self.hidden)
            state = [
                shaped(g.squeeze(start[direction], [0]), (x.sizes[1], size))
                for start, size in zip(starts, sizes[: len(starts)], strict=True)
            ]
            y, last = run_direction(g, operator, x, state, parameters, direction == 1, self.has_step)
            outputs.append(y)
            for end, final in zip(ends, last, strict=True):
                end.append(g.unsqueeze(final, [0]))
        y = g.op("Concat", *outputs, axis_i=2) if len(outputs) > 1 else outputs[0]
        shaped(y, (*x.sizes[:2], self.directions * int(self.params[0][1].sizes[1])))
        return y, [g.op("Concat", *end, axis_i=0) if len(end) > 1 else end[0] for end in ends]

    def _layer(self, layer: int, x: Value, initial: list[Value | None]) -> tuple[Value, list[Value]]:
        g = self.g
        params = self.params[layer * self.directions : (layer + 1) * self.directions]
        weights = self._stacked([self._gates(p[0]) for p in params])
        recurrent = self._stacked([self._gates(p[1]) for p in params])
        biases = None
        if self.has_biases:
            biases = self._stacked([g.op("Concat", self._gates(p[2]), self._gates(p[3]), axis_i=0) for p in params])
        attributes = dict(self.cell.attributes)
        if self.directions == 2:
            attributes["direction_s"] = "bidirectional"
            if "activations_s" in attributes:
                attributes["activations_s"] = attributes["activations_s"] * 2
        operands = [x, weights, recurrent, biases, self.lengths, *initial]
        while operands[-1] is None:
            operands.pop()
        y, *last = g.op(self.cell.op, *operands, hidden_size_i=self.hidden, **attributes, outputs=1 + self.cell.states)
        # (sequence, direction, batch, hidden) to (sequence, batch, direction * hidden).
        if self.directions == 1:
            return g.squeeze(y, [1]), last
        return g.op("Reshape", g.transpose(y, [0, 2, 1, 3]), g.ints([0, 0, self.directions * self.hidden])), last

    def _gates(self, parameter: Value) -> Value:
        """A weight or bias with the gates in ONNX's order."""
        if len(self.cell.gates) == 1:
            return parameter
        parts = self.g.split(parameter, 0, [self.hidden] * len(self.cell.gates))
        return self.g.op("Concat", *[parts[gate] for gate in self.cell.gates], axis_i=0)

    def _stacked(self, parameters: list[Value]) -> Value:
        """The parameters of the directions stacked along a new first axis."""
        stacked = [self.g.unsqueeze(parameter, [0]) for parameter in parameters]
        return stacked[0] if len(stacked) == 1 else self.g.op("Concat", *stacked, axis_i=0)


# --- results ----------------------------------------------------------------------------------------------------------


@result_of(
    *(f"aten::{name}.{form}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")),
    why=(
        "torch computes the sequence step by step, which would fix its length, and reads the number of packed "
        "sequences at each step as plain ints"
    ),
)
def recurrent(input: torch.Tensor, *args: Any) -> tuple[Contiguous, ...]:
    is_packed = isinstance(args[2], (list, tuple))
    hx, bidirectional = (args[1], args[7]) if is_packed else (args[0], args[6])
    states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
    # The output has the size of the state, also in an LSTM with projections.
    features = states[0].shape[-1] * (2 if bidirectional else 1)
    output = Contiguous(input.dtype, (*input.shape[:-1], features))
    return output, *(Contiguous(state.dtype, tuple(state.shape)) for state in states)


@result_of("aten::_pack_padded_sequence", why="torch has no kernel for it that works without values", static=False)
def pack_padded_sequence(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[Contiguous, ...]:
    """The steps of all sequences, and the number of sequences at each step."""
    rows, steps = data_dependent_size(input), data_dependent_size(input)
    data = Contiguous(input.dtype, (rows, *input.shape[2:]))
    return data, Contiguous(torch.int64, (steps,), torch.device("cpu"))


@result_of("aten::_pad_packed_sequence", why="torch has no kernel for it that works without values", static=False)
def pad_packed_sequence(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Contiguous, ...]:
    steps = batch_sizes.shape[0] if total_length <= 0 else total_length
    batch = data_dependent_size(data)
    first: tuple[Size, ...] = (batch, steps) if batch_first else (steps, batch)
    padded = Contiguous(data.dtype, (*first, *data.shape[1:]))
    return padded, Contiguous(torch.int64, (batch,), torch.device("cpu"))

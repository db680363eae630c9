"""Recurrent layers with quantized weights, as `torch.ao.quantization.quantize_dynamic` makes them: a loop of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.operators.quantization.packed_weights import unpack_weights
from onnx_parity.exporter.operators.quantization.recorded import product_of_rounded
from onnx_parity.exporter.operators.recurrent.recorded import step_of_gru, step_of_lstm
from onnx_parity.exporter.recording.evaluate import outside_of_recording
from onnx_parity.exporter.registry.recorded import instead_of
from onnx_parity.exporter.torch_inside.higher_order_ops import scan

#: The product of its argument with a matrix of the layer.
_Product = Callable[[torch.Tensor], torch.Tensor]
#: Takes the products of the input and of the state, and the states; returns the next states.
_Step = Callable[[torch.Tensor, torch.Tensor, Sequence[torch.Tensor]], Sequence[torch.Tensor]]


@instead_of("aten::quantized_lstm.input", why="torch's kernel has no lowering, and its sizes are constant")
def quantized_lstm(
    input: torch.Tensor, hx: Sequence[torch.Tensor], params: Sequence[Any], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool, *, dtype: Any = None,
    use_dynamic: bool = False,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    return _layers(input, hx, params, bidirectional, batch_first, dropout if train else 0, _next_of_lstm)


@instead_of("aten::quantized_gru.input", why="torch's kernel has no lowering, and its sizes are constant")
def quantized_gru(
    input: torch.Tensor, hx: torch.Tensor, params: Sequence[Any], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    return _layers(input, [hx], params, bidirectional, batch_first, dropout if train else 0, _next_of_gru)


def _next_of_lstm(of_input: torch.Tensor, own: torch.Tensor, states: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    return step_of_lstm(own + of_input, states[1])


def _next_of_gru(of_input: torch.Tensor, own: torch.Tensor, states: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    return [step_of_gru(of_input, own, states[0])]


def _layers(
    x: torch.Tensor, initial: Sequence[torch.Tensor], params: Sequence[Any], bidirectional: bool, batch_first: bool,
    dropout: float, step: _Step,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    x = x.transpose(0, 1) if batch_first else x
    directions = 1 + bidirectional
    ends: list[Sequence[torch.Tensor]] = []
    for number in range(0, len(params), directions):
        if number and dropout:
            x = torch.nn.functional.dropout(x, dropout)
        outputs = []
        for direction in range(directions):
            states = [each[number + direction] for each in initial]
            of_input, of_state = _products(params[number + direction])
            last, output = _direction(x, states, of_input, of_state, step, bool(direction))
            ends.append(last)
            outputs.append(output)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
    stacked = (torch.stack([last[place] for last in ends]) for place in range(len(initial)))
    return x.transpose(0, 1) if batch_first else x, *stacked


def _direction(
    x: torch.Tensor, states: Sequence[torch.Tensor], of_input: _Product, of_state: _Product, step: _Step, reverse: bool
) -> tuple[Sequence[torch.Tensor], torch.Tensor]:
    """The last states, and the outputs of all steps. All of the input is rounded to one grid, and each state to its
    own."""

    def combine(carried: Sequence[torch.Tensor], given: torch.Tensor) -> tuple[Sequence[torch.Tensor], torch.Tensor]:
        new = [each.clone() for each in step(given, of_state(carried[0]), carried)]
        return new, new[0].clone()

    last, outputs = scan(combine, list(states), of_input(x), dim=0, reverse=reverse)
    return last, outputs


def _products(params: Any) -> Iterator[_Product]:
    """The products with the matrices of the input and of the state, whose biases are packed with them.

    The matrices are unpacked outside of the loop, where onnxruntime wants them.
    """
    with outside_of_recording():
        kind, _, _, options, packed = params.__getstate__()[0]
    for each in packed[:2]:
        if kind == "quantized_dynamic":
            weight, bias = unpack_weights(each)
            yield partial(product_of_rounded, weight=weight, bias=bias, reduce_range=bool(options[0]))
        elif kind == "quantized_fp16":
            with outside_of_recording():
                weight, bias = each.unpack()
            yield partial(torch.nn.functional.linear, weight=weight, bias=bias)
        else:
            raise refused_here(f"a recurrent layer whose weights are {kind!r} is not exported: use qint8 or float16")

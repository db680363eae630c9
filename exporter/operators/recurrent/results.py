"""The results of recurrent networks, and of packing sequences of different lengths."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.recording.fakes.metadata import data_dependent_size
from onnx_parity.exporter.registry.results import Contiguous, result_of


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

"""What is recorded for recurrent layers, which are kept whole, for their cells, and for fused kernels of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.dispatch.gradients import is_differentiated, is_seen_once
from onnx_parity.exporter.registry.recorded import decomposition_of, instead_of, keep_whole
from onnx_parity.exporter.torch_inside.reference_kernels import gather_params, one_layer_lstm, run_layers

__all__ = ["step_of_gru", "step_of_lstm"]

_aten = torch.ops.aten

keep_whole(
    *(f"aten::{name}.{form}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")),
    why="torch records each step of the sequence; ONNX has LSTM, GRU and RNN",
)
keep_whole("aten::_pad_packed_sequence", why="torch reads the number of sequences at each step as plain ints")


@instead_of("aten::lstm.input", why="torch chooses oneDNN's layer, whose derivative is a kernel too")
def lstm(
    input: torch.Tensor, hx: Sequence[torch.Tensor], params: list[torch.Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    if not is_differentiated() or is_seen_once((input, hx, params)):
        return NotImplemented
    projects = hx[0].shape[2] != hx[1].shape[2]
    of_layers = gather_params(params, has_biases, projects)
    states = list(zip(*hx, strict=True))
    options = has_biases, num_layers, dropout, train, bidirectional, batch_first
    out, last = run_layers(input, states, of_layers, *options, one_layer_lstm)
    return out, *(torch.stack(each, 0) for each in zip(*last, strict=True))


_FUSED_OR_WRITES = (
    "on a GPU torch computes it with one fused kernel, which has no lowering and no equivalent in ONNX; on the CPU it "
    "writes to parts of a tensor, which cannot be differentiated as views"
)


@instead_of("aten::lstm_cell", why=_FUSED_OR_WRITES)
def lstm_cell(
    input: torch.Tensor, hx: Sequence[torch.Tensor], w_ih: torch.Tensor, w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None, b_hh: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    hidden, cell = hx
    return step_of_lstm(_aten.linear(hidden, w_hh, b_hh) + _aten.linear(input, w_ih, b_ih), cell)


def step_of_lstm(gates: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    entering, forgetting, candidate, leaving = gates.chunk(4, 1)
    cell = forgetting.sigmoid() * cell + entering.sigmoid() * candidate.tanh()
    return leaving.sigmoid() * cell.tanh(), cell


@instead_of("aten::gru_cell", why=_FUSED_OR_WRITES)
def gru_cell(
    input: torch.Tensor, hx: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor, b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    return step_of_gru(_aten.linear(input, w_ih, b_ih), _aten.linear(hx, w_hh, b_hh), hx)


def step_of_gru(input_gates: torch.Tensor, hidden_gates: torch.Tensor, hx: torch.Tensor) -> torch.Tensor:
    reset, update, new = input_gates.chunk(3, 1)
    own_reset, own_update, own_new = hidden_gates.chunk(3, 1)
    candidate = (new + own_new * (own_reset + reset).sigmoid()).tanh()
    hidden: torch.Tensor = (hx - candidate) * (own_update + update).sigmoid() + candidate
    return hidden


# --- if it has no lowering --------------------------------------------------------------------------------------------


_TRACED = "it is the fused kernel of a GPU, which torch.jit.trace records in place of the cell"


@decomposition_of("aten::_thnn_fused_lstm_cell", why=_TRACED)
def fused_lstm_cell(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, cx: torch.Tensor, input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    gates = _biased(hidden_gates, hidden_bias) + _biased(input_gates, input_bias)
    return *step_of_lstm(gates, cx), _workspace(gates)


@decomposition_of("aten::_thnn_fused_gru_cell", why=_TRACED)
def fused_gru_cell(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, hx: torch.Tensor, input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    hidden = step_of_gru(_biased(input_gates, input_bias), _biased(hidden_gates, hidden_bias), hx)
    return hidden, _workspace(input_gates)


def _biased(gates: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return gates if bias is None else gates + bias


def _workspace(gates: torch.Tensor) -> torch.Tensor:
    """What the kernel keeps for its derivative, which is not recorded."""
    return gates.new_empty(0)

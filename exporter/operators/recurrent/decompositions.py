"""The fused kernels of recurrent cells on a GPU, which `torch.jit.trace` records in place of the cells."""

from __future__ import annotations

import torch

from onnx_parity.exporter.operators.recurrent.recorded import step_of_gru, step_of_lstm
from onnx_parity.exporter.registry.recorded import decomposition_of

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

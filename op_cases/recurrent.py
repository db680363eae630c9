"""Recurrent layers and cells: LSTM, GRU and RNN in every form that torch offers."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from onnx_parity.harness.case import BATCH, IEEE_FLOATS, Keywords, Rows, floats, given, ints, model, op

#: Why some cases do not run with a NaN.
_NAN_LIMITED = "onnxruntime's recurrent kernels limit NaN to a number"

_STEPS, _BATCH_FIRST, _UNBATCHED = floats(5, 2, 4), floats(2, 5, 4), floats(5, 4)
_FORMS: Rows = [
    {},
    {"bias": False},
    {"num_layers": 3},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "bias": False},
    {"num_layers": 2, "dropout": 0.5},
]
#: Inputs of four features, and a state of three.
_SIZES: Keywords = {"input_size": 4, "hidden_size": 3}
_PROJECTED: Keywords = {"input_size": 4, "hidden_size": 5, "proj_size": 3}
_CELL: Keywords = {**_SIZES, "bias": [True, False]}
_ANY_LENGTH = {"x": {0: "steps", 1: "batch"}}

lstm = op(nn.LSTM, _STEPS, **_SIZES, rows=_FORMS, dynamic=_ANY_LENGTH, without_nan=_NAN_LIMITED)
gru = op(nn.GRU, _STEPS, **_SIZES, rows=_FORMS, dynamic=_ANY_LENGTH, without_nan=_NAN_LIMITED)
rnn = op(nn.RNN, _STEPS, **_SIZES, rows=_FORMS, dynamic=_ANY_LENGTH)
rnn_relu = op(
    nn.RNN, _STEPS, **_SIZES, nonlinearity="relu", rows=_FORMS[2:4], dynamic=_ANY_LENGTH, without_nan=_NAN_LIMITED
)

lstm_batch_first = op(
    nn.LSTM,
    _BATCH_FIRST,
    **_SIZES,
    batch_first=True,
    bidirectional=[False, True],
    dynamic={"x": {0: "batch", 1: "steps"}},
    without_nan=_NAN_LIMITED,
)
gru_batch_first = op(
    nn.GRU, _BATCH_FIRST, **_SIZES, batch_first=True, dynamic={"x": {0: "batch", 1: "steps"}}, without_nan=_NAN_LIMITED
)
rnn_batch_first = op(nn.RNN, _BATCH_FIRST, **_SIZES, batch_first=True, num_layers=2)

lstm_initial_states = op(
    nn.LSTM,
    _STEPS,
    (floats(4, 2, 3), floats(4, 2, 3)),
    **_SIZES,
    num_layers=2,
    bidirectional=True,
    bias=[True, False],
    dynamic={"x0": {1: "batch"}, "x1": {1: "batch"}, "x2": {1: "batch"}},
    without_nan=_NAN_LIMITED,
)
gru_initial_state = op(
    nn.GRU,
    _STEPS,
    floats(4, 2, 3),
    **_SIZES,
    num_layers=2,
    bidirectional=True,
    bias=[True, False],
    without_nan=_NAN_LIMITED,
)
rnn_initial_state = op(
    nn.RNN,
    _STEPS,
    floats(2, 2, 3),
    **_SIZES,
    num_layers=2,
    nonlinearity=["tanh", "relu"],
    dtypes=[torch.float32],
    without_nan=_NAN_LIMITED,
)
lstm_unbatched = op(nn.LSTM, _UNBATCHED, **_SIZES, bidirectional=[False, True], without_nan=_NAN_LIMITED)
lstm_unbatched_states = op(nn.LSTM, _UNBATCHED, (floats(1, 3), floats(1, 3)), **_SIZES, without_nan=_NAN_LIMITED)
gru_unbatched = op(nn.GRU, _UNBATCHED, **_SIZES, num_layers=[1, 2], without_nan=_NAN_LIMITED)
rnn_unbatched = op(nn.RNN, _UNBATCHED, **_SIZES)
lstm_of_no_sequences = op(
    nn.LSTM,
    floats(3, 2, 4),
    **_SIZES,
    dynamic={"x": {1: "batch"}},
    sizes={"batch": [0]},
    tier="full",
    without_nan=_NAN_LIMITED,
)
lstm_projection = op(
    nn.LSTM,
    floats(3, 2, 4),
    **_PROJECTED,
    rows=[{}, {"bias": False}, {"num_layers": 2, "bidirectional": True}],
    dynamic={"x": {1: "batch"}},
)
lstm_projection_any_length = op(
    nn.LSTM,
    _STEPS,
    **_PROJECTED,
    rows=[{}, {"num_layers": 2, "bidirectional": True}],
    dynamic={"x": {0: "steps", 1: "batch"}},
    sizes={"steps": [1, 7]},
    tier="default",
)
double_any_length = op(
    lambda x, layer: layer(x)[0],
    floats(4, 2, 3, dtype=torch.float64),
    layer=[nn.LSTM(3, 4, bidirectional=True).double(), nn.GRU(3, 4, 2).double()],
    dynamic={"x": {0: "steps"}},
    sizes={"steps": [1, 7]},
    tier="default",
)
lstm_projection_states = op(nn.LSTM, _STEPS, (floats(1, 2, 3), floats(1, 2, 5)), **_PROJECTED)
#: In float64, which is computed step by step: onnxruntime's kernels of float32 limit the gates, and so lose NaN.
_WITH_NAN = floats(5, 2, 4, special=(float("nan"),))
lstm_of_nan = op(nn.LSTM, _WITH_NAN, **_SIZES, dtypes=[torch.float64])
gru_of_nan = op(nn.GRU, _WITH_NAN, **_SIZES, dtypes=[torch.float64])
rnn_of_nan = op(nn.RNN, _WITH_NAN, **_SIZES, nonlinearity=["tanh", "relu"], dtypes=[torch.float64])
lstm_dtypes = op(nn.LSTM, _STEPS, **_SIZES, dtypes=IEEE_FLOATS, without_nan=_NAN_LIMITED)
gru_dtypes = op(nn.GRU, _STEPS, **_SIZES, dtypes=IEEE_FLOATS, without_nan=_NAN_LIMITED)
rnn_dtypes = op(nn.RNN, _STEPS, **_SIZES, dtypes=IEEE_FLOATS)

lstm_cell = op(nn.LSTMCell, floats(2, 4), **_CELL, dynamic=BATCH)
lstm_cell_states = op(nn.LSTMCell, floats(2, 4), (floats(2, 3), floats(2, 3)), **_CELL)
gru_cell = op(nn.GRUCell, floats(2, 4), **_CELL, dynamic=BATCH)
gru_cell_state = op(nn.GRUCell, floats(2, 4), floats(2, 3), **_SIZES)
rnn_cell = op(nn.RNNCell, floats(2, 4), **_SIZES, nonlinearity=["tanh", "relu"], bias=[True, False])
rnn_cell_unbatched = op(nn.RNNCell, floats(4), floats(3), **_SIZES)


class _Packed(nn.Module):
    """A recurrent layer over sequences of different lengths, which are packed before it and unpacked after it."""

    def __init__(
        self,
        layer: str,
        *,
        enforce_sorted: bool = False,
        batch_first: bool = False,
        total_length: int | Literal["input"] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.layer = getattr(nn, layer)(4, 3, batch_first=batch_first, **options)
        self.total_length = total_length
        self.batch_first = batch_first
        self.enforce_sorted = enforce_sorted

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, object]:
        packed = pack_padded_sequence(x, lengths, self.batch_first, self.enforce_sorted)
        output, state = self.layer(packed)
        length = x.shape[1 if self.batch_first else 0] if self.total_length == "input" else self.total_length
        padded, own_lengths = pad_packed_sequence(output, self.batch_first, -1.0, length)
        return padded, own_lengths, state


_LENGTHS = ints(3, low=1, high=6)

packed = op(
    _Packed,
    floats(5, 3, 4),
    given([5, 3, 3]),
    layer=["LSTM", "GRU", "RNN"],
    enforce_sorted=True,
    without_nan=_NAN_LIMITED,
)
packed_unsorted = op(
    _Packed,
    floats(5, 3, 4),
    _LENGTHS,
    layer=["LSTM", "GRU"],
    bidirectional=True,
    num_layers=2,
    without_nan=_NAN_LIMITED,
)
packed_batch_first = op(
    _Packed,
    floats(3, 5, 4),
    _LENGTHS,
    layer=["LSTM", "GRU"],
    batch_first=True,
    dynamic={"x0": {0: "batch", 1: "steps"}, "x1": {0: "batch"}},
    sizes={"batch": [1, 4], "steps": [9, 6]},
    without_nan=_NAN_LIMITED,
)
packed_to_length = op(
    _Packed, floats(5, 3, 4), _LENGTHS, layer="GRU", total_length=7, tier="default", without_nan=_NAN_LIMITED
)
packed_to_length_of_input = op(
    _Packed,
    floats(3, 5, 4),
    _LENGTHS,
    layer="GRU",
    batch_first=True,
    total_length="input",
    dynamic={"x0": {0: "batch", 1: "steps"}, "x1": {0: "batch"}},
    sizes={"batch": [1, 4], "steps": [9, 6]},
    tier="default",
    without_nan=_NAN_LIMITED,
)
#: What scripts and `torch._VF` call.
padded_to_length = op(
    lambda data, counts: torch._VF._pad_packed_sequence(data, counts, True, 0.5, 6),
    floats(5, 3),
    given([2, 2, 1]),
    tier="default",
)
packed_by_steps = op(
    _Packed,
    floats(5, 3, 4),
    _LENGTHS,
    rows=[{"layer": "LSTM", "proj_size": 2}, {"layer": "LSTM", "proj_size": 2, "bidirectional": True}],
    dynamic={"x0": {0: "steps", 1: "batch"}, "x1": {0: "batch"}},
    sizes={"batch": [1, 4], "steps": [9, 6]},
    tier="default",
)
packed_fixed = op(
    lambda x, layer: pad_packed_sequence(layer(pack_padded_sequence(x, torch.tensor([5, 3, 2])))[0]),
    floats(5, 3, 4, dtype=torch.float64),
    layer=[nn.LSTM(4, 3, bidirectional=True).double(), nn.GRU(4, 3).double()],
    tier="default",
)
packed_dtypes = op(_Packed, floats(5, 3, 4), _LENGTHS, layer=["LSTM", "GRU", "RNN"], dtypes=[torch.float64])

# --- weights in 8 bits or in float16 ----------------------------------------------------------------------------------


def _recurrent(kind: type[nn.LSTM] | type[nn.GRU], dtype: torch.dtype, **options: Any) -> Any:
    """A recurrent layer whose matrices are in 8 bits, each beside what it multiplies, or in float16."""
    layer = nn.Sequential(kind(4, 3, **options)).eval()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.linspace(-1, 1, weight.numel()).reshape(weight.shape))
    return torch.ao.quantization.quantize_dynamic(layer, {kind}, dtype)


_ANY_STEPS: Keywords = {"dynamic": {"x": {0: "steps", 1: "batch"}}, "sizes": {"steps": [1, 3], "batch": [0, 5]}}
quantized_recurrent = model(
    _recurrent,
    floats(2, 3, 4, dtype=torch.float32),
    kind=[nn.LSTM, nn.GRU],
    dtype=[torch.qint8, torch.float16],
    **_ANY_STEPS,
    tier="smoke",
)
quantized_recurrent_layers = model(
    _recurrent,
    floats(2, 3, 4, dtype=torch.float32),
    kind=nn.LSTM,
    dtype=torch.qint8,
    num_layers=2,
    bidirectional=True,
    **_ANY_STEPS,
    tier="smoke",
)

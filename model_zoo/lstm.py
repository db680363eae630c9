"""Recurrent models: LSTM with the options of its constructor, and with initial states."""

from __future__ import annotations

import torch

from onnx_parity.harness.case import BATCH, Keywords, floats, model

#: Sequence, batch, features; and batch first.
_STEPS = floats(5, 2, 4)
_STEPS_BATCH_FIRST = floats(2, 5, 4)
_SMALL: Keywords = {"input_size": 4, "hidden_size": 3, "tier": "smoke"}

lstm_model = model(
    torch.nn.LSTM,
    _STEPS,
    **_SMALL,
    num_layers=[1, 2],
    bidirectional=[False, True],
    dynamic={"x": {0: "steps", 1: "batch"}},
)
lstm_model_batch_first = model(
    torch.nn.LSTM,
    _STEPS_BATCH_FIRST,
    **_SMALL,
    batch_first=True,
    dynamic=BATCH,
)
lstm_model_initial_states = model(
    torch.nn.LSTM,
    _STEPS,
    (floats(2, 2, 3), floats(2, 2, 3)),
    **_SMALL,
    num_layers=2,
    bias=[True, False],
    dynamic={"x0": {1: "batch"}, "x1": {1: "batch"}, "x2": {1: "batch"}},
)
#: The model of a frequent question: four bidirectional layers over sequences of any length.
lstm_any_length = model(
    torch.nn.LSTM,
    floats(5, 3, 10),
    input_size=10,
    hidden_size=20,
    num_layers=4,
    bidirectional=True,
    dynamic={"x": {0: "sequence", 1: "batch"}},
    sizes={"sequence": [1, 12], "batch": [1, 4]},
    tier="smoke",
)

"""The word language model of PyTorch's examples: four recurrent kinds, with tied weights or not, and a Transformer."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.case import Maker, floats, ints, model

_WORDS, _LAYERS, _WIDTH = 50, 2, 16


class LanguageModel(nn.Module):
    """Dropout, embedding, the recurrent layers of a kind, and a decoder that may share the embedding's weight."""

    def __init__(self, kind: str, tied: bool) -> None:
        super().__init__()
        self.words = _WORDS
        self.drop = nn.Dropout(0.5)
        self.encoder = nn.Embedding(_WORDS, _WIDTH)
        if kind in ("LSTM", "GRU"):
            self.layers: nn.RNNBase = getattr(nn, kind)(_WIDTH, _WIDTH, _LAYERS, dropout=0.5)
        else:
            nonlinearity = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[kind]
            self.layers = nn.RNN(_WIDTH, _WIDTH, _LAYERS, nonlinearity=nonlinearity, dropout=0.5)
        self.decoder = nn.Linear(_WIDTH, _WORDS)
        if tied:
            self.decoder.weight = self.encoder.weight


class RecurrentLanguageModel(LanguageModel):
    """Takes words and a hidden state; returns log-probabilities of the next words and the new state."""

    def forward(self, words: torch.Tensor, *hidden: torch.Tensor) -> tuple[torch.Tensor, object]:
        state = hidden if isinstance(self.layers, nn.LSTM) else hidden[0]
        output, state = self.layers(self.drop(self.encoder(words)), state)
        decoded = self.decoder(self.drop(output)).view(-1, self.words)
        return F.log_softmax(decoded, dim=1), state


class PositionalEncoding(nn.Module):
    """Adds sines and cosines of the position, at as many wavelengths as the model is wide."""

    def __init__(self, width: int, longest: int = 200) -> None:
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(longest, 1, width)
        table[:, 0, 0::2] = torch.sin(position * rate)
        table[:, 0, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.get_buffer("table")[: x.size(0)]


class TransformerLanguageModel(nn.Module):
    """An encoder for the same task, in which no word attends to a later one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_WORDS, _WIDTH)
        self.positions = PositionalEncoding(_WIDTH)
        layer = nn.TransformerEncoderLayer(_WIDTH, nhead=2, dim_feedforward=32, dropout=0.5)
        self.encoder = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.decoder = nn.Linear(_WIDTH, _WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        length = words.size(0)
        mask = torch.log(torch.tril(torch.ones(length, length)))
        x = self.positions(self.embedding(words) * math.sqrt(_WIDTH))
        return F.log_softmax(self.decoder(self.encoder(x, mask=mask)), dim=-1)


def hidden_state() -> Maker:
    """A hidden state, or the cell state of an LSTM."""
    return floats(_LAYERS, 3, _WIDTH)


SENTENCES = ints(7, 3, high=_WORDS)
DYNAMIC = {"x0": {0: "steps", 1: "batch"}, "x1": {1: "batch"}}

word_language_model = model(
    RecurrentLanguageModel,
    SENTENCES,
    hidden_state(),
    kind=["RNN_TANH", "RNN_RELU", "GRU"],
    tied=[False, True],
    dynamic=DYNAMIC,
    tier="smoke",
)
word_language_model_lstm = model(
    RecurrentLanguageModel,
    SENTENCES,
    hidden_state(),
    hidden_state(),
    kind="LSTM",
    tied=[False, True],
    dynamic={**DYNAMIC, "x2": {1: "batch"}},
    tier="smoke",
)
word_language_model_transformer = model(
    TransformerLanguageModel, SENTENCES, dynamic={"x": {0: "steps", 1: "batch"}}, tier="smoke"
)

"""The recurrent word language model of PyTorch's examples as TorchScript, its batch and its sequence dynamic."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import Maker, floats, ints, model

_WORDS, _LAYERS, _WIDTH = 50, 2, 16


class _LanguageModel(nn.Module):
    """Dropout, embedding, the recurrent layers, and a decoder that may share the embedding's weight."""

    def __init__(self, layers: nn.RNNBase, tied: bool) -> None:
        super().__init__()
        self.words = _WORDS
        self.drop = nn.Dropout(0.5)
        self.encoder = nn.Embedding(_WORDS, _WIDTH)
        self.layers = layers
        self.decoder = nn.Linear(_WIDTH, _WORDS)
        if tied:
            self.decoder.weight = self.encoder.weight


class OneState(_LanguageModel):
    def forward(self, words: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        output, hidden = self.layers(self.drop(self.encoder(words)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.words)
        return F.log_softmax(decoded, dim=1), hidden


class TwoStates(_LanguageModel):
    def forward(self, words: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, state = self.layers(self.drop(self.encoder(words)), (hidden, cell))
        decoded = self.decoder(self.drop(output)).view(-1, self.words)
        return F.log_softmax(decoded, dim=1), state


def scripted_language_model(kind: str, tied: bool) -> nn.Module:
    if kind in ("LSTM", "GRU"):
        layers: nn.RNNBase = getattr(nn, kind)(_WIDTH, _WIDTH, _LAYERS, dropout=0.5)
    else:
        layers = nn.RNN(_WIDTH, _WIDTH, _LAYERS, nonlinearity=kind.removeprefix("RNN_").lower(), dropout=0.5)
    written = (TwoStates if kind == "LSTM" else OneState)(layers, tied)
    scripted: nn.Module = torch.jit.script(written)
    return scripted


def _state() -> Maker:
    return floats(_LAYERS, 3, _WIDTH)


_SENTENCES = ints(7, 3, high=_WORDS)
_DYNAMIC = {"x0": {0: "steps", 1: "batch"}, "x1": {1: "batch"}}

scripted_word_language_model = model(
    scripted_language_model,
    _SENTENCES,
    _state(),
    kind=["RNN_TANH", "RNN_RELU", "GRU"],
    tied=[False, True],
    dynamic=_DYNAMIC,
    tier="smoke",
)
scripted_word_language_model_lstm = model(
    scripted_language_model,
    _SENTENCES,
    _state(),
    _state(),
    kind="LSTM",
    tied=[False, True],
    dynamic={**_DYNAMIC, "x2": {1: "batch"}},
    tier="smoke",
)

"""The recurrent word language model of PyTorch's examples as TorchScript, its batch and its sequence dynamic."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import model
from onnx_parity.model_zoo.word_language_model import DYNAMIC, SENTENCES, LanguageModel, hidden_state


class OneState(LanguageModel):
    def forward(self, words: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        output, hidden = self.layers(self.drop(self.encoder(words)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.words)
        return F.log_softmax(decoded, dim=1), hidden


class TwoStates(LanguageModel):
    def forward(self, words: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, state = self.layers(self.drop(self.encoder(words)), (hidden, cell))
        decoded = self.decoder(self.drop(output)).view(-1, self.words)
        return F.log_softmax(decoded, dim=1), state


def scripted_language_model(kind: str, tied: bool) -> nn.Module:
    scripted: nn.Module = torch.jit.script((TwoStates if kind == "LSTM" else OneState)(kind, tied))
    return scripted


scripted_word_language_model = model(
    scripted_language_model,
    SENTENCES,
    hidden_state(),
    kind=["RNN_TANH", "RNN_RELU", "GRU"],
    tied=[False, True],
    dynamic=DYNAMIC,
    tier="smoke",
)
scripted_word_language_model_lstm = model(
    scripted_language_model,
    SENTENCES,
    hidden_state(),
    hidden_state(),
    kind="LSTM",
    tied=[False, True],
    dynamic={**DYNAMIC, "x2": {1: "batch"}},
    tier="smoke",
)

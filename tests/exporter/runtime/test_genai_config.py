"""The file with which onnxruntime-genai runs a language model."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import onnx_parity


class _Decoder(nn.Module):
    """What counts of a language model: tokens and a cache of one layer go in, logits and a longer cache come out."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {
            "num_attention_heads": 2, "num_hidden_layers": 1, "hidden_size": 8, "vocab_size": 11, "bos_token_id": 1,
            "eos_token_id": 2, "max_position_embeddings": 64, "model_type": "llama",
        }  # fmt: skip
        self.config = SimpleNamespace(**sizes, get_text_config=lambda decoder: SimpleNamespace(**sizes))
        self.embed = nn.Embedding(11, 8)

    def forward(self, input_ids: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.embed(input_ids)
        new = x.unflatten(2, (2, 4)).transpose(1, 2)
        return x @ self.embed.weight.T, torch.cat([key, new], 2), torch.cat([value, new], 2)


def _export(path: Path, target: str | None, external_data: bool | None = None) -> None:
    cache = torch.zeros(1, 2, 3, 4)
    onnx_parity.export(
        _Decoder(),
        (torch.tensor([[3, 4]]), cache, cache),
        path,
        input_names=["input_ids", "past.0.key", "past.0.value"],
        output_names=["logits", "cache.0.key", "cache.0.value"],
        dynamic_axes={"input_ids": {1: "sequence"}, "past.0.key": {2: "past"}, "past.0.value": {2: "past"}},
        target=target,
        external_data=external_data,
    )


def test_names_and_sizes_are_those_of_the_model(tmp_path: Path) -> None:
    _export(tmp_path / "decoder.onnx", "onnxruntime")
    written = json.loads((tmp_path / "genai_config.json").read_text("utf-8"))
    assert written == {
        "model": {
            "bos_token_id": 1,
            "eos_token_id": 2,
            "context_length": 64,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "filename": "decoder.onnx",
                "head_size": 4,
                "hidden_size": 8,
                "inputs": {
                    "input_ids": "input_ids",
                    "past_key_names": "past.%d.key",
                    "past_value_names": "past.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "cache.%d.key",
                    "present_value_names": "cache.%d.value",
                },
                "num_attention_heads": 2,
                "num_hidden_layers": 1,
                "num_key_value_heads": 2,
            },
            "type": "decoder",
            "vocab_size": 11,
        },
        "search": {"max_length": 64, "past_present_share_buffer": False},
    }


def test_other_models_and_targets_have_no_such_file(tmp_path: Path) -> None:
    _export(tmp_path / "decoder.onnx", None)
    onnx_parity.export(nn.ReLU(), (torch.randn(2),), tmp_path / "relu.onnx", target="onnxruntime")
    assert not (tmp_path / "genai_config.json").exists()
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        _export(tmp_path / "decoder.onnx", "tensorrt")
    assert str(caught.value) == "target is 'tensorrt': give \"onnxruntime\", or None for a model that any runtime runs"


@pytest.mark.parametrize(
    ("target", "asked", "has_second"), [("onnxruntime", None, True), ("onnxruntime", False, False), (None, None, False)]
)
def test_the_weights_are_in_a_second_file(
    target: str | None, asked: bool | None, has_second: bool, tmp_path: Path
) -> None:
    _export(tmp_path / "decoder.onnx", target, asked)
    assert (tmp_path / "decoder.onnx.data").exists() == has_second

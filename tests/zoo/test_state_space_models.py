"""Models of transformers that compute with a state from token to token run for any number of tokens."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

import onnx_parity

# transformers imports torchvision if it is installed: see there how it has to be imported beside some builds of torch.
if importlib.util.find_spec("torchvision") is not None:
    importlib.import_module("onnx_parity.model_zoo.torchvision_import")
transformers: Any = pytest.importorskip("transformers", reason="needs transformers: install the extra 'zoo'")


#: A layer or two of each of these, of which the configuration is made smaller.
_SMALL: dict[str, dict[str, Any]] = {
    "Mamba": {"hidden_size": 8, "state_size": 4, "num_hidden_layers": 1},
    "Rwkv": {"hidden_size": 8, "attention_hidden_size": 8, "num_hidden_layers": 2},
    "RecurrentGemma": {
        "hidden_size": 16, "lru_width": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", _SMALL)
def test_a_state_is_carried_over_any_number_of_tokens(name: str) -> None:
    config = getattr(transformers, f"{name}Config")(vocab_size=50, pad_token_id=0, **_SMALL[name])
    model = getattr(transformers, f"{name}Model")(config).eval()

    def program(ids: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = model(ids, use_cache=False).last_hidden_state
        return result

    ids = torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(0))
    # RWKV scales its weights in place when it is called for the first time.
    program(ids)
    exported = onnx_parity.export(
        program, (ids,), input_names=["ids"], dynamic_axes={"ids": {0: "batch", 1: "sequence"}}, opset_version=18
    )
    for shape in ((2, 7), (1, 1), (3, 40)):
        other = torch.randint(0, 50, shape, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(exported(other), program(other), rtol=1e-4, atol=1e-5)


def test_the_gated_delta_rule_is_a_loop_over_any_number_of_chunks() -> None:
    module = importlib.import_module("transformers.models.olmo_hybrid.modeling_olmo_hybrid")

    def program(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor) -> Any:
        return module.torch_chunk_gated_delta_rule(
            q, k, v, -g, beta, chunk_size=8, output_final_state=True, use_qk_l2norm_in_kernel=True
        )

    def inputs(batch: int, tokens: int) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(tokens)
        # Two heads of values for each of keys.
        sizes = ((2, 4), (2, 4), (4, 6), (4,), (4,))
        return tuple(torch.rand(batch, tokens, *each, generator=generator) for each in sizes)

    names = ["q", "k", "v", "g", "beta"]
    exported = onnx_parity.export(
        program,
        inputs(2, 7),
        input_names=names,
        dynamic_axes={name: {0: "batch", 1: "sequence"} for name in names},
        opset_version=18,
    )
    for batch, tokens in ((2, 7), (1, 1), (3, 8), (2, 21)):
        other = inputs(batch, tokens)
        for got, wanted in zip(exported(*other), program(*other), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)

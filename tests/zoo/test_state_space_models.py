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


def test_a_selective_scan_is_a_loop_over_any_number_of_tokens() -> None:
    config = transformers.MambaConfig(vocab_size=50, hidden_size=8, state_size=4, num_hidden_layers=1)
    model = transformers.MambaModel(config).eval()

    def program(ids: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = model(ids, use_cache=False).last_hidden_state
        return result

    ids = torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(0))
    exported = onnx_parity.export(
        program, (ids,), input_names=["ids"], dynamic_axes={"ids": {0: "batch", 1: "sequence"}}, opset_version=18
    )
    for shape in ((2, 7), (1, 1), (3, 40)):
        other = torch.randint(0, 50, shape, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(exported(other), program(other), rtol=1e-4, atol=1e-5)

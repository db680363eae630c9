"""Texts about sizes have the names of axes, and none of torch's symbols."""

from __future__ import annotations

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.graph.names_of_axes import in_names_of_axes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[s51 - 1, 3]", "[rows - 1, 3]"),
        ("[s7 + 1, u0, s51]", "[a computed size + 1, a computed size, rows]"),
        ("classes51 and s51x stay", "classes51 and s51x stay"),
    ],
)
def test_symbols_become_names(text: str, words: str) -> None:
    assert in_names_of_axes(text, {"s51": "rows"}) == words


def test_a_refusal_names_no_symbol() -> None:
    @torch.jit.script
    def cut(x: torch.Tensor) -> torch.Tensor:
        y = x[x[:, 0] > 0]
        if bool(x.sum() > 0):
            y = y[1:]
        return y

    with pytest.raises(onnx_parity.OnnxExporterError) as caught:
        onnx_parity.export(cut, (torch.rand(4, 2),), dynamic_shapes=({0: "rows"},), opset_version=9)
    assert "its branches return different shapes" in str(caught.value)
    assert "a computed size" in str(caught.value)

"""What is called instead of a composite operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter import CaptureError
from onnx_parity.exporter.dispatch import composites
from onnx_parity.exporter.registry.recorded import function_for


def written_halves(x: torch.Tensor) -> torch.Tensor:
    first, second = torch.ops.aten.chunk(x * 2, 2)
    first.mul_(second)
    halves: torch.Tensor = first + second
    return halves


def copied_halves(x: torch.Tensor, chunks: int, dim: int = 0) -> list[torch.Tensor]:
    return [each.clone() for each in x.tensor_split(chunks, dim)]


def sliced_halves(x: torch.Tensor, chunks: int, dim: int = 0) -> list[torch.Tensor]:
    size = x.shape[dim] // chunks
    return [x.narrow(dim, at * size, size) for at in range(chunks)]


def replace(monkeypatch: pytest.MonkeyPatch, instead: Callable[..., Any]) -> None:
    monkeypatch.setattr(
        composites,
        "function_for",
        lambda aspect, name: instead if name == "aten::chunk" else function_for(aspect, name),
    )


def test_a_copy_instead_of_a_view_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    replace(monkeypatch, copied_halves)
    with pytest.raises(CaptureError, match=r"aten::chunk: .*\.copied_halves, which is called .*, returns a copy"):
        onnx_parity.export(written_halves, (torch.ones(4, 2),))


@pytest.mark.parametrize("transformed", [lambda call: call, torch.vmap])
def test_a_view_is_taken(transformed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    replace(monkeypatch, sliced_halves)
    program = onnx_parity.export(transformed(written_halves), (torch.randn(4, 2),))
    program.verify()

"""Garbage is not collected while an export runs, and is collected as before afterwards."""

from __future__ import annotations

import gc

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.torch_inside.garbage import leaving_garbage


def test_collections_wait_and_come_back() -> None:
    assert gc.isenabled()
    with leaving_garbage():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collections_come_back_after_a_refusal() -> None:
    def refused(x: torch.Tensor) -> torch.Tensor:
        assert not gc.isenabled()
        left: torch.Tensor = torch._standard_gamma_grad(x, x)
        return left

    with pytest.raises(onnx_parity.ExportError):
        onnx_parity.export(refused, (torch.ones(2, 2),))
    assert gc.isenabled()


def test_who_collects_none_is_left_alone() -> None:
    gc.disable()
    try:
        onnx_parity.export(torch.relu, (torch.ones(2),))
        assert not gc.isenabled()
    finally:
        gc.enable()

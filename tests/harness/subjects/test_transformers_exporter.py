"""transformers' exporter as a subject. A stand-in for it takes what it takes, and gives what it gives."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import onnx_ir
import pytest
import torch

import onnx_parity
from onnx_parity.harness.subjects.exporter_interface import Request
from onnx_parity.harness.subjects.transformers_exporter import TransformersExporter


class _Double(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 2 * x + y


class _Stand:
    """It calls a program with its inputs by name, and marks those that are named as outputs are."""

    def export(self, program: torch.nn.Module, inputs: Mapping[str, torch.Tensor], config: Any) -> Any:
        assert config.dynamic and config.dynamic_shapes == {"x": {0: torch.export.Dim.DYNAMIC}, "y": {}}
        torch.testing.assert_close(program(**inputs), 2 * inputs["x"] + inputs["y"])
        made = onnx_parity.export(_Double(), tuple(inputs.values()), input_names=["input.x", "y"], opset_version=18)
        return SimpleNamespace(program=onnx_ir.from_proto(onnx.load_from_string(made.serialize())))


def test_a_program_is_called_by_the_names_of_its_inputs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand = SimpleNamespace(OnnxExporter=_Stand, OnnxConfig=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "transformers.exporters", stand)
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(exporters=stand))
    inputs = (torch.randn(2, 3), torch.randn(3))
    request = Request(_Double(), inputs, ("x", "y"), {"x": {0: "batch"}})
    captured = TransformersExporter().capture(request)
    data = captured.deliver(18, None)
    assert isinstance(data, bytes)
    assert [each.name for each in onnx.load_from_string(data).graph.input] == ["x", "y"]
    assert captured.deliver(18, tmp_path) == tmp_path / "model.onnx"

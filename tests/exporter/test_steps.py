"""The files besides the model that an export writes on request: a report, and the recorded program."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.export_report import PROGRAM_FILE, REPORT_FILE

X = torch.ones(2, 3)


def test_nothing_is_written_unasked(tmp_path: Path) -> None:
    onnx_parity.export(nn.Linear(3, 2), X, artifacts_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_report(tmp_path: Path) -> None:
    onnx_parity.export(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), X, report=True, profile=True, artifacts_dir=tmp_path)
    text = (tmp_path / REPORT_FILE).read_text()
    assert text.startswith("# ONNX export: succeeded\n")
    for line in ("| record | 0.", "- `aten::linear`", "| `onnx::Gemm` | 1 |", "  return (%output)"):
        assert line in text


def test_report_of_a_failure(tmp_path: Path) -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError):
        onnx_parity.export(lambda x: torch._standard_gamma_grad(x, x + 1), X, report=True, artifacts_dir=tmp_path)
    text = (tmp_path / REPORT_FILE).read_text()
    assert text.startswith("# ONNX export: failed\n") and "aten::_standard_gamma_grad: there is no lowering" in text
    assert "## Steps" not in text


def test_recorded_program(tmp_path: Path) -> None:
    onnx_parity.export(nn.Linear(3, 2), X, dump_exported_program=True, artifacts_dir=tmp_path)
    lines = (tmp_path / PROGRAM_FILE).read_text().splitlines()
    assert lines[0] == "%input: torch.float32[2, 3]"
    assert lines[1].startswith(
        "%0: torch.float32[2, 2] = aten.linear.default(input=%input, weight=%weight, bias=%bias)"
    )
    assert lines[2] == "return %0"


def test_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(onnx_parity.WriteError) as caught:
        onnx_parity.export(nn.Linear(3, 2), X, report=True, artifacts_dir=tmp_path / "none")
    assert str(caught.value) == f"artifacts_dir is {tmp_path}/none, which is not an existing folder: create it first"

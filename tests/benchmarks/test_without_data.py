"""The benchmark that exports a model without its weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from benchmarks import without_data
from onnx_parity.exporter.files.safetensors_files import SafetensorsFile


def test_the_files_have_every_weight_and_no_data(tmp_path: Path) -> None:
    weights = {f"layer.{number}": torch.empty(100, 1000, dtype=torch.half, device="meta") for number in range(120)}
    files = without_data.write_empty_files(weights, tmp_path)
    entries = [SafetensorsFile.read(file).entries for file in files]
    assert [len(each) for each in entries] == [100, 20]
    last = entries[1]["layer.119"]
    assert last.shape == (100, 1000) and last.offset + last.nbytes == files[1].stat().st_size
    assert sum(file.stat().st_blocks * 512 for file in files) < 1e6 < 2e7 < sum(file.stat().st_size for file in files)


@pytest.mark.slow
def test_one_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="needs transformers: install the extra 'zoo'")
    app = typer.Typer()
    app.command()(without_data.main)
    result = CliRunner().invoke(app, ["--layers", "1"])
    assert result.exit_code == 0, result.output
    assert "12 of 12 are referred to there" in result.output
    four_bits = CliRunner().invoke(app, ["--layers", "1", "--weight-bits", "4"])
    assert four_bits.exit_code == 0 and "0 of 0 are referred to there" in four_bits.output, four_bits.output
    monkeypatch.setattr(without_data, "SECONDS", 0.0)
    assert CliRunner().invoke(app, ["--layers", "1"]).exit_code == 1

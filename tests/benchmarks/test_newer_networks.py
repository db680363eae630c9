"""Tests of the benchmark over newer networks."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.child import measure_time
from benchmarks.jobs import TimeJob
from benchmarks.newer_networks.__main__ import app
from benchmarks.subjects import Subject


@pytest.mark.parametrize("name", ["transformer_encoder", pytest.param("gru", marks=pytest.mark.slow)])
def test_a_network_is_exported(name: str, tmp_path: Path) -> None:
    job = TimeJob(Subject.OURS, name, path=str(tmp_path / "model.onnx"), dynamic=True, warm=1)
    assert measure_time(job).first.cpu > 0
    assert (tmp_path / "model.onnx").stat().st_size > 0


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    result = CliRunner().invoke(app, ["--only", "no_such_network"])
    assert result.exit_code == 2
    assert "no model matches; there are" in result.output

"""Exports that seem slower are measured again, in a process of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from onnx_parity.harness.gate.remeasuring import NotMeasuredError, remeasure
from onnx_parity.harness.record import Record, RunInfo
from onnx_parity.harness.results.content import contents
from onnx_parity.harness.results.environment import package_versions, platform_name
from tests.records import INFO, RECORD, write_run

_DECLARED = """
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

print("what a program prints is no answer")
elu = op(F.elu, floats(2, 3))
relu = op(F.relu, floats(2, 3))
selu = op(F.selu, floats(2, 3))
"""


def ran(name: str, seconds: float, opset: int = 9) -> Record:
    cell = f"{name}-float32-opset{opset}-cpu-trace-onnxruntime"
    return replace(RECORD, cell=cell, nodeid=f"some.py::{name}::{cell}", case=name, name=name, export_cpu=seconds)


def here(**changes: object) -> RunInfo:
    info = replace(INFO, platform=platform_name(), packages=package_versions(), contents=contents())
    return replace(info, **changes)


@pytest.mark.slow
def test_the_least_of_several_measures_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.py").write_text(_DECLARED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[3]), str(tmp_path)]))
    # In the baseline, elu took as long as the others, and relu a thousandth of it.
    before = [ran(name, 1.0, opset) for name in ("elu", "selu") for opset in (9, 18)] + [ran("relu", 0.001)]
    baseline = write_run(tmp_path / "before", before, here())
    run = write_run(tmp_path / "now", before, here())
    ratios = remeasure(baseline, run, here(), ["elu", "relu", "gone"], ["selu"], [Path("some.py")])
    assert set(ratios) == {"elu", "relu"}
    assert 0.1 < ratios["elu"] < 10
    assert ratios["relu"] > 50


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"platform": "another"}, "the run was on another machine"),
        ({"packages": {"torch": "1.0"}}, "the installed packages are not those of the run"),
        (
            # A run of other runtimes has the versions of their packages too.
            {"packages": package_versions(["pytest"]), "contents": {"exporter/exporting.py": "as it was"}},
            "the exporter or the harness has changed since the run",
        ),
    ],
)
def test_nothing_is_measured_where_the_run_was_not_made(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    with pytest.raises(NotMeasuredError) as caught:
        remeasure(tmp_path, tmp_path, here(**changes), ["elu"], [], [])
    assert str(caught.value) == why

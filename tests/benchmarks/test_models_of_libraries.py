"""Tests of the benchmark over models of libraries, and of that over tiny programs."""

from __future__ import annotations

from typer.testing import CliRunner

from benchmarks.models_of_libraries.__main__ import app, ratios, right_of
from benchmarks.models_of_libraries.worker import Fate, Figures
from benchmarks.tiny_programs.programs import PROGRAMS, Scripted
from onnx_parity.harness.axes import PARITY, TORCH_SCRIPT

_FOUND = [
    Figures("a[1]", "dynamic", PARITY, Fate.RIGHT, "", 0.5, 10),
    Figures("a[1]", "dynamic", TORCH_SCRIPT, Fate.WRONG, "batch=3", 2.0, 12),
    Figures("a[2]", "dynamic", PARITY, Fate.RIGHT, "", 0.5, 10),
    Figures("a[2]", "dynamic", TORCH_SCRIPT, Fate.RIGHT, "", 0.5, 10),
    Figures("a[3]", "dynamic", PARITY, Fate.REFUSED, "no operator"),
    Figures("a[4]", "dynamic", PARITY, Fate.NOT_RUN, "not installed"),
    Figures("a[1]", "static", PARITY, Fate.RIGHT, "", 0.1, 10),
]


def test_ratios_are_of_what_both_export() -> None:
    found = ratios(_FOUND, "dynamic", TORCH_SCRIPT)
    assert found == {"a[1]": 4.0, "a[2]": 1.0}


def test_shares_are_of_what_pytorch_runs() -> None:
    assert right_of(_FOUND, "dynamic", PARITY) == (2, 3)
    assert right_of(_FOUND, "dynamic", TORCH_SCRIPT) == (1, 2)


def test_an_unknown_peer_is_told_with_those_that_there_are() -> None:
    result = CliRunner().invoke(app, ["--peers", "onnx"])
    assert result.exit_code == 2
    assert "there are torch_script and torch_dynamo" in result.output


def test_tiny_programs_run_with_another_batch() -> None:
    for module, args in PROGRAMS.values():
        module.eval()(args[0][:1], *args[1:])
    Scripted()(PROGRAMS["relu"][1][0])

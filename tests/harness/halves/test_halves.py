"""Values that halves cannot hold are found, with their line, and none else; and the mixed model computes the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
import typer
from typer.testing import CliRunner

import onnx_parity
from benchmarks.halves.__main__ import LARGE, main, planted_line, ranges, sample
from benchmarks.halves.planted import PLANTED, Program, attention, norm, saturated
from onnx_parity.exporter.runtime.sessions import RuntimeSession
from onnx_parity.harness.cli import app
from onnx_parity.harness.halves.finding import CannotMeasureError, find_ranges
from onnx_parity.harness.halves.flat_model import place_of
from onnx_parity.harness.halves.ranges import Fit


@pytest.mark.parametrize("program", PLANTED, ids=lambda program: program.__name__)
def test_a_planted_overflow_is_found_at_its_line(program: Program) -> None:
    found, _ = ranges(program, sample(LARGE))
    computed = [each for each in found.not_held if each.operator != "a constant"]
    assert computed[0].float16 is Fit.OVERFLOWS
    assert computed[0].line.endswith(f"planted.py:{planted_line(program)}")
    assert not found.wrong


@pytest.mark.parametrize("program", PLANTED, ids=lambda program: program.__name__)
def test_nothing_is_found_where_all_is_held(program: Program) -> None:
    found, _ = ranges(program, sample(1.0))
    assert [each for each in found.values if each.float16 is Fit.OVERFLOWS] == []
    assert all(each.bfloat16 is Fit.HELD for each in found.values)


def test_the_benchmark_counts_what_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def held(x: torch.Tensor) -> torch.Tensor:
        return x + 1  # planted

    monkeypatch.setattr("benchmarks.halves.__main__.PLANTED", (saturated,))
    main()
    assert "1 of 1 are found at their line" in capsys.readouterr().out
    monkeypatch.setattr("benchmarks.halves.__main__.PLANTED", (saturated, held))
    with pytest.raises(typer.Exit):
        main()
    assert "1 of 2 are found at their line" in capsys.readouterr().out


@pytest.mark.parametrize("opset", [13, 23])
@pytest.mark.parametrize("program", [attention, norm])
def test_what_an_operator_computes_inside_is_found_in_each_form_of_it(program: Program, opset: int) -> None:
    found, _ = ranges(program, sample(LARGE), opset)
    assert any(each.float16 is Fit.OVERFLOWS for each in found.values)
    assert found.kept and not found.wrong


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 64)
        self.second = torch.nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.first(x) * 1e6)
        return torch.relu(self.second(y)) + y.mean()


def test_only_what_must_stays_in_float32_between_few_casts() -> None:
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    found, mixed = ranges(Network().eval(), x)
    assert {each.operator for each in found.kept} == {"Mul", "Tanh"}
    assert not found.wrong
    types = {node.op_type: node.outputs[0].dtype for node in mixed.graph if node.op_type in ("Gemm", "Tanh", "Relu")}
    assert types == {"Gemm": ir.DataType.FLOAT16, "Tanh": ir.DataType.FLOAT, "Relu": ir.DataType.FLOAT16}
    # One for the input, two around the two nodes, and one for the output.
    assert (found.casts, found.nodes_in_float32) == (4, 2)
    assert [value.dtype for value in (*mixed.graph.inputs, *mixed.graph.outputs)] == [ir.DataType.FLOAT] * 2


def test_a_constant_that_vanishes_stays_in_float32() -> None:
    found, _ = ranges(lambda x: x / (x.abs().sum() * 0 + 1e-12), sample(1e-10))
    assert Fit.VANISHES in {each.float16 for each in found.values if each.operator == "a constant"}
    assert found.first["bfloat16"] is None
    assert not found.wrong


def test_a_node_is_kept_if_only_the_results_show_that_it_must_be() -> None:
    # A difference of values that round to the same number in float16.
    weight = torch.eye(8)
    found, _ = ranges(lambda x: (x @ weight + 1000.0 - 1000.0) @ weight, sample(1e-1))
    assert not found.not_held
    assert [each.reason for each in found.kept] == ["the outputs are wrong without it"] * len(found.kept) != []
    assert found.signal_to_noise is None or found.signal_to_noise > 40.0


def test_places_are_read_from_the_metadata_of_torch_onnx() -> None:
    node = ir.Node("", "Relu", [])
    node.metadata_props["pkg.torch.onnx.name_scopes"] = "['', 'layers.0', 'relu']"
    node.metadata_props["pkg.torch.onnx.stack_trace"] = (
        'File "model.py", line 6, in forward\n    y = f(x)\n'
        '  File "/lib/site-packages/torch/nn/functional.py", line 9, in relu\n    ...'
    )
    assert place_of(node) == ("layers.0", "model.py:6")
    assert place_of(ir.Node("", "Relu", [])) == ("", "")


def test_the_command_names_values_and_writes_the_model(tmp_path: Path) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "mixed.onnx"
    onnx_parity.export(saturated, (sample(LARGE),), str(path), input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    run = CliRunner().invoke(app, ["range", str(path), "-i", "x=2x4x8", "-o", str(out), "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["first"] == {"float16": None, "bfloat16": None}
    drawn = tmp_path / "sample.npz"
    np.savez(drawn, x=sample(LARGE).numpy())
    run = CliRunner().invoke(app, ["range", str(path), "--samples", str(drawn), "-o", str(out)])
    assert run.exit_code == 1
    assert "float16   cannot hold" in run.stdout and "must stay float32: Tanh" in run.stdout
    x = sample(900.0)
    (got,) = RuntimeSession(ir.load(out)).run({"x": x})
    assert torch.allclose(got, saturated(x), atol=1e-3)


def test_inputs_that_a_model_does_not_take_are_an_error() -> None:
    exported = onnx_parity.export(saturated, (sample(1.0),), input_names=["x"])
    with pytest.raises(CannotMeasureError, match="the model cannot be run on the samples"):
        find_ranges(exported.model, [{"y": torch.ones(2)}])

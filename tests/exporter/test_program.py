"""The program that an export returns: its model, calling it, results structured as the module's."""

from __future__ import annotations

from typing import Any, NamedTuple

import onnx
import pytest
import torch

import exporter
from tests.exporter.subjects import Classifier, assert_agrees, images


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def test_model_and_proto_are_one_model() -> None:
    program = exporter.export(Classifier().eval(), (images(),), opset_version=17)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version == program.opset_version == 17
    assert [node.op_type for node in proto.graph.node] == [node.op_type for node in program.model.graph]
    assert program.input_names == ("input",) and program.output_names == ("output",)


def test_repr_says_what_it_is() -> None:
    program = exporter.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))
    assert repr(program) == "ONNXProgram(opset 18: input -> output; 1 nodes, 32 bytes of weights)"


def test_nested_arguments_and_results() -> None:
    def nested(pair: Pair, more: dict[str, list[torch.Tensor]], factor: int, nothing: None) -> dict[str, Any]:
        total = pair.left + pair.right * factor
        return {"pair": Pair(total, more["b"][0]), "rest": (None, 3, "text", [more["a"][0] * 2, 1.5])}

    x = torch.arange(3.0)
    args = (Pair(x, x + 1), {"b": [x * 3], "a": [x - 1, x]}, 2, None)
    program = exporter.export(nested, args)
    result = program(*args)
    expected = nested(*args)
    assert isinstance(result["pair"], Pair)
    torch.testing.assert_close(result["pair"], expected["pair"])
    assert result["rest"][:3] == (None, 3, "text") and result["rest"][3][1] == 1.5
    torch.testing.assert_close(result["rest"][3][0], expected["rest"][3][0])
    assert program.input_names == ("pair_0", "pair_1", "more_0", "more_1", "more_2")


def test_sizes_that_vary_come_back_as_ints() -> None:
    def sizes(x: torch.Tensor) -> tuple[torch.Tensor, int, int]:
        return x * 2, x.shape[0], x.shape[0] * 2 + 1

    program = exporter.export(sizes, (torch.ones(3, 2),), dynamic_axes={"x": [0]})
    for size in (3, 1, 6):
        assert program(torch.ones(size, 2))[1:] == (size, size * 2 + 1)


def test_outputs_that_are_inputs_constants_or_the_same() -> None:
    table = torch.arange(4.0)

    def outputs(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return x, x, table, table, y, y, torch.ones(2)

    program = exporter.export(outputs, (torch.zeros(2),))
    assert_agrees(program, outputs, torch.tensor([5.0, 6.0]))
    assert len(set(program.output_names)) == 7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    module = torch.nn.Linear(4, 3).to(dtype)
    x = torch.linspace(-1, 1, 8).reshape(2, 4).to(dtype)
    result = exporter.export(module, (x,))(x)
    assert result.dtype is dtype
    torch.testing.assert_close(result, module(x).detach(), rtol=2e-2, atol=2e-2)


def test_wrong_number_of_tensors() -> None:
    program = exporter.export(torch.add, (torch.ones(2), torch.ones(2)))
    with pytest.raises(exporter.ArgumentError) as caught:
        program(torch.ones(2))
    assert str(caught.value) == "the model takes 2 tensors (input_0, input_1), and got 1"


def test_verbose_prints_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    exporter.export(torch.nn.ReLU(), (torch.ones(2, 3),), verbose=True, opset_version=9)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "# opset onnx 9; IR version 4"
    assert printed[1] == "graph(%input : Float(2, 3)) {"
    assert printed[2].startswith("  %output : Float(2, 3) = onnx::Relu(%input), scope: ReLU # ")
    assert printed[3:] == ["  return (%output)", "}"]

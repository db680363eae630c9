"""Constant folding: what does not depend on inputs is computed when a model is written, and written once."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.files.lazy_tensors import LazyTorchTensor
from tests.exporter.subjects import Classifier, assert_agrees, images


def operators(program: onnx_parity.ONNXProgram) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph)


def test_nothing_unused_is_left_and_weights_keep_their_names() -> None:
    program = onnx_parity.export(Classifier().eval(), (images(),))
    graph = program.model.graph
    assert set(graph.initializers) >= {"features.0.weight", "more.weight", "more.bias", "head.weight", "head.bias"}
    assert all(value.uses() for value in graph.initializers.values())
    assert all(output.uses() or output.is_graph_output() for node in graph for output in node.outputs)
    assert "BatchNormalization" not in operators(program)


def test_unused_computation_is_left_out() -> None:
    def wasteful(x: torch.Tensor) -> torch.Tensor:
        torch.sin(x) @ torch.ones(8, 8)
        return x * 2

    assert operators(onnx_parity.export(wasteful, (torch.ones(8, 8),))) == {"Mul": 1}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, num_layers=2, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.lstm(x)[0]
        return result


@pytest.mark.parametrize("opset", [7, 14, 21])
def test_folded_weights_agree(opset: int) -> None:
    model = Recurrent().eval()
    x = torch.linspace(-1, 1, 40).reshape(5, 2, 4)
    capture = onnx_parity.capture_program(model, (x,))
    folded, plain = capture.lower(opset), capture.lower(opset, do_constant_folding=False)
    assert len(folded.model.graph) < len(plain.model.graph)
    torch.testing.assert_close(folded(x), plain(x), rtol=1e-5, atol=1e-6)
    assert_agrees(folded, model, x)


def test_a_chain_of_constants_is_computed_once_and_one_of_weights_when_it_is_written() -> None:
    def resized(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.interpolate(x, size=(7, 9), mode="bicubic")

    coordinates = onnx_parity.capture_program(resized, (torch.randn(1, 2, 4, 5),)).lower(9)
    weights = onnx_parity.capture_program(nn.Linear(3, 4, bias=False), (torch.randn(2, 2, 3),)).lower(9)

    def lazily(program: onnx_parity.ONNXProgram) -> list[bool]:
        initializers = program.model.graph.initializers.values()
        return [isinstance(each.const_value, LazyTorchTensor) for each in initializers]

    assert lazily(coordinates)
    assert not any(lazily(coordinates))
    # Another value may be put in the weight's place until then.
    assert lazily(weights) == [True]


def test_old_opsets_list_weights_among_inputs_and_run_the_same() -> None:
    program = onnx_parity.export(nn.Linear(3, 2), (torch.ones(1, 3),), opset_version=8)
    assert [value.name for value in program.model.graph.inputs] == ["input", "weight", "bias"]
    assert program.input_names == ("input",)


class Standardized(nn.Conv2d):
    """A convolution whose weights are standardized each time, as in NFNets."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self.weight.reshape(1, self.out_channels, -1)
        weight = nn.functional.batch_norm(flat, None, None, training=True, momentum=0.0, eps=1e-6)
        result: torch.Tensor = self._conv_forward(x, weight.reshape_as(self.weight), self.bias)
        return result


@pytest.mark.parametrize("opset", [9, 18])
def test_weights_that_are_standardized_are_computed_when_written(opset: int) -> None:
    model = Standardized(3, 4, 3)
    program = onnx_parity.export(model, (images(),), opset_version=opset)
    assert operators(program) == {"Conv": 1}
    assert_agrees(program, model, images())


class Numbered(nn.Module):
    """Buffers of which a part is used, as the numbers of positions in BERT; they are too large to be small."""

    positions: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("positions", torch.arange(600).reshape(2, 300).flip(1))
        self.table = nn.Embedding(600, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.positions[1:, -9:290:3]
        shuffled = torch.gather(self.positions.flip(1), 1, torch.tensor([[5, -1, 7], [0, 1, 299]]) % 300)
        found: torch.Tensor = x + self.table(chosen).sum() + shuffled + self.table(shuffled).sum()
        return found


@pytest.mark.parametrize("opset", [7, 9, 11, 18])
def test_parts_of_buffers_are_folded(opset: int) -> None:
    model, x = Numbered(), torch.ones(2, 3)
    program = onnx_parity.export(model, (x,), opset_version=opset)
    assert not {"Slice", "GatherElements"} & operators(program).keys()
    assert_agrees(program, model, x)


@pytest.mark.parametrize("opset", [7, 18])
def test_large_integers_that_are_joined_with_small_ones_are_folded(opset: int) -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("large", torch.arange(600).reshape(3, 200))
            self.register_buffer("small", torch.arange(6).reshape(3, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert isinstance(self.large, torch.Tensor) and isinstance(self.small, torch.Tensor)
            return x + torch.cat([self.small, self.large], 1)

    model, x = Joined(), torch.ones(202)
    program = onnx_parity.export(model, (x,), opset_version=opset)
    assert "Concat" not in operators(program)
    assert_agrees(program, model, x)


class Rotated(nn.Module):
    """The rotations of the first positions, whose frequencies are a buffer."""

    frequencies: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.linspace(0.1, 1, 8))
        self.logarithms = nn.Parameter(torch.linspace(-2, 2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(5)[:, None] * self.frequencies
        return x * angles.cos() - x * angles.sin() * -self.logarithms.exp()


@pytest.mark.parametrize("opset", [7, 18])
def test_functions_of_weights_are_folded(opset: int) -> None:
    model, x = Rotated(), torch.linspace(-1, 1, 80).reshape(2, 5, 8)
    program = onnx_parity.export(model, (x,), opset_version=opset)
    assert operators(program).keys() == {"Mul", "Sub"}
    assert_agrees(program, model, x)


def test_large_parts_of_a_weight_that_has_other_uses_are_not_written_twice() -> None:
    weight = nn.Parameter(torch.linspace(-1, 1, 200 * 200).reshape(200, 200))
    exported = onnx_parity.export(lambda x: x @ weight + (x @ weight[:, 1:]).sum(-1, keepdim=True), (torch.ones(200),))
    assert operators(exported)["Slice"] == 1
    written = [value.const_value for value in exported.model.graph.initializers.values()]
    assert sum(tensor.nbytes for tensor in written if tensor is not None) < 1.5 * weight.nbytes


def test_a_large_weight_that_has_another_use_is_not_written_twice() -> None:
    weight = nn.Parameter(torch.linspace(-1, 1, 60 * 60).reshape(60, 60))

    def program(x: torch.Tensor) -> torch.Tensor:
        return x @ weight + (x[..., :1] * weight.reshape(-1)).sum(-1, keepdim=True)

    exported = onnx_parity.export(program, (torch.ones(2, 60),))
    written = [value.const_value for value in exported.model.graph.initializers.values()]
    assert sum(tensor.nbytes for tensor in written if tensor is not None) < 2 * weight.nbytes


@pytest.mark.parametrize("count", [8, 800])
@pytest.mark.parametrize(("other", "initializers"), [(0.0, 1), (-0.0, 2), (math.nan, 2)])
def test_equal_constants_are_stored_once(count: int, other: float, initializers: int) -> None:
    """As each layer of a network makes them of its sizes. Those that differ in one bit are not equal."""
    ones = [torch.zeros(count), torch.zeros(count)]
    ones[1][0] = other

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x / ones[0], x.exp() / ones[1]

    x = torch.ones(count)
    exported = onnx_parity.export(program, (x,))
    assert_agrees(exported, program, x)
    assert len(exported.model.graph.initializers) == initializers

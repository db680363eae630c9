"""Passes: with and without them a program computes the same, and the remaining values are named and used."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import cat, nn

import onnx_parity
from onnx_parity.exporter.files.lazy_tensors import LazyTorchTensor
from tests.exporter.subjects import Classifier, assert_agrees, images


def operators(program: onnx_parity.ONNXProgram) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph)


def norm(channels: int, **options: Any) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(channels, **options)
    assert layer.running_mean is not None and layer.running_var is not None
    layer.running_mean.uniform_(-1, 1)
    layer.running_var.uniform_(0.5, 2)
    if layer.affine:
        nn.init.uniform_(layer.weight, 0.5, 2)
        nn.init.uniform_(layer.bias, -1, 1)
    return layer.eval()


class SharedConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.a, self.b = nn.Conv2d(3, 3, 1), norm(3), norm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.b(self.conv(self.a(self.conv(x))))
        return result


class UsedTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 1), norm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        result: torch.Tensor = self.norm(y) + y
        return result


class SharedNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1), norm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(self.b(self.norm(self.a(x))))
        return result


@pytest.mark.parametrize("opset", [7, 13, 22])
@pytest.mark.parametrize(
    ("model", "norms"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), norm(4)), 0),
        (nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), norm(4)), 0),
        (nn.Sequential(nn.Conv2d(3, 6, 3, groups=3, dilation=2), norm(6, affine=False)), 0),
        (nn.Sequential(nn.ReLU(), norm(3)), 1),
        (SharedConvolution(), 2),
        (UsedTwice(), 1),
        (SharedNorm(), 0),
    ],
    ids=["bias", "no bias", "no affine", "no convolution", "shared convolution", "used twice", "shared norm"],
)
def test_batch_norm_fusion(model: nn.Module, norms: int, opset: int) -> None:
    model.eval()
    capture = onnx_parity.capture_program(model, (images(),))
    fused, plain = capture.lower(opset), capture.lower(opset, do_constant_folding=False)
    assert operators(fused)["BatchNormalization"] == norms
    assert operators(plain)["BatchNormalization"] > 0
    assert_agrees(fused, model, images())
    torch.testing.assert_close(fused(images()), plain(images()), rtol=1e-4, atol=1e-5)


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


def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of matrices whose batch is one axis."""
    return torch.bmm(a.exp().reshape(6, 2, 2), (b * 2).reshape(6, 2, 2))


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda x: x.permute(0, 2, 1, 3).transpose(-1, -2) * 2, {"Transpose": 1, "Mul": 1}),
        (lambda x: x.permute(2, 0, 1, 3).permute(3, 1, 0, 2).transpose(0, 3) * 2, {"Transpose": 1, "Mul": 1}),
        (lambda x: x.permute(0, 2, 1, 3).relu().transpose(1, 2), {"Transpose": 2, "Relu": 1}),
        (lambda x: x.permute(0, 2, 1, 3).transpose(1, 2) * 2, {"Mul": 1}),
        (lambda x: ((y := x.permute(0, 2, 1, 3)) * 2, y.transpose(-1, -2) * 2), {"Transpose": 2, "Mul": 2}),
        (lambda x: ((y := x.permute(0, 2, 1, 3)), y.transpose(-1, -2)), {"Transpose": 2}),
        (lambda x: x.permute(0, 2, 1, 3).transpose(1, 2), {}),
        (lambda x: x.reshape(2, -1).unsqueeze(0).reshape(3, 8) * 2, {"Reshape": 1, "Mul": 1}),
        (lambda x: ((y := x.reshape(2, -1)) * 2, y.reshape(3, 8) * 2), {"Flatten": 1, "Reshape": 1, "Mul": 2}),
        (lambda x: bmm(x, x).reshape(2, 3, 2, 2) * 2, {"Exp": 1, "MatMul": 1, "Mul": 2}),
        (lambda x: bmm(x, x).reshape(3, 2, 2, 2) * 2, {"Exp": 1, "Reshape": 3, "MatMul": 1, "Mul": 2}),
        (
            lambda x: bmm(x, x.reshape(3, 2, 2, 2)).reshape(2, 3, 2, 2) * 2,
            {"Exp": 1, "Reshape": 4, "MatMul": 1, "Mul": 2},
        ),
        (lambda x: bmm(x, x).reshape(2, 3, 2, 2), {"Exp": 1, "Reshape": 3, "MatMul": 1, "Mul": 1}),
        (
            lambda x: bmm(x.reshape(24), x.reshape(24)).reshape(12, 2) * 2,
            {"Exp": 1, "Reshape": 4, "MatMul": 1, "Mul": 2},
        ),
        (lambda x: bmm(x, x).reshape(24) * 2, {"Exp": 1, "Reshape": 3, "MatMul": 1, "Mul": 2}),
        (lambda x: cat([x, cat([cat([x, x], -1), x * 2], 3)], 3), {"Concat": 1, "Mul": 1}),
        (lambda x: cat([x, cat([x, x * 2], 2)[:, :, 1:3]], 3), {"Concat": 2, "Mul": 1, "Slice": 1}),
        (lambda x: cat([x, cat([x, x * 2], 2)[:, :, :2]], 3), {"Concat": 1}),
        (lambda x: cat([cat([x, x * 2], 2), cat([x, x * 3], 2)], 3), {"Concat": 3, "Mul": 2}),
        (lambda x: cat([(y := cat([x, x * 2], 3)), y], 3), {"Concat": 2, "Mul": 1}),
        (lambda x: ((y := cat([x, x * 2], 3)), cat([y, x], 3)), {"Concat": 2, "Mul": 1}),
    ],
    ids=[
        "keys",
        "three",
        "not at once",
        "undone",
        "read twice",
        "outputs",
        "undone output",
        "shapes",
        "shape read twice",
        "batch of a product",
        "another batch after a product",
        "another batch before a product",
        "batch of an output",
        "vectors that become a batch",
        "product that becomes a vector",
        "joins",
        "joins apart",
        "join of which a part is read",
        "joins along other axes",
        "join read twice",
        "join of an output",
    ],
)
@pytest.mark.parametrize("opset", [7, 18])
def test_what_moves_elements_is_merged(program: Any, expected: dict[str, int], opset: int) -> None:
    x = torch.arange(24.0).reshape(2, 3, 2, 2)
    exported = onnx_parity.export(program, (x,), opset_version=opset)
    assert_agrees(exported, program, x)
    found = operators(exported)
    assert {name: number for name, number in found.items() if name != "Identity"} == expected


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("is_inside", [True, False])
def test_what_is_merged_in_a_branch_leaves_no_unused_nodes_there(is_inside: bool, opset: int) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        outer = x if is_inside else bmm(x, x)

        def apart() -> torch.Tensor:
            return (bmm(x, x) if is_inside else outer).reshape(2, 3, 2, 2) + 1

        found: torch.Tensor = torch.cond(x.sum() > 0, apart, lambda: x + 2)
        return found

    x = torch.linspace(-1, 2, 24).reshape(2, 3, 2, 2)
    exported = onnx_parity.export(program, (x,), opset_version=opset)
    assert_agrees(exported, program, x)
    assert_agrees(exported, program, -x)
    inside = ir.traversal.RecursiveGraphIterator(exported.model.graph)
    assert "Reshape" not in {node.op_type for node in inside}


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda x: (x.exp() + 1) * (x.exp() + 2), {"Exp": 1, "Add": 2, "Mul": 1}),
        (lambda x: (x.sum(0) + 1) * (x.sum(1).sum() + x.sum(0)), {"ReduceSum": 3, "Add": 2, "Mul": 1}),
        (lambda x: (x.exp(), x.exp() * 2), {"Exp": 1, "Mul": 1}),
        (lambda x: (x.exp() * 2, x.exp()), {"Exp": 2, "Mul": 1}),
        (lambda x: x.split(2)[0] * x.split(2)[1][0] + x.split(2)[0], {"Split": 1, "Gather": 1, "Mul": 1, "Add": 1}),
    ],
    ids=["chain", "other axes", "first is an output", "second is an output", "several results"],
)
def test_equal_nodes_are_merged(program: Any, expected: dict[str, int]) -> None:
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    exported = onnx_parity.export(program, (x,), opset_version=18)
    assert_agrees(exported, program, x)
    assert operators(exported) == expected


def test_passes_know_the_defaults_of_nodes_that_a_user_s_lowering_adds() -> None:
    """A Transpose without `perm`, which reverses the axes, and a Constant without a tensor."""

    def tripled(g: Any, self: Any) -> Any:
        return g.op("Mul", g.op("Transpose", self), g.op("Constant", value_float_f=3.0))

    x = torch.arange(24.0).reshape(2, 3, 4)
    exported = onnx_parity.export(
        lambda x: torch.sinh(x.permute(2, 1, 0)) + 1, (x,), custom_translation_table={"aten::sinh": tripled}
    )
    assert operators(exported) == {"Constant": 1, "Mul": 1, "Add": 1}
    torch.testing.assert_close(exported(x), 3 * x + 1)


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


def test_random_nodes_are_not_merged() -> None:
    exported = onnx_parity.export(lambda x: torch.rand_like(x) - torch.rand_like(x), (torch.ones(50),))
    assert exported(torch.ones(50)).abs().max() > 0


@pytest.mark.parametrize("opset", [7, 18])
@pytest.mark.parametrize("folds", [False, True])
def test_products_of_transposed_matrices_with_a_vector(opset: int, folds: bool) -> None:
    """onnxruntime's optimiser is wrong where a Transpose comes before the matrices on the left."""

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.mT @ y, (x * 2).mT @ y, torch.cat([x.mT, x.mT]) @ y, x @ y.repeat(2)[:4], y @ x

    x, y = torch.linspace(-1, 2, 24).reshape(2, 3, 4), torch.tensor([1.0, -2.0, 3.0])

    def only_direct(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.mT @ y

    direct = onnx_parity.export(only_direct, (x, y), opset_version=opset, do_constant_folding=folds)
    assert operators(direct) == {"MatMul": 1}
    assert_agrees(direct, only_direct, x, y)
    # An output may have the name that a new value would be given.
    names = ["a", "b", "c", "d_transposed", "d"]
    exported = onnx_parity.export(program, (x, y), opset_version=opset, do_constant_folding=folds, output_names=names)
    assert_agrees(exported, program, x, y)

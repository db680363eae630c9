"""What depends on literals alone is computed at the export, by torch, and the model has the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.linspace(-2, 2, 3 * 4 * 8).reshape(3, 4, 8)


def with_mask(x: torch.Tensor) -> torch.Tensor:
    mask = x.new_zeros((8, 8))
    for number, (rows, columns) in enumerate([(slice(0, 4), slice(0, 4)), (slice(4, 8), slice(2, 8))]):
        mask[rows, columns] = number + 1.0
    windows = mask.view(2, 4, 2, 4).permute(0, 2, 1, 3).reshape(4, 16)
    distances = windows.unsqueeze(1) - windows.unsqueeze(2)
    return x + distances.masked_fill(distances != 0, -100.0).sum(1)[:, :8]


def with_positions(x: torch.Tensor) -> torch.Tensor:
    positions = torch.arange(8, device=x.device).unsqueeze(0)
    return x * (positions - positions.T).abs().to(x.dtype)[:4]


def like_an_input(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones_like(x[0]).cumsum(1)


def operators(program: Callable[..., Any], **options: Any) -> list[str]:
    exported = onnx_parity.export(program, (X,), **options)
    assert_agrees(exported, program, X)
    return [node.op_type for node in exported.model.graph]


@pytest.mark.parametrize(
    ("program", "expected"),
    [(with_mask, "Add"), (with_positions, "Mul"), (like_an_input, "Add")],
    ids=lambda each: getattr(each, "__name__", None),
)
@pytest.mark.parametrize("opset", [7, 13, 23])
def test_what_depends_on_literals_is_one_constant(program: Callable[..., Any], expected: str, opset: int) -> None:
    assert operators(program, opset_version=opset) == [expected]
    batch = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    assert operators(program, opset_version=opset, **batch) == [expected]


def test_without_folding_every_operator_is_written() -> None:
    assert len(operators(with_mask, do_constant_folding=False)) > 10


def test_an_operator_without_inputs_alone_is_left_to_the_runtime() -> None:
    assert len(operators(lambda x: x + torch.ones(300, 1, 1, 1, 8), opset_version=18)) == 2


def test_large_values_are_left_to_the_runtime() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sum() + torch.arange(300.0).unsqueeze(1) * torch.arange(300.0)

    assert operators(program, opset_version=18).count("Mul") == 1


def test_random_values_are_drawn_when_the_model_runs() -> None:
    exported = onnx_parity.export(lambda x: x + torch.zeros(8).bernoulli(0.5), (X,), opset_version=18)
    assert {"Bernoulli", "RandomUniform", "RandomUniformLike"} & {node.op_type for node in exported.model.graph}


def test_a_users_lowering_is_called_for_known_values_too() -> None:
    def lower(g: Any, self: Any) -> Any:
        return g.op("Sign", self)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor([1.0, -2.0]).sum().abs()

    onnx_parity.register_custom_op_symbolic("aten::abs", lower, 9)
    try:
        exported = onnx_parity.export(program, (X,), opset_version=18)
    finally:
        onnx_parity.unregister_custom_op_symbolic("aten::abs", 9)
    assert "Sign" in [node.op_type for node in exported.model.graph]


def test_values_of_a_program_without_data_are_known_as_well() -> None:
    program = torch.nn.Linear(8, 8, device="meta")

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = program

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.inner(x)
            return y + torch.arange(8, device=y.device).unsqueeze(0).flip(1)

    exported = onnx_parity.export(Masked(), (X.to("meta"),), opset_version=18, export_params=False)
    known = [value.const_value for value in exported.model.graph.initializers.values()]
    assert any(tensor is not None and tensor.numpy().tolist() == [list(range(8))[::-1]] for tensor in known)


@pytest.mark.parametrize("opset", [18, 23])
def test_a_mask_that_excludes_nothing_is_left_out(opset: int) -> None:
    def attended(x: torch.Tensor) -> torch.Tensor:
        ones = torch.ones(x.shape[0], 1, 5, 5, dtype=torch.bool)
        masked = torch.where(torch.full((2, 3, 5, 4), True), x, -torch.inf)
        return torch.nn.functional.scaled_dot_product_attention(masked, x, x, attn_mask=ones)

    x = torch.linspace(-1, 1, 120).reshape(2, 3, 5, 4)
    program = onnx_parity.export(attended, (x,), opset_version=opset)
    assert not {node.op_type for node in program.model.graph} & {"Where", "ReduceMax"}
    assert program.model.graph.num_nodes() <= (1 if opset == 23 else 5)
    assert_agrees(program, attended, x)

"""Refusals that few programs meet, each with its words."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.kinds.complex_parts import complex_of, rules

X = torch.arange(6.0).reshape(2, 3)


@dataclasses.dataclass
class State:
    x: torch.Tensor


@dataclasses.dataclass
class OtherState:
    x: torch.Tensor


def test_an_operator_has_one_rule_for_complex_numbers() -> None:
    assert rules()
    with pytest.raises(ValueError, match=r"aten::mul\.Tensor has two rules for complex numbers"):
        complex_of("aten::mul.Tensor")(lambda *arguments: None)


class CountsLevels(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers: list[float] = x.tolist()
        return x + numbers[0]


def test_numbers_of_a_tensor_with_more_axes_than_their_type_says() -> None:
    with pytest.raises(onnx_parity.ExportError, match="the script calls tolist for 1 levels on a tensor of 2 axes"):
        onnx_parity.export(torch.jit.script(CountsLevels()), (X,))


@pytest.mark.slow
def test_an_argument_of_too_many_objects() -> None:
    state = State(X)
    state.others = [object() for _ in range(100_001)]  # type: ignore[attr-defined]
    words = "refers to more than 100,000 objects, among them a object: give an object that holds only what"
    with pytest.raises(onnx_parity.ArgumentError, match=words):
        onnx_parity.export(lambda state: state.x + 1, (state,))


def test_a_dtype_that_onnx_does_not_have() -> None:
    with pytest.raises(Unsupported, match=r"torch\.bits8 is not exported: compute in another dtype, such as"):
        TO_ONNX[torch.bits8]


def test_groups_of_matrices() -> None:
    def grouped(x: torch.Tensor, y: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch._grouped_mm(x, y, ends)

    ends = torch.tensor([1, 2], dtype=torch.int32)
    rows, matrices = torch.ones(8, 16, dtype=torch.bfloat16), torch.ones(2, 16, 8, dtype=torch.bfloat16)
    axes = {"y": {0: "n"}, "ends": {0: "n"}}
    with pytest.raises(onnx_parity.ExportError, match="the number of matrices is dynamic: remove that axis from"):
        onnx_parity.export(grouped, (rows, matrices, ends), dynamic_axes=axes)
    with pytest.raises(onnx_parity.ExportError, match="groups of 2 and 2 axes are not supported, only groups of rows"):
        onnx_parity.export(grouped, (rows, matrices[0], ends))


def test_the_scale_of_a_result_of_eight_bits() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        one = torch.ones(())
        return torch._scaled_mm(x, x.T, one, one, scale_result=one)

    x = torch.ones(16, 16).to(torch.float8_e4m3fn)
    with pytest.raises(onnx_parity.CaptureError, match="scale_result for a result of 8 bits is not exported: leave it"):
        onnx_parity.export(scaled, (x,), opset_version=19)


@pytest.mark.parametrize(
    ("argument", "shapes", "words"),
    [
        ({"a": X}, [{0: "n"}], r"is \[\{0: 'n'\}\]: give a dict by the names in the argument, one of 'a'"),
        ([X, X], {"a": {0: "n"}}, r"is \{'a': \{0: 'n'\}\}: give a list with one entry for each of 2, or None"),
    ],
)
def test_dynamic_shapes_of_another_structure(argument: Any, shapes: Any, words: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError, match=words):
        onnx_parity.export(_sum, (argument, {}), dynamic_shapes={"argument": shapes})


def _sum(argument: Any) -> torch.Tensor:
    values = argument.values() if isinstance(argument, dict) else argument
    return sum(values, torch.zeros(()))


@pytest.mark.parametrize("batch", [X, torch.rand(4, 6)])
def test_a_write_that_asks_for_plain_sizes(batch: torch.Tensor) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.unfold(-1, 2, 2).mul_(2)
        return y

    words = (
        r"asks for the sizes of a tensor as numbers, and one of them is dynamic: write to a slice, .* \(at .*test_rare"
    )
    with pytest.raises(onnx_parity.CaptureError, match=words):
        onnx_parity.export(program, (batch,), dynamic_shapes=({0: "n"},))


def test_a_derivative_that_asks_for_plain_sizes() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.func.jvp(lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]), (x,), (x,))[1]

    with pytest.raises(onnx_parity.CaptureError, match=r"aten::size cannot be exported at .*test_rare_refusals.py"):
        onnx_parity.export(program, (torch.rand(3, 6),), dynamic_shapes=({1: "n"},))


def test_an_object_of_another_class_than_at_the_export() -> None:
    program = onnx_parity.export(lambda state: state.x + 1, (State(X),))
    assert torch.equal(program(State(X)), X + 1)
    words = "is a OtherState, but the program was exported with a State: give one"
    with pytest.raises(onnx_parity.ArgumentError, match=words):
        program(OtherState(X))


def test_an_implementation_that_asks_for_plain_sizes() -> None:
    def program(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(rows, table, torch.tensor([0, 1]), mode="sum", padding_idx=-1)

    words = r"aten::embedding_bag.padding_idx: .* takes plain sizes only, .* \(at .*test_rare_refusals.py"
    with pytest.raises(onnx_parity.ExportError, match=words):
        onnx_parity.export(
            program,
            (torch.rand(5, 4), torch.tensor([1, 2])),
            input_names=["table", "rows"],
            dynamic_axes={"table": {0: "n"}},
        )

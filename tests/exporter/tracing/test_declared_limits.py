"""Limits that are declared for sizes, and conditions over axes whose names are expressions."""

from __future__ import annotations

import warnings

import pytest
import torch

import onnx_parity

X = torch.arange(24.0).reshape(4, 6) + 1


def bounded(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if 1 < x.shape[0] < 100 else x


class Bounded(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return bounded(x)


@pytest.mark.filterwarnings("error")
def test_declared_limits_are_assumptions() -> None:
    rows = torch.export.Dim("rows", min=2, max=64)
    program = onnx_parity.export(
        bounded, (X,), dynamic_shapes=({0: rows},), strict=True, assumptions_output=True, verify=True
    )
    assert [each.condition for each in program.assumptions] == ["rows >= 2", "rows <= 64"]
    assert all(each.is_stated for each in program.assumptions)
    for outside in (1, 65):
        x = torch.rand(outside, 6)
        with pytest.raises(onnx_parity.AssumptionError, match=f"and 'rows' is {outside}; otherwise the axis is not"):
            program(x)
        assert not program.runtime_session().run({"x": x})[1]
    assert torch.equal(program(torch.ones(64, 6)), torch.full((64, 6), 2.0))


def test_declared_limits_of_a_program_of_torch_export_are_assumptions() -> None:
    rows = torch.export.Dim("rows", max=64)
    exported = torch.export.export(Bounded(), (X,), dynamic_shapes=({0: rows},))
    program = onnx_parity.export(exported)
    # torch takes the size not to be 1, and runs it with this size all the same.
    assert [each.condition for each in program.assumptions] == ["x_dim_0 <= 64"]
    with pytest.raises(onnx_parity.AssumptionError):
        program(torch.rand(65, 6))


def longer(x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
    return x > 0 if x.shape[0] - past.shape[0] > 3 else x


@pytest.mark.parametrize("assume", [[], ["n - (past + length) <= 3"], ["not n - past - length > 3"]])
def test_an_axis_that_is_named_by_an_expression_is_one_size_in_a_condition(assume: list[str]) -> None:
    shapes = ({0: "n"}, {0: "past + length"})
    with warnings.catch_warnings():
        warnings.simplefilter("error" if assume else "ignore")
        program = onnx_parity.export(longer, (torch.ones(2), torch.ones(6)), dynamic_shapes=shapes, assume=assume)
    (assumption,) = program.assumptions
    assert assumption.condition == "n - (past + length) <= 3"
    program.rename_axes({"past": "P", "n": "N"})
    (assumption,) = program.assumptions
    assert assumption.condition == "N - (P + length) <= 3"
    with pytest.raises(onnx_parity.AssumptionError, match=r"and 'N' is 9, and 'P \+ length' is 2"):
        program(torch.ones(9), torch.ones(2))


def test_a_multiple_is_one_size_too() -> None:
    shapes = ({0: "4*blocks"},)
    program = onnx_parity.export(
        lambda x: x * 2 if x.shape[0] < 40 else x, (X,), dynamic_shapes=shapes, assume=["blocks < 10"], strict=True
    )
    assumption, stated = program.assumptions
    assert [assumption.condition, stated.condition] == ["4*blocks < 40", "(4*blocks)//4 < 10"]
    assert repr(assumption) == f"<Assumption: {assumption}>"

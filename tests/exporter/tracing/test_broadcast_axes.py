"""Dynamic axes that are broadcast together and equal in the example: the model is right where one of them is 1, or
assumes that they are equal."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

import onnx_parity

AXES = ({0: "rows"}, {0: "others"})


def export(program: Callable[..., object], rows: int = 4, others: int = 4) -> onnx_parity.ONNXProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        return onnx_parity.export(program, (torch.rand(rows, 3), torch.rand(others, 3)), dynamic_shapes=AXES)


def added(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.relu() + y, x * y.exp()


def filled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y.t() + torch.ones(x.shape[0])


def multiplied(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.t() @ y


def counted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x + y
    return z * z.shape[0]


def expanded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x + y).expand(2, -1, -1).flatten(1)


def close(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.isclose(x, y)


def numbered(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x[1:] + y
    return torch.arange(z.shape[0])


@pytest.mark.parametrize("program", [added, filled])
@pytest.mark.parametrize("example", [2, 4])
def test_what_only_broadcasts_assumes_nothing(program: Callable[..., torch.Tensor], example: int) -> None:
    exported = export(program, example, example)
    assert exported.assumptions == ()
    for rows, others in ((5, 5), (1, 3), (3, 1), (1, 1)):
        x, y = torch.rand(rows, 3), torch.rand(others, 3)
        torch.testing.assert_close(exported(x, y), program(x, y))


def test_what_needs_equal_axes_assumes_nothing() -> None:
    assert export(multiplied).assumptions == ()


@pytest.mark.parametrize("program", [counted, expanded, close])
def test_a_size_that_something_else_depends_on_has_to_be_that_of_both(program: Callable[..., torch.Tensor]) -> None:
    exported = export(program)
    (assumption,) = exported.assumptions
    assert assumption.condition in ("rows == others", "others == rows")
    x, y = torch.rand(7, 3), torch.rand(7, 3)
    torch.testing.assert_close(exported(x, y), program(x, y))
    with pytest.raises(onnx_parity.AssumptionError, match=f"it assumes {assumption.condition}"):
        exported(x, y[:1])


def test_a_size_that_is_computed_from_that_of_an_axis() -> None:
    exported = export(numbered, 5, 4)
    assert [each.condition for each in exported.assumptions] == ["max(0, rows - 1) == others"]


def test_more_axes_than_are_looked_at_have_to_be_equal() -> None:
    def pairs(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x + y for x, y in zip(tensors[::2], tensors[1::2], strict=True))

    given = tuple(torch.rand(3) for _ in range(20))
    axes = tuple({0: f"axis_{number}"} for number in range(20))
    with pytest.warns(onnx_parity.TracerWarning, match="axis_"):
        exported = onnx_parity.export(pairs, given, dynamic_shapes=axes)
    assert len(exported.assumptions) == 2

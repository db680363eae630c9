"""Programs that make parameters and modules while they run, and that give weights other data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.linspace(-1, 1, 24).reshape(4, 6)
AXES = [None, {"x": {0: "rows"}}]


def scaled(x: torch.Tensor) -> torch.Tensor:
    weight = nn.Parameter(torch.ones(x.shape[1]) * 2)
    assert weight in set(nn.ParameterList([weight]).parameters())
    return x * weight


def of_an_input(x: torch.Tensor) -> torch.Tensor:
    return x + nn.Parameter(x.sum(0), requires_grad=False)


def normalized(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = nn.LayerNorm(x.shape[1:])(x)
    return result


def layers(x: torch.Tensor) -> torch.Tensor:
    made = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU()).eval()
    for weight in made.parameters():
        nn.init.constant_(weight, 0.1)
    result: torch.Tensor = made(x)
    return result


def attention(x: torch.Tensor) -> torch.Tensor:
    made = nn.MultiheadAttention(6, 2).eval()
    for weight in made.parameters():
        nn.init.constant_(weight, 0.1)
    result: torch.Tensor = made(x, x, x)[0]
    return result


def with_data(x: torch.Tensor) -> torch.Tensor:
    made = nn.Linear(6, 6, bias=False)
    made.weight.data = torch.eye(6) * 2
    result: torch.Tensor = made(x)
    return result


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("program", [scaled, of_an_input, normalized, layers, attention, with_data])
def test_what_is_made_while_the_program_runs(
    program: Callable[[torch.Tensor], torch.Tensor], axes: dict[str, dict[int, str]] | None
) -> None:
    exported = onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes=axes, verify=True)
    for rows in (1, 4, 7) if axes else (4,):
        assert_agrees(exported, program, torch.rand(rows, 6))


class Renormed(nn.Linear):
    """As layers with a greatest norm are written."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight.data = torch.renorm(self.weight.data, 2, 0, 0.5)
        return super().forward(x)


class Given(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.rand(6, 6))
        self.register_buffer("total", torch.zeros(6))

    total: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.linear.weight.data = self.scale * x.mean()
        self.total.data = self.total * 0.5 + x.sum(0)
        result: torch.Tensor = self.linear(x) + self.total
        return result


class Replaced(nn.Module):
    """Writes to a parameter before it makes another one of it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight.data.mul_(0.5)
        self.weight = nn.Parameter(self.weight + 1)
        return x * self.weight


class Differentiated(Replaced):
    """Writes to a parameter of a function that it differentiates."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.add_(1)
        with torch.enable_grad():
            y = x.clone().requires_grad_()
            return torch.autograd.grad((y * self.weight).sin().sum(), y)[0]


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize(
    ("make", "written"),
    [
        (lambda: Renormed(6, 6), "weight"),
        (Given, "total, linear.weight"),
        (Replaced, "weight"),
        (Differentiated, "weight"),
    ],
    ids=["renormed", "given", "replaced", "differentiated"],
)
def test_weights_that_are_given_other_data(
    make: Callable[[], nn.Module], written: str, axes: dict[str, dict[int, str]] | None
) -> None:
    program = make()
    before = {name: weight.clone() for name, weight in program.state_dict().items()}
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=f"the program writes to {written}\\."):
        exported = onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes=axes, verify=True)
    assert all(torch.equal(weight, before[name]) for name, weight in program.state_dict().items())
    program.load_state_dict(before)
    expected = program(X)
    torch.testing.assert_close(exported(X), expected, rtol=1e-4, atol=1e-5)


class Remembers(nn.Module):
    """Writes to a tensor that is neither a buffer nor a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = torch.zeros(10, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache[:2] += x[:2]
        return self.cache.sum(0) + x


@pytest.mark.parametrize("axes", AXES)
def test_an_attribute_that_is_written_to(axes: dict[str, dict[int, str]] | None) -> None:
    program = Remembers()
    with pytest.warns(onnx_parity.DroppedWriteWarning, match=r"the program writes to cache\."):
        exported = onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes=axes, verify=True)
    assert not program.cache.any()
    for rows in (2, 4, 7) if axes else (4,):
        assert_agrees(exported, Remembers(), torch.rand(rows, 6))


def test_what_is_written_is_an_output_if_asked_for() -> None:
    exported = onnx_parity.export(Remembers(), (X,), return_written=True)
    assert [each.name for each in exported.model_proto.graph.output] == ["output", "cache_written"]
    exported = onnx_parity.export(Renormed(6, 6), (X,), return_written=True)
    assert [each.name for each in exported.model_proto.graph.output] == ["output", "weight_written"]
    program = Replaced()
    exported = onnx_parity.export(program, (X,), return_written=True)
    result, written = exported(X)
    torch.testing.assert_close(result, program(X))
    torch.testing.assert_close(written["weight"], program.weight.data)


class Lazy(nn.Module):
    norm: nn.LayerNorm | None

    def __init__(self) -> None:
        super().__init__()
        self.norm = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.norm is None:
            self.norm = nn.LayerNorm(x.shape[1:])
        result: torch.Tensor = self.norm(x)
        return result


def test_a_module_that_is_made_by_the_first_call_is_made_anew_afterwards() -> None:
    program = Lazy()
    exported = onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    assert program.norm is None
    assert_agrees(exported, program, torch.rand(7, 6))

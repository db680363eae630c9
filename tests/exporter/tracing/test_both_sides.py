"""Branches of a program's own code on dynamic sizes, of which the model has both sides."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onnx_parity
from tests.thinned import one_in

AXES = ({0: "n"},)


def scaled(x: Tensor) -> Tensor:
    n = x.shape[0]
    if n < 2:
        return x * 1
    if n < 4:
        return x * 2
    if n < 9:
        return x * 3
    return x * 4


def asked_together(x: Tensor) -> tuple[Tensor, Tensor]:
    n = x.shape[0]
    if n > 2 and n % 2 == 0:
        y = x * 2
    elif n == 1 or 2 * n == 10:
        y = x * 3
    else:
        y = x - 1
    return y, y.sum()


def made_even(x: Tensor) -> Tensor:
    if x.shape[0] % 2:
        x = torch.cat([x, x[-1:]])
    return x.view(-1, 2, 6).mean(1)


def without_the_last_row(x: Tensor) -> Tensor:
    return x[:-1] if x.shape[0] % 2 else x


def written_on_one_side(x: Tensor) -> Tensor:
    y = x.clone()
    if x.shape[0] > 3:
        y[1:3] = 0
        y.mul_(2)
    return y


def matched(x: Tensor) -> Tensor:
    match x.shape:
        case (1, _):
            return x * 5
        case (rows, 6) if rows > 2:
            return x * rows
        case _:
            return x


def of_other_ranks(x: Tensor) -> Tensor:
    return x.squeeze(0) if x.shape[0] == 1 else x.mean(1)


def cut_or_padded(x: Tensor) -> Tensor:
    """Four rows of any number, as speech is brought to thirty seconds."""
    rows = x.shape[0]
    if rows > 4:
        x = x[:4]
    if rows < 4:
        x = F.pad(x, (0, 0, 0, 4 - rows))
    return x.reshape(2, 2, 6)


def padded_or_cut(x: Tensor) -> Tensor:
    if x.shape[0] < 4:
        x = F.pad(x, (0, 0, 0, 4 - x.shape[0]))
    elif x.shape[0] > 4:
        x = x.index_select(0, torch.arange(4))
    return x + torch.arange(24.0).view(4, 6)


def of_a_dict(x: Tensor) -> Tensor:
    found: dict[str, Tensor] = {}
    if x.shape[0] > 3:
        found["scores"] = x * 2
    else:
        found["scores"] = x - 2
    if x.shape[0] > 2:
        found["sums"] = found["scores"].sum(1)
    else:
        found["sums"] = found["scores"].sum(1) * 3
    return found["sums"]


class Chosen(nn.Module):
    """Functions without a name, one of them with a variable from around it."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.scale: Callable[[Tensor], Tensor] = lambda x: x * factor if x.shape[0] > 3 else x - factor
        self.activate: Callable[[Tensor], Tensor] = lambda x: x.relu() if len(x) > 2 else x.tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.activate(self.scale(x))


class Positions(nn.Module):
    """Positions for five rows, which are stretched for more."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(5, 6))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] <= self.positions.shape[0]:
            positions = self.positions[: x.shape[0]]
        else:
            stretched = F.interpolate(self.positions.t()[None], size=x.shape[0], mode="linear")
            positions = stretched.squeeze(0).t()
        return x + positions


class Layers(nn.Module):
    """Layers that are chosen anew in each iteration of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList([nn.Linear(6, 6), nn.Conv1d(6, 6, 3, padding=1)])

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            if isinstance(step, nn.Conv1d) and x.size(0) > 2:
                x = x + step(x.t()[None])[0].t()
            elif not isinstance(step, nn.Conv1d):
                x = step(x).relu() if x.size(0) % 3 == 0 else step(x)
        return x


PROGRAMS = [
    scaled,
    asked_together,
    made_even,
    without_the_last_row,
    written_on_one_side,
    matched,
    of_other_ranks,
    cut_or_padded,
    padded_or_cut,
    of_a_dict,
    Chosen(3.0),
    Positions(),
    Layers(),
]


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
@pytest.mark.parametrize("rows", [1, 4, 7])
@pytest.mark.parametrize(
    "program", one_in(2, PROGRAMS), ids=lambda program: getattr(program, "__name__", type(program).__name__)
)
def test_a_model_is_right_on_both_sides(program: Callable[..., Any], rows: int) -> None:
    exported = onnx_parity.export(program, (torch.randn(rows, 6),), dynamic_shapes=AXES, strict=True)
    assert exported.assumptions == ()
    for size in (1, 2, 3, 4, 5, 9, 16):
        x = torch.randn(size, 6)
        torch.testing.assert_close(exported(x), program(x))


def test_what_the_caller_states_leaves_one_side() -> None:
    stated = onnx_parity.export(made_even, (torch.randn(4, 6),), dynamic_shapes=AXES, assume=["n % 2 == 0"])
    both = onnx_parity.export(made_even, (torch.randn(4, 6),), dynamic_shapes=AXES)
    assert [each.condition for each in stated.assumptions] == ["n % 2 == 0"]
    assert "If" not in {node.op_type for node in stated.model_proto.graph.node}
    assert "If" in {node.op_type for node in both.model_proto.graph.node}


def test_what_no_branch_of_a_model_joins_is_an_assumption() -> None:
    def program(x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 2 else x > 0

    with pytest.warns(onnx_parity.TracerWarning, match="n > 2 is True in the example"):
        exported = onnx_parity.export(program, (torch.randn(4, 6),), dynamic_shapes=AXES)
    assert [each.condition for each in exported.assumptions] == ["n > 2"]


def key_on_one_side(x: Tensor) -> Tensor:
    found = {"rows": x}
    if x.shape[0] > 3:
        found["more"] = x * 2
    return found["more"] if "more" in found else found["rows"]


def keys_in_other_orders(x: Tensor) -> list[Tensor]:
    found: dict[str, Tensor] = {}
    if x.shape[0] > 3:
        found["a"], found["b"] = x * 2, x
    else:
        found["b"], found["a"] = x, x * 3
    return [*found.values()]


@pytest.mark.parametrize("program", [key_on_one_side, keys_in_other_orders])
def test_dicts_with_other_keys_are_no_tensors_to_join(program: Callable[..., Any]) -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="n > 3 is True in the example"):
        exported = onnx_parity.export(program, (torch.randn(4, 6),), dynamic_shapes=AXES)
    assert [each.condition for each in exported.assumptions] == ["n > 3"]


@pytest.mark.parametrize("opset", [7, 10])
def test_before_opset_11_both_sides_have_one_shape(opset: int) -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="branches on a dynamic size"):
        exported = onnx_parity.export(
            without_the_last_row, (torch.randn(4, 6),), dynamic_shapes=AXES, opset_version=opset
        )
    assert [each.condition for each in exported.assumptions] == ["n % 2 == 0"]


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 16])
def test_older_opsets_have_both_sides(opset: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnx_parity.TracerWarning)
        exported = onnx_parity.export(scaled, (torch.randn(4, 6),), dynamic_shapes=AXES, opset_version=opset)
    for size in (1, 3, 8, 9):
        x = torch.randn(size, 6)
        torch.testing.assert_close(exported(x), scaled(x))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x, x * 2) if x.shape[0] > 3 else x,
        lambda x: {"long": x} if x.shape[0] > 3 else {"short": x},
        lambda x: [x, x * 2] if x.shape[0] > 3 else [x] if x.shape[0] > 2 else (x,),
    ],
)
def test_structures_that_differ_are_no_results_to_join(program: Callable[..., Any]) -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="n > 3 is True in the example"):
        exported = onnx_parity.export(program, (torch.randn(4, 6),), dynamic_shapes=AXES)
    assert [each.condition for each in exported.assumptions] == ["n > 3"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:what a later write in place changes")
def test_a_question_within_a_side_is_written_down_where_torch_has_asked_it_before() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 1
        y.contiguous(memory_format=torch.channels_last).add_(1)
        return y * 2 if y.mT.is_contiguous() else y * 3

    exported = onnx_parity.export(program, (torch.rand(1, 3, 4, 5),), dynamic_shapes=({2: "n", 3: "m"},))
    for sizes in ((4, 1), (1, 4), (1, 5), (7, 1), (2, 3)):
        x = torch.rand(1, 3, *sizes)
        torch.testing.assert_close(exported(x), program(x))


def _asks_the_same_on_both_sides(x: torch.Tensor) -> torch.Tensor:
    x = x if x.shape[0] != x.shape[1] else x + 2
    x = x[::2]
    x = x.diagonal().unsqueeze(1) if x.shape[0] == x.shape[1] else x
    x = x.sum(0, keepdim=True) if x.shape[0] == 1 else x + 1
    x = x.squeeze()
    return x if x.dim() == 2 else x.reshape(-1, 1)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_question_with_another_answer_on_each_side_is_not_answered_for_both() -> None:
    program = onnx_parity.export(
        _asks_the_same_on_both_sides, (torch.rand(4, 2),), dynamic_shapes=({0: "n", 1: "m"},), opset_version=18
    )
    held = 0
    for sizes in itertools.product(range(1, 7), range(1, 5)):
        x = torch.rand(sizes)
        try:
            result = program(x)
        except onnx_parity.AssumptionError:
            continue
        held += 1
        torch.testing.assert_close(result, _asks_the_same_on_both_sides(x))
    assert held

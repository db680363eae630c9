"""`torch.cond` and similar operators: how they are exported, what is refused, and that torch is unchanged."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.map import map as map_rows

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.ones(2, 3)


def line(program: Callable[..., Any], offset: int) -> str:
    return f"{__file__}:{inspect.getsourcelines(program)[1] + offset}"


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, self.linear, lambda x: x * 2, (x,))
        return result


def operators(graph: onnx.GraphProto) -> list[str]:
    found = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found += operators(attribute.g)
    return found


def test_a_branch_is_one_node_with_two_bodies() -> None:
    program = onnx_parity.export(Gate(), (X,), opset_version=13)
    assert operators(program.model_proto.graph) == ["ReduceSum", "Greater", "If", "Gemm", "Mul"]
    assert program.model_proto.graph.node[2].input == ["Greater"]


def test_operators_of_bodies_are_listed_unless_nothing_needs_them() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            x.erf()
            result: torch.Tensor = torch.cond(x.sum() > 1, lambda x: x.cos(), lambda x: x.sin(), (x,))
            return result

        result: torch.Tensor = torch.cond(x.sum() > 0, inner, lambda x: x * 2, (x,))
        return result

    listed = onnx_parity.capture_program(program, (torch.ones(3),)).operators
    assert {"aten::cos", "aten::sin", "aten::mul"} <= set(listed)
    assert "aten::erf" not in listed


def test_the_printed_graph_shows_bodies(capsys: pytest.CaptureFixture[str]) -> None:
    onnx_parity.export(Gate(), (X,), verbose=True)
    lines = [text.split(" #")[0].strip() for text in capsys.readouterr().out.splitlines()]
    start = lines.index("then_branch():")
    assert lines[start : start + 6] == [
        "then_branch():",
        lines[start + 1],
        "-> (%Gemm)",
        "else_branch():",
        lines[start + 4],
        "-> (%Mul)",
    ]
    assert "onnx::Gemm" in lines[start + 1] and "onnx::Mul" in lines[start + 4]


def test_two_exports_are_the_same_bytes() -> None:
    model = Gate()
    assert onnx_parity.export(model, (X,)).serialize() == onnx_parity.export(model, (X,)).serialize()


def test_weights_are_folded_inside_of_bodies() -> None:
    weight = nn.Parameter(torch.ones(3, 4))

    def program(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x @ weight.t().t(), lambda x: x @ weight, (x,))
        return result

    assert "Transpose" not in operators(onnx_parity.export(program, (X,)).model_proto.graph)


def test_what_a_branch_writes_to_its_operands_is_written() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.clone()

        def write(x: torch.Tensor) -> torch.Tensor:
            x[0] = 7
            return x.sum()

        total = torch.cond(x.sum() > 0, write, lambda x: x.mean(), (x,))
        return x, total

    exported = onnx_parity.export(program, (X,))
    for x, first in ((X, 7.0), (-X, -1.0)):
        written, total = exported(x)
        assert written[0].tolist() == [first] * 3
        assert written[1].tolist() == x[1].tolist()
        assert total.item() == (written.sum().item() if first == 7 else written.mean().item())


def test_values_behind_a_branch_can_be_looked_at() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        x = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        _, x = while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))
        return x * float(x[0, 0])

    exported = onnx_parity.export(program, (X, torch.tensor(2)), strict=True)
    for n in (2, 3):
        torch.testing.assert_close(exported(X, torch.tensor(n)), torch.full((2, 3), 4.0 ** (n + 1)))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda x: x.double(), "one branch returns torch.float32 and the other torch.float64: cast one of them"),
        (lambda x: (x, x), "one branch returns 1 values and the other 2: return the same number from both"),
    ],
)
def test_branches_that_do_not_fit_are_refused(other: Callable[..., Any], message: str) -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x + 1, other, (x,))

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,))
    assert str(caught.value) == f"{message} (at {line(program, 1)})"


def test_other_shapes_need_opset_11() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x[:1], lambda x: x + 0, (x,))

    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(program, (X,), opset_version=10)
    assert str(caught.value) == (
        "1 operator cannot be exported to opset 10:\n"
        "  - prim::If: its branches return different shapes, [1, 3] and [2, 3], which ONNX's If does not allow at "
        f"this opset (possible from opset 11)\n      at {line(program, 1)}\n"
        "Export with opset_version=11 or later."
    )
    exported = onnx_parity.export(program, (X,), opset_version=11)
    assert [exported(x).shape for x in (X, -X)] == [(1, 3), (2, 3)]


def test_a_tensor_does_not_leave_its_branch_by_the_back_door() -> None:
    kept = []

    def program(x: torch.Tensor) -> Any:
        def keep(x: torch.Tensor) -> torch.Tensor:
            kept.append(x * 3)
            return x + 1

        result = torch.cond(x.sum() > 0, keep, lambda x: x - 1, (x,))
        return result + kept[-1]

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,))
    assert str(caught.value) == (
        f"a tensor that is computed in a branch or loop is used after it, at {line(program, 6)}, but the branch or "
        "loop does not return it: return it from its function"
    )


def test_a_value_of_a_loop_cannot_be_looked_at() -> None:
    def program(x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.sum() < 10, lambda x: (x * float(x.numpy()[0, 0]) + 1,), (x,))

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program, (X,))
    assert str(caught.value) == (
        f"the program turned a tensor into a Python value at {line(program, 1)}, inside a loop that is "
        "exported as a loop: its value changes from one iteration to the next. Keep it a tensor. If these are the "
        "experts of a model of transformers that can be set, call model.set_experts_implementation('grouped_mm')."
    )


def test_torch_has_its_own_again() -> None:
    code, call = torch.cond.__code__, type(cond_op).__call__
    onnx_parity.export(Gate(), (X,))
    with pytest.raises(onnx_parity.CaptureError):
        onnx_parity.export(lambda x: torch.cond(x.sum() > 0, lambda x: x, lambda x: x.double(), (x,)), (X,))
    assert torch.cond.__code__ is code and type(cond_op).__call__ is call


def test_other_threads_have_torch_s_own_meanwhile() -> None:
    seen: list[torch.Tensor] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(
            target=lambda: seen.append(cond_op(torch.tensor(False), lambda x: x + 1, lambda x: x - 1, (X,)))
        )
        thread.start()
        thread.join()
        return x + 1

    assert_agrees(onnx_parity.export(program, (X,)), lambda x: x + 1, X)
    torch.testing.assert_close(seen[0], X - 1)


def test_an_exported_program_keeps_its_branches() -> None:
    model = Gate()
    program = onnx_parity.export(torch.export.export(model, (X,)))
    assert "If" in operators(program.model_proto.graph)
    for x in (X, -X):
        assert_agrees(program, lambda x: model.linear(x) if x.sum() > 0 else x * 2, x)


def sines(row: torch.Tensor, *_: Any) -> torch.Tensor:
    return row.sin()


def test_derivatives_through_a_map_are_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = torch.func.grad(lambda y: map_rows(sines, y).pow(2).sum())(x)
        return gradient

    with pytest.raises(onnx_parity.errors.CaptureError, match="asks for gradients through a loop"):
        onnx_parity.export(program, (X,))

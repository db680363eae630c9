"""`torch.vmap` over tensors with dynamic sizes: what torch's own rules refuse is recorded as a loop over the axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnx_parity

Program = Callable[[torch.Tensor], torch.Tensor]
KERNEL = torch.randn(2, 1, 2)


def convolved(row: torch.Tensor) -> torch.Tensor:
    return F.conv1d(row.view(1, 1, -1), KERNEL)


def over_columns(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.vmap(convolved, in_dims=1)(x.t())
    return result


def to_last_axis(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(convolved, out_dims=-1)(x)


def of_a_static_axis(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(convolved)(F.pad(x, (0, 0, 2, 0)).t())


def beside_all(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.vmap(lambda row, whole: convolved(row) + whole.sum(), in_dims=(0, None))(x, x)
    return result


def in_structures(x: torch.Tensor) -> torch.Tensor:
    given = {"row": x, "other": x * 2}
    found = torch.vmap(lambda each: (convolved(each["row"]), {"sum": each["other"].sum()}))(given)
    result: torch.Tensor = found[0] + found[1]["sum"][:, None, None, None]
    return result


def with_keywords(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.vmap(lambda row, *, scale: convolved(row) * scale)(x, scale=3.0)
    return result


def within_each_other(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.vmap(lambda one: torch.vmap(lambda other: convolved(one * other))(x))(x)
    return result


def within_a_static_one(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.vmap(torch.vmap(convolved))(torch.stack([x, x * 2]))
    return result


def in_chunks(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(convolved, chunk_size=2)(x)


def gradients_of_rows(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.vmap(torch.func.grad(lambda row: convolved(row).pow(2).sum()))(x)
    return result


def jacobians_of_rows(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.vmap(torch.func.jacrev(convolved))(x)
    return result


def written_to_rows(x: torch.Tensor) -> torch.Tensor:
    def doubled(row: torch.Tensor) -> torch.Tensor:
        row.mul_(2)
        return convolved(row).sum()

    result: torch.Tensor = torch.vmap(doubled)(x)
    return result[:, None] + x


def classes_of_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row: F.one_hot((row > 0).long(), 2))(x)


PROGRAMS: list[Program] = [
    over_columns, to_last_axis, of_a_static_axis, beside_all, in_structures, with_keywords, within_each_other,
    within_a_static_one, in_chunks, gradients_of_rows, jacobians_of_rows, written_to_rows, classes_of_rows,
]  # fmt: skip


def exported(program: Program, size: int = 3) -> onnx_parity.ONNXProgram:
    return onnx_parity.export(program, (torch.randn(size, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_it_is_right_for_other_sizes(program: Program) -> None:
    model = exported(program)
    assert not model.assumptions
    for size in (1, 2, 3, 7):
        x = torch.randn(size, 4)
        found: Any = model(x.clone())
        torch.testing.assert_close(found, program(x.clone()))


def test_static_ones_keep_torchs_rules() -> None:
    program = onnx_parity.export(over_columns, (torch.randn(3, 4),))
    assert not {"Loop", "Scan"} & {node.op_type for node in program.model_proto.graph.node}


def test_classes_of_static_rows() -> None:
    x = torch.randn(3, 4)
    torch.testing.assert_close(onnx_parity.export(classes_of_rows, (x,))(x), classes_of_rows(x))


def test_derivatives_through_the_loop_are_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = torch.func.grad(lambda y: over_columns(y).pow(2).sum())(x)
        return gradient

    with pytest.raises(onnx_parity.errors.CaptureError, match="asks for gradients through a loop"):
        exported(program)


@pytest.mark.parametrize("options", [{"out_dims": (0, None)}, {"randomness": "same"}], ids=str)
def test_what_a_loop_does_not_have_is_refused(options: dict[str, Any]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.vmap(lambda row: (convolved(row), torch.ones(3)), **options)(x)[0]
        return result

    with pytest.raises(onnx_parity.errors.CaptureError, match="recorded as a loop over it"):
        exported(program)

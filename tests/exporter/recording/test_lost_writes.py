"""Writes in place to what a script, depending on values, returns unchanged or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.op_cases.script_statements import writes_after_loop
from tests.exporter.subjects import assert_agrees


@torch.jit.script
def _unless_negative(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x if bool(n > 0) else x + 1


@torch.jit.script
def _counted(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x
    for _ in range(int(n)):
        y = y + 1
    return x, y


def _reads_what_it_wrote_elsewhere(x: torch.Tensor, n: torch.Tensor) -> Any:
    y = x.clone()
    _unless_negative(y, n).mul_(2)
    return y + 1


def _writes_to_the_argument(x: torch.Tensor, n: torch.Tensor) -> Any:
    y = x.clone()
    same = _unless_negative(y, n)
    y[0] = 0
    return same.sum(0)


def _writes_to_one_of_two_results(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    one, other = _counted(x.clone(), n)
    other.add_(1)
    return one, other


@pytest.mark.parametrize(
    "program", [_reads_what_it_wrote_elsewhere, _writes_to_the_argument, _writes_to_one_of_two_results]
)
def test_a_write_after_a_script_to_what_it_may_have_returned_unchanged_is_refused(program: Callable[..., Any]) -> None:
    message = r"is also one that a script was given .* write to a clone \(at .*test_lost_writes.py"
    with pytest.raises(onnx_parity.CaptureError, match=message):
        onnx_parity.export(program, (torch.rand(2, 3), torch.tensor(1)))


def _writes_to_the_result_only(x: torch.Tensor, n: torch.Tensor) -> Any:
    return _unless_negative(x.clone(), n).mul_(2)


def _adds_the_argument(x: torch.Tensor, n: torch.Tensor) -> Any:
    y = x * 2
    result = _unless_negative(y, n)
    result += y
    return result


def _reads_both_and_writes_to_none(x: torch.Tensor, n: torch.Tensor) -> Any:
    one, other = _counted(x, n)
    return (one * other).add_(1)


@pytest.mark.parametrize("program", [_writes_to_the_result_only, _adds_the_argument, _reads_both_and_writes_to_none])
def test_what_a_script_may_have_returned_unchanged_is_written_to_where_nothing_reads_the_other(
    program: Callable[..., Any],
) -> None:
    x = torch.rand(2, 3)
    exported = onnx_parity.export(program, (x, torch.tensor(1)))
    for n in (-1, 0, 1):
        assert_agrees(exported, program, x, torch.tensor(n))


@torch.jit.script
def _becomes_another(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.set_(y)  # type: ignore[call-overload]
    return x * 2


def test_a_tensor_that_a_script_has_given_other_memory_is_not_read_afterwards() -> None:
    arguments = torch.rand(2, 1), torch.rand(1, 1)
    with pytest.raises(onnx_parity.CaptureError, match="and reads that afterwards: write to a clone"):
        onnx_parity.export(lambda x, y: (_becomes_another(x, y), x + 1), arguments)
    exported = onnx_parity.export(lambda x, y: _becomes_another(x * 1, y) + y, arguments)
    torch.testing.assert_close(exported(*arguments), arguments[1] * 3)


def _adds_in_a_loop(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    h = x * 2
    if bool(n > 0):
        h = h + 1
    for _ in range(int(n)):
        h += x
    return h


def _writes_to_another_argument(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    z = x if bool(n > 0) else x + 1
    y = y * 1
    y.add_(1)
    return z + y


def _collects_what_it_chooses(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    h, total = x * 1, torch.zeros_like(x)
    out: list[torch.Tensor] = []
    for i in range(2):
        if bool(n > i):
            h = h + x
        out.append(h)
        total += h
    return total + torch.stack(out).sum(0)


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(3))

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        h = x
        if bool(n > 0):
            h = h * 2
        self.steps.add_(1)  # type: ignore[operator]
        return h


@pytest.mark.parametrize(
    "function", [_adds_in_a_loop, _writes_to_another_argument, _collects_what_it_chooses, writes_after_loop]
)
def test_scripts_that_write_to_other_memory_than_they_have_chosen(function: Callable[..., Any]) -> None:
    x, y = torch.rand(2, 3), torch.rand(2, 3)
    script: Any = torch.jit.script(function)
    tensors = (x, y) if function is _writes_to_another_argument else (x,)
    exported = onnx_parity.export(script, (*tensors, torch.tensor(1)))
    for n in (0, 1, 3):
        torch.testing.assert_close(exported(*tensors, torch.tensor(n)), script(*tensors, torch.tensor(n)))


def test_a_scripted_module_counts_beside_what_it_chooses() -> None:
    script: Any = torch.jit.script(_Counting())
    x = torch.rand(2, 3)
    exported = onnx_parity.export(script, (x, torch.tensor(1)))
    for n in (0, 1):
        torch.testing.assert_close(exported(x, torch.tensor(n)), x * (1 + n))


def _reads_before_it_writes(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.clone()
    same = _unless_negative(y, n)
    before = y + 1
    same.mul_(2)
    return before, same


def _counts_beside(x: torch.Tensor, n: torch.Tensor) -> Any:
    count, y = n * 1, x * 1
    same = _unless_negative(y, count)
    count.add_(1)
    return same + y + count


@pytest.mark.parametrize("program", [_reads_before_it_writes, _counts_beside])
def test_a_write_that_is_read_nowhere_else_is_exported(program: Callable[..., Any]) -> None:
    x = torch.rand(2, 3)
    exported = onnx_parity.export(program, (x, torch.tensor(1)))
    for n in (-1, 0, 1):
        assert_agrees(exported, program, x, torch.tensor(n))


def _copies_in_a_branch(x: torch.Tensor) -> torch.Tensor:
    y = x[x[:, 0] > 0]
    y = torch.cat([y, x], 1) if y.shape[0] == x.shape[0] else y
    y = y * 1
    y[:, :1] = y[:, -1:]
    copied = y.t().contiguous()
    copied *= 2
    return y + 1


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_copy_in_the_body_of_a_branch_that_is_none_for_some_sizes_is_stated() -> None:
    x = torch.tensor([[1.0, 2, 3], [4, 5, 6], [-1, 7, 8]])
    program = onnx_parity.export(_copies_in_a_branch, (x,), dynamic_shapes=({0: "n", 1: "m"},))
    assert any("m != 1" in str(each) for each in program.assumptions)
    assert program(x).tolist() == _copies_in_a_branch(x).tolist()
    with pytest.raises(onnx_parity.AssumptionError, match=r"writes to the tensor itself|as for the example"):
        program(torch.tensor([[1.0, 2, 3], [-1, 5, 6]]))

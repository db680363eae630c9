"""Operators that read memory which they write to: refused where the order matters, and exported where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.dispatch import composites
from onnx_parity.exporter.dispatch.overlaps import WRITING_WHILE_READING
from onnx_parity.exporter.registry.recorded import named
from onnx_parity.exporter.torch_inside.dispatcher import schema_of
from tests.exporter.subjects import assert_agrees

X = torch.linspace(0.1, 2, 48).reshape(6, 8)
SIZES: list[Any] = [None, ({0: "rows", 1: "columns"},)]


def shifted_to_the_right(y: torch.Tensor) -> None:
    y[:, 1:] += y[:, :-1]


def divided_by_its_first_column(y: torch.Tensor) -> None:
    y /= y[:, :1]


def less_its_first_row(y: torch.Tensor) -> None:
    y -= y[0]


def copied_one_row_further(y: torch.Tensor) -> None:
    y[1:] = y[:-1]


def transposed_in_its_place(y: torch.Tensor) -> None:
    y[:4, :4] = y[:4, :4].t()


def multiplied_by_itself(y: torch.Tensor) -> None:
    y[:4, :4].addmm_(y[:4, :4], y[:4, :4])


def joined_into_itself(y: torch.Tensor) -> None:
    torch.cat([y[1:], y[:1]], out=y)


def summed_into_its_first_row(y: torch.Tensor) -> None:
    torch.sum(y, 0, out=y[0])


def added_at_indices(y: torch.Tensor) -> None:
    y.index_add_(0, torch.tensor([0, 1]), y[:2])


REFUSED: dict[Callable[[torch.Tensor], None], str] = {
    shifted_to_the_right: "aten::add_.Tensor", divided_by_its_first_column: "aten::div_.Tensor",
    less_its_first_row: "aten::sub_.Tensor", copied_one_row_further: "aten::copy_",
    transposed_in_its_place: "aten::copy_", multiplied_by_itself: "aten::addmm_", joined_into_itself: "aten::cat.out",
    summed_into_its_first_row: "aten::sum.IntList_out", added_at_indices: "aten::index_add_",
}  # fmt: skip


def of_copy(write: Callable[[torch.Tensor], None]) -> Callable[[torch.Tensor], torch.Tensor]:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        write(y)
        return y

    return program


@pytest.mark.parametrize("sizes", SIZES, ids=["static", "dynamic"])
@pytest.mark.parametrize("write", REFUSED)
def test_what_depends_on_an_order_is_refused(write: Callable[[torch.Tensor], None], sizes: Any) -> None:
    with pytest.raises(onnx_parity.CaptureError) as raised:
        onnx_parity.export(of_copy(write), (X,), dynamic_shapes=sizes)
    line = write.__code__.co_firstlineno + 1
    assert str(raised.value).splitlines()[0] == (
        f"{REFUSED[write]} reads a part of the memory that it writes to, which PyTorch refuses, or reads partly before "
        "and partly after it has been written: let it read a copy, as in x[:, 1:] += x[:, :-1].clone() "
        f"(at {__file__}:{line})"
    )


def test_many_elements_are_computed_in_several_threads() -> None:
    def shifted(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y[:, :-1] = y[:, 1:]
        return y

    with pytest.raises(onnx_parity.CaptureError, match="let it read a copy"):
        onnx_parity.export(shifted, (torch.zeros(3, 20000),))


def shifted_to_the_left(y: torch.Tensor) -> None:
    y[:, :-1] = y[:, 1:]


def less_its_last_column(y: torch.Tensor) -> None:
    y -= y[:, -1:]


def copied_from_its_first_row_and_column(y: torch.Tensor) -> None:
    y[...] = y[0]
    y.copy_(y[:, :1])


def by_itself(y: torch.Tensor) -> None:
    y += y
    y.t().mul_(y.t())
    y[:, 1:].sub_(y[:, 1:])
    y.copy_(y)


def of_other_columns(y: torch.Tensor) -> None:
    y[:, 0] += y[:, 1]
    y[:, 1:].sub_(y[:, :1])
    y[::2] *= y[1::2][:1]


def one_row_after_the_other(y: torch.Tensor) -> None:
    for row in range(1, y.shape[0]):
        y[row] += y[row - 1]


def halves(y: torch.Tensor) -> None:
    half = y.shape[1] // 2
    one, other = y[:, :half], y[:, half : 2 * half]
    one += other
    other -= one


def unsafe_halves(y: torch.Tensor) -> None:
    one, other = torch.unsafe_chunk(y, 2, 1)
    one.sigmoid_()
    other.mul_(one[:, :1])


def parts_of_complex_numbers(y: torch.Tensor) -> None:
    z = torch.complex(y, y * 2)
    z.real.mul_(z.imag)
    y.copy_(z.real)


def number_of_its_own(y: torch.Tensor) -> None:
    first = y[0, 0]
    y.mul_(2)
    y[:, 1:].masked_fill_(y[:, 1:] > 0.3, first)
    y[1:].fill_(y[0, 0])


def into_another_one(y: torch.Tensor) -> None:
    torch.mul(y, 2, out=y)
    y.index_add_(0, torch.tensor([0, 1]), y[:2].clone())


@pytest.mark.parametrize("sizes", SIZES, ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "write",
    [shifted_to_the_left, less_its_last_column, copied_from_its_first_row_and_column, by_itself, of_other_columns,
     one_row_after_the_other, halves, unsafe_halves, parts_of_complex_numbers, number_of_its_own, into_another_one],
)  # fmt: skip
def test_what_depends_on_no_order_is_exported(write: Callable[[torch.Tensor], None], sizes: Any) -> None:
    program = of_copy(write)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported = onnx_parity.export(program, (X,), dynamic_shapes=sizes)
    for x in [X] if sizes is None else [X, X[:4, :6], X[:, :2]]:
        assert_agrees(exported, program, x)


def test_each_of_them_reads_a_tensor_beside_the_one_that_it_writes_to() -> None:
    assert WRITING_WHILE_READING.isdisjoint(composites._composites)
    for name in WRITING_WHILE_READING:
        schema = schema_of(named(name))
        arguments = [each for each in schema.arguments if "Tensor" in str(each.type)]
        written = [each for each in arguments if each.is_write]
        assert len(arguments) > len(written) == 1, name
        assert (written[0].name == "out") == name.endswith("out"), name
        assert written[0].name == "out" or schema.arguments[0].name == "self", name

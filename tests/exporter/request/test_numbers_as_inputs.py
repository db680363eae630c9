"""Numbers that are inputs of the model (`AnyNumber`), in functions and in scripts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

import onnx_parity
from onnx_parity.exporter import AnyNumber

_X = torch.arange(6.0).reshape(2, 3)


def moved(x: Tensor, by: float, times: int) -> Tensor:
    return (x + by) * times


def repeated(x: Tensor, times: int) -> Tensor:
    return x.repeat(times, 1) + torch.arange(times).sum()


def of_ints(x: Tensor, by: float) -> Tensor:
    return x.to(torch.int64) * by


@torch.jit.script
def chosen(x: Tensor, flag: bool, times: int) -> tuple[Tensor, int]:
    if flag:
        for _ in range(times):
            x = x * 2.0
    else:
        x = x + times
    return x, times + 1


@torch.jit.script
def of_list(x: Tensor, numbers: list[float]) -> Tensor:
    return x * numbers[0] + numbers[1]


def _export(program: Any, *args: Any, **options: Any) -> onnx_parity.ONNXProgram:
    return onnx_parity.export(program, (_X, *args), verify=True, **options)


@pytest.mark.parametrize("opset", [9, 13, 18])
def test_numbers_are_inputs_of_a_function(opset: int) -> None:
    marks = {"by": AnyNumber(), "times": AnyNumber()}
    program = _export(moved, 0.5, 2, dynamic_axes=marks, opset_version=opset)
    assert program.input_names == ("x", "by", "times")
    assert [value.dtype.name for value in program.model.graph.inputs] == ["FLOAT", "DOUBLE", "INT64"]  # type: ignore[union-attr]
    for by, times in ((0.5, 2), (-3.25, 7), (1, 0)):
        assert torch.equal(program(_X, by, times), moved(_X, by, times))


def test_a_number_may_be_a_size() -> None:
    program = _export(repeated, 2, dynamic_axes={"times": AnyNumber()})
    assert torch.equal(program(_X, 5), repeated(_X, 5))


def test_a_float_beside_ints_makes_float32() -> None:
    program = _export(of_ints, 0.5, dynamic_axes={"by": AnyNumber()})
    result = program(_X, 1.5)
    assert result.dtype is torch.float32
    assert torch.equal(result, of_ints(_X, 1.5))


def test_numbers_are_inputs_of_a_script() -> None:
    program = _export(chosen, True, 3, dynamic_axes={"flag": AnyNumber(), "times": AnyNumber()}, opset_version=13)
    for flag, times in ((True, 3), (True, 0), (False, 4)):
        result, count = program(_X, flag, times)
        wanted, number = chosen(_X, flag, times)
        assert torch.equal(result, wanted)
        assert count == number


def test_a_list_of_numbers_is_an_input_for_each() -> None:
    program = _export(of_list, [2.0, 1.0], dynamic_axes={"numbers": AnyNumber()})
    assert program.input_names == ("x", "numbers_0", "numbers_1")
    assert torch.equal(program(_X, [3.0, -1.0]), of_list(_X, [3.0, -1.0]))


def test_dynamic_shapes_ask_for_it_as_torch_export_does() -> None:
    program = _export(repeated, 2, dynamic_shapes={"x": None, "times": Dim.DYNAMIC})
    assert torch.equal(program(_X, 3), repeated(_X, 3))


def test_other_numbers_stay_constants() -> None:
    program = _export(moved, 0.5, 2, dynamic_axes={"by": AnyNumber()})
    assert program.input_names == ("x", "by")
    with pytest.raises(onnx_parity.ArgumentError, match="times is 3, but the model was exported with the constant 2"):
        program(_X, 0.5, 3)


def branched(x: Tensor, times: int) -> Tensor:
    return x * 2 if times > 1 else x


def along(x: Tensor, axis: int) -> Tensor:
    return x.sum(axis) * axis


@torch.jit.script
def along_in_script(x: Tensor, axis: int) -> Tensor:
    return x.sum(axis) * axis


def test_a_branch_on_a_number_has_both_sides() -> None:
    program = _export(branched, 1, dynamic_axes={"times": AnyNumber()}, strict=True)
    for number in (-2, 0, 1, 5):
        assert torch.equal(program(_X, number), branched(_X, number))


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
@pytest.mark.parametrize(("program", "name"), [(along, "axis"), (along_in_script, "axis")])
def test_a_number_whose_value_the_program_needs_is_refused(program: Any, name: str) -> None:
    with pytest.raises(onnx_parity.FrozenValueError) as refused:
        _export(program, 1, dynamic_axes={name: AnyNumber()})
    first, line, advice = str(refused.value).split("\n")
    assert first == "the program needs the value of 1 number that AnyNumber makes an input of the model:"
    assert line.startswith(f"  - {name!r} at {__file__}:")
    assert advice == (
        "Script the function that decides by it, or export without this AnyNumber, one model for each number."
    )


@pytest.mark.parametrize(
    ("program", "args", "marks", "message"),
    [
        (
            moved, (torch.ones(()), 2), {"by": AnyNumber()},
            "dynamic_axes['by'] is an AnyNumber, but the example has a float32 tensor of 0 axes there: give an int, a "
            "float or a bool",
        ),
        (
            moved, (0.5, 2), {"bye": AnyNumber()},
            "dynamic_axes['bye'] is an AnyNumber, but the program has no argument of this name: give one of x, by, "
            "times",
        ),
    ],
)  # fmt: skip
def test_marks_that_do_not_fit_are_refused(program: Any, args: Any, marks: Any, message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as refused:
        _export(program, *args, dynamic_axes=marks)
    assert str(refused.value) == message


def test_a_name_too_many_says_how_numbers_become_inputs() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as refused:
        _export(moved, 0.5, 2, input_names=["x", "by"])
    assert str(refused.value) == (
        "input_names has 2 names, but the program has 1 input and 0 weights: leave out the last 1. Numbers are "
        "constants of the model unless dynamic_axes={'by': AnyNumber()} makes them inputs"
    )


def test_a_call_with_another_kind_of_number_is_refused() -> None:
    program = _export(repeated, 2, dynamic_axes={"times": AnyNumber()})
    with pytest.raises(onnx_parity.ArgumentError) as refused:
        program(_X, 2.5)
    assert str(refused.value) == "times is an int in the model, but 2.5 was given: give an int"

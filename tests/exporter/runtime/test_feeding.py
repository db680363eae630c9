"""Calls of an exported program: arguments are bound to inputs, and arguments that do not fit are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity

X = torch.arange(6.0).reshape(2, 3)
Y = X + 10


def less(x: torch.Tensor, y: torch.Tensor, times: int = 1) -> torch.Tensor:
    return (x - y) * times


@pytest.fixture(scope="module")
def program() -> onnx_parity.ONNXProgram:
    return onnx_parity.export(less, (X, Y), dynamic_axes={"x": {0: "rows"}, "y": {0: "rows"}})


def test_arguments_by_name_come_in_any_order(program: onnx_parity.ONNXProgram) -> None:
    for result in (program(X, Y), program(y=Y, x=X), program(X, y=Y), program.call_reference(y=Y, x=X)):
        assert torch.equal(result, X - Y)
    (values,) = program.compute_values(["output"], (), {"y": Y, "x": X})
    assert torch.equal(values, X - Y)


def test_what_was_exported_by_name_is_taken_by_position() -> None:
    program = onnx_parity.export(less, kwargs={"y": Y, "x": X})
    assert program.input_names == ("y", "x")
    assert torch.equal(program(X, Y), X - Y)


def test_dicts_come_in_any_order() -> None:
    program = onnx_parity.export(lambda pair: pair["a"] - pair["b"][0], ({"a": X, "b": [Y]}, {}))
    assert torch.equal(program({"b": (Y,), "a": X}), X - Y)


def test_constant_arguments_may_be_given_or_omitted() -> None:
    program = onnx_parity.export(less, (X, Y, 2))
    for result in (program(X, Y), program(X, Y, 2), program(X, Y, times=2)):
        assert torch.equal(result, (X - Y) * 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f(X), "the model takes 2 tensors (x, y), but got 1: 'y' is missing, give it too"),
        (lambda f: f(), "the model takes 2 tensors (x, y), but got 0: 'x' is missing, give it too"),
        (lambda f: f(X, inp=Y), "the program has no parameter 'inp': its parameters are x, y, times."),
        (lambda f: f(X, Y, x=X), "the program gets 'x' twice, by position and by name: give it in args or in kwargs"),
        (
            lambda f: f(X, Y, Y),
            "the model takes 2 tensors (x, y), but got 3: it was exported without 'times', leave it out",
        ),
        (
            lambda f: f(X, Y, X, Y),
            "the model takes 2 tensors (x, y), but got 4: it was exported without 'times', leave it out",
        ),
        (
            lambda f: f(X, Y, 2),
            "times is 2, but the model was exported with the constant 1 there. Export it with this value, or make it a "
            "tensor",
        ),
        (lambda f: f(X, 3), "y is a tensor in the model, but 3 was given: give a tensor"),
        (lambda f: f(X, Y.numpy()), "y is a tensor in the model, but a ndarray was given: give a tensor"),
        (
            lambda f: f(X, [Y, Y]),
            "y is a list, but the program was exported with torch.float32[2, 3]: give one of the same structure",
        ),
        (
            lambda f: f(X, Y.double()),
            "the input 'y' must be torch.float32[rows, 3], and torch.float64[2, 3] was given: convert it with .to(...)",
        ),
        (
            lambda f: f(X[0], Y),
            "the input 'x' must be torch.float32[rows, 3], and torch.float32[3] was given: give a tensor with "
            "this number of axes",
        ),
        (
            lambda f: f(X[:, :2], Y[:, :2]),
            "the input 'x' must be torch.float32[rows, 3], and torch.float32[2, 2] was given: to let an axis "
            "have any size, name it in dynamic_axes when the program is exported",
        ),
        (
            lambda f: f(X, Y[:1]),
            "the axis 'rows' has size 2 in 'x' and 1 in 'y': axes with the same name must have the same size",
        ),
    ],
)
def test_wrong_calls(
    program: onnx_parity.ONNXProgram, call: Callable[[onnx_parity.ONNXProgram], Any], message: str
) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        call(program)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"a": X, "c": [Y]}, "pair has the keys ['a', 'c'], but the program was exported with ['a', 'b']: give these"),
        ({"a": X, "b": [Y, Y]}, "pair['b'] has 2 items, but the program was exported with 1: give as many"),
        ({"a": X, "b": [2]}, "pair['b'][0] is a tensor in the model, but 2 was given: give a tensor"),
    ],
)
def test_wrong_structures(argument: Any, message: str) -> None:
    program = onnx_parity.export(lambda pair: pair["a"] - pair["b"][0], ({"a": X, "b": [Y]}, {}))
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program(argument)
    assert str(caught.value) == message


def test_a_tensor_in_the_place_of_a_number() -> None:
    program = onnx_parity.export(less, (X, Y, 2))
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program(X, Y, torch.tensor(2))
    assert str(caught.value) == (
        "times is a tensor, but the model was exported with the constant 2 there. Export it with a tensor"
    )


class Tokens:
    """Like a cache of transformers, which has no tensors before the first token."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = [*tensors]


def longer(x: torch.Tensor, past: Tokens) -> torch.Tensor:
    return torch.cat([*past.tensors, x], 1)


def test_an_object_that_holds_no_tensor_yet() -> None:
    shapes = {"x": {0: "rows", 1: "new"}, "past": {0: "rows", 1: "past"}}
    program = onnx_parity.export(longer, (X, Tokens(Y)), dynamic_shapes=shapes)
    assert torch.equal(program(X[:1], Tokens()), X[:1])
    assert torch.equal(program(X, past=Tokens(Y[:, :1])), torch.cat([Y[:, :1], X], 1))


def test_an_object_that_must_hold_a_tensor() -> None:
    program = onnx_parity.export(longer, (X, Tokens(Y)), dynamic_shapes={"x": {1: "new"}, "past": None})
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program(X, Tokens())
    assert str(caught.value) == (
        "past holds no tensor, but 'past.tensors.0' has [2, 3] in the model, which is not empty: give an object that "
        "holds its tensors"
    )

"""Decisions on numbers that a program reads: the condition itself is the assumption, and not the example's numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

import onnx_parity


def _some_are_positive(x: torch.Tensor) -> torch.Tensor:
    positive = x[x > 0]
    return positive.max() if positive.numel() > 0 else x.sum()


def _is_large(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum().item() > 3 else x


def _two_questions(x: torch.Tensor) -> torch.Tensor:
    number = int(x.sum())
    x = x * 2 if number > 3 else x
    return x + 1 if number > 10 else x


def _two_numbers(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.argmax().item() < x.argmin().item() else x


def _a_number_and_a_size(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.argmax().item() < x.shape[0] - 1 else x


def _two_counts(x: torch.Tensor) -> torch.Tensor:
    positive, negative = x[x > 0], x[x < 0]
    return positive.sum() * 2 if len(positive) > len(negative) else negative.sum()


def _in_a_range(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if 0 < x.argmax().item() < 3 else x


def _at_a_number(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x[int(x.argmax().item())].item() > 2.5 else x


@pytest.mark.parametrize(
    "program",
    [
        _some_are_positive,
        _is_large,
        _two_questions,
        _two_numbers,
        _a_number_and_a_size,
        _two_counts,
        _in_a_range,
        _at_a_number,
    ],
)
def test_a_model_is_right_exactly_where_the_condition_holds(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    example = torch.tensor([1.0, 3.0, 2.0, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        exported = onnx_parity.export(program, (example,), dynamic_shapes=({0: "n"},), assumptions_output=True)
    told = []
    for numbers in (
        [1.0, 2.0, 3.0], [2.0, 3.0, 4.0, -5.0], [3.0, -1.0, 3.0], [-1.0, -1.5, -2.0], [10.0, 20.0], [6.0, 1.0, 2.0],
        [1.0, 2.0, 3.0, 4.0, 5.0, -6.0],
    ):  # fmt: skip
        x = torch.tensor(numbers)
        try:
            result = exported(x)
            told.append(True)
            torch.testing.assert_close(result, program(x))
        except onnx_parity.AssumptionError:
            told.append(False)
        assert exported.runtime_session().run({exported.input_names[0]: x})[-1].item() is told[-1]
    assert set(told) == {True, False}
    assert len(set(map(str, exported.assumptions))) == (2 if program is _two_questions else 1)

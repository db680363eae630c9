"""Decisions on numbers that a program reads: the condition itself is the assumption, and not the example's numbers.

The two sides of each have other dtypes, so that no branch of a model joins them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnx_parity


def _some_are_positive(x: torch.Tensor) -> torch.Tensor:
    positive = x[x > 0]
    return positive.max() if positive.numel() > 0 else x.sum() > 0


def _is_large(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum().item() > 3 else x > 0


def _two_questions(x: torch.Tensor) -> torch.Tensor:
    number = int(x.sum())
    x = x * 2 if number > 3 else x > 0
    return x + 1 if number > 10 else x > 0


def _two_numbers(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.argmax().item() < x.argmin().item() else x > 0


def _a_number_and_a_size(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.argmax().item() < x.shape[0] - 1 else x > 0


def _two_counts(x: torch.Tensor) -> torch.Tensor:
    positive, negative = x[x > 0], x[x < 0]
    return positive.sum() * 2 if len(positive) > len(negative) else negative.sum() > 0


def _in_a_range(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if 0 < x.argmax().item() < 3 else x > 0


def _at_a_number(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x[int(x.argmax().item())].item() > 2.5 else x > 0


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
    assert len(set(map(str, exported.assumptions))) == 1


def _asks_again(x: torch.Tensor) -> torch.Tensor:
    found = x[x > 0]
    is_chosen = found.shape[0] > 1 and x.ndim == 5  # The first part itself where that does not hold.
    return found * 2 if is_chosen else found


def _warned_by_torch(x: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(x[x > 0], -x[x < 0])


def _refused_by_torch(x: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy(x[x > 0].sigmoid(), x[x < 0].sigmoid())


@pytest.mark.parametrize("program", [_asks_again, _warned_by_torch, _refused_by_torch])
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
def test_questions_that_make_no_difference_are_no_assumptions(
    program: Callable[[torch.Tensor], torch.Tensor], dynamic: tuple[dict[int, str]] | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported = onnx_parity.export(program, (torch.tensor([1.0, -3.0, 2.0, -1.0]),), dynamic_shapes=dynamic)
    assert not exported.assumptions
    for numbers in ([1.0, -2.0, -3.0, -4.0], [-3.0, 1.0, -2.0, 1.5]):
        x = torch.tensor(numbers)
        if program is not _refused_by_torch or (x > 0).sum() == (x < 0).sum():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                expected = program(x)
            torch.testing.assert_close(exported(x), expected)


def _by_two_sizes(x: torch.Tensor) -> Any:
    return F.gaussian_nll_loss(x[x > 0], x[x > 0] + 1, x[x != 0].abs() + 1)


def test_what_a_function_of_torch_decides_by_numbers_is_an_assumption() -> None:
    x = torch.tensor([1.0, 3.0, 2.0, 1.0])
    with pytest.warns(onnx_parity.TracerWarning):
        exported = onnx_parity.export(_by_two_sizes, (x,))
    assert exported.assumptions
    torch.testing.assert_close(exported(x), _by_two_sizes(x))
    with pytest.raises(onnx_parity.AssumptionError):
        exported(torch.tensor([1.0, 3.0, 2.0, -1.0]))

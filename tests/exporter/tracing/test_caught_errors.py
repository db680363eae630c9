"""Errors that a program catches: of torch for some sizes, which are assumptions, and errors of the recording, which are
not the program's."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import onnx_parity

SIZES = [(5, 3), (4, 3), (2, 2), (6, 1), (1, 6), (3, 5)]


def export(program: Callable[..., object], *sizes: int) -> onnx_parity.ONNXProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        return onnx_parity.export(program, (torch.ones(sizes),), dynamic_shapes=({0: "n", 1: "m"},))


def halves(x: torch.Tensor) -> torch.Tensor:
    try:
        parts: torch.Tensor = x.unflatten(0, (2, -1))
        return parts.sum(0)
    except RuntimeError:
        return x.sum(0)


def rows_of_two(x: torch.Tensor) -> torch.Tensor:
    y = x
    with contextlib.suppress(RuntimeError):
        y = x.view(2, -1)
    return y * 2


def convolved(x: torch.Tensor) -> torch.Tensor:
    try:
        return F.conv1d(x[:, None], torch.ones(1, 1, 3)).flatten(1)
    except RuntimeError:
        return x


def number(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * x.sum(0).item()
    except RuntimeError:
        return x


@pytest.mark.parametrize(
    ("program", "example", "condition"),
    [
        (halves, (4, 3), "n % 2 == 0"),
        (halves, (5, 3), "n % 2 != 0"),
        (rows_of_two, (4, 3), "(m*n) % 2 == 0"),
        (convolved, (4, 3), "m >= 3"),
        (number, (4, 3), "m != 1"),
    ],
)
def test_for_which_sizes_it_is_raised(
    program: Callable[[torch.Tensor], torch.Tensor], example: tuple[int, int], condition: str
) -> None:
    exported = export(program, *example)
    assert condition in [each.condition for each in exported.assumptions]
    compared = 0
    for n, m in SIZES:
        if all(each.holds_for({"n": n, "m": m}) for each in exported.assumptions):
            x = torch.ones(n, m)
            assert torch.equal(exported(x), program(x))
            compared += 1
    assert compared


def test_an_error_that_is_raised_again_is_no_question() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            return x.view(2, -1)
        except RuntimeError as error:
            raise ValueError("an even number of rows") from error

    assert not export(program, 4, 3).assumptions


def test_sizes_for_which_no_condition_is_known() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            return x + torch.ones(4, 3)
        except RuntimeError:
            return x

    with pytest.raises(onnx_parity.CaptureError, match="catches an error that depends on dynamic sizes"):
        export(program, 5, 7)


def test_an_error_of_the_recording_is_not_the_programs() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * round(x.shape[0] / 3, 1)
        except Exception:  # noqa: BLE001  That of a program, which takes all errors for its own.
            return x

    with pytest.raises(onnx_parity.CaptureError, match="rounding"):
        export(program, 5, 3)

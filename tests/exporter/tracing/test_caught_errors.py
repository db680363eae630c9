"""Errors that a program catches: of torch for some sizes, which are assumptions, and errors of the recording, which are
not the program's."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable

import numpy as np
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


def broadcast(x: torch.Tensor) -> torch.Tensor:
    try:
        return x + torch.ones(x.shape[0])
    except RuntimeError:
        return x


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


def of_a_quotient(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * (12 // (x.shape[0] - 2))
    except ZeroDivisionError:
        return x


def of_a_root(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * math.sqrt(x.shape[1] - 2)
    except ValueError:
        return x


@pytest.mark.parametrize(
    ("program", "example", "condition"),
    [
        pytest.param(halves, (4, 3), "n % 2 == 0", marks=pytest.mark.slow),
        (halves, (5, 3), "n % 2 != 0"),
        pytest.param(rows_of_two, (4, 3), "(m*n) % 2 == 0", marks=pytest.mark.slow),
        (rows_of_two, (4, 2), "(m*n) % 2 == 0"),  # Whatever one axis is beside the example's size of the other.
        pytest.param(broadcast, (5, 3), "(m != 1) and (m != n) and (n != 1)", marks=pytest.mark.slow),
        pytest.param(broadcast, (2, 2), "(m == 1) or (m == n) or (n == 1)", marks=pytest.mark.slow),
        pytest.param(convolved, (4, 3), "m >= 3", marks=pytest.mark.slow),
        (number, (4, 3), "m != 1"),
        (of_a_quotient, (4, 3), "n - 2 != 0"),
        (of_a_root, (4, 3), "m - 2 >= 0"),
    ],
)
def test_for_which_sizes_it_is_raised(
    program: Callable[[torch.Tensor], torch.Tensor], example: tuple[int, int], condition: str
) -> None:
    exported = export(program, *example)
    assert condition in [each.condition for each in exported.assumptions]
    compared = 0
    for n, m in SIZES:
        if all(each.holds_for({"n": n, "m": m}) is not False for each in exported.assumptions):
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


class Swallows:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> bool:
        return True


TABLE = {4: 2.0, 5: 3.0}


def found_or_one(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * TABLE[x.shape[0]]
    except Exception:  # noqa: BLE001  As above.
        return x


def found_or_none(x: torch.Tensor) -> torch.Tensor:
    factor = 1.0
    with Swallows():
        factor = TABLE.get(x.shape[0], 7.0)
    return x * factor


def of_numpy(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * float(np.cbrt(x.shape[0]))
    except (TypeError, KeyError):
        return x


def given_up_inside(x: torch.Tensor) -> torch.Tensor:
    def factor(size: int) -> float:
        try:
            return TABLE[size]
        except KeyError:
            return 1.0

    try:
        return x * factor(len({x.shape[0], x.shape[1]}))
    except TypeError:
        return x


@pytest.mark.parametrize("program", [found_or_one, found_or_none, of_numpy, given_up_inside])
def test_an_error_of_a_symbolic_number_is_not_the_programs(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(onnx_parity.CaptureError, match="that a dynamic size raises"):
        export(program, 4, 3)


def test_an_error_of_the_programs_own_is() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        for key in (3, 4):
            try:
                x = x * TABLE[key]
            except KeyError:
                continue
        return x * x.shape[0]

    exported = export(program, 5, 3)
    assert not exported.assumptions
    assert torch.equal(exported(torch.ones(2, 2)), torch.full((2, 2), 4.0))

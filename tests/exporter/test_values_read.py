"""Programs that read values: recorded with a warning at the user's line, and refused with strict=True."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import onnx_parity

X = torch.ones(3, 4)
N = torch.tensor(3)
SCALE = torch.tensor([2.0, 1.0])


def branches(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


def counts(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * int(n)


def reads_a_float(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * float(x[0, 0])


def through_numpy(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + float(np.asarray(x * 2).sum())


def through_a_list(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    total: float = sum(x[0].tolist())
    return x * total


def compares(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.allclose(x, x * 1) and torch.equal(x, x * 1) else x


def message(program: Callable[..., Any]) -> str:
    return (
        f"the program turned a tensor into a Python value at {__file__}:{inspect.getsourcelines(program)[1] + 1}; the "
        "exported model has the example's value as a constant and will be wrong if another input gives another value. "
        "Keep it a tensor (torch.where, torch.cond), or script the function that reads it"
    )


@pytest.mark.parametrize("axes", [None, {"x": [0]}], ids=["static", "dynamic"])
@pytest.mark.parametrize("program", [branches, counts, reads_a_float, through_numpy, through_a_list, compares])
def test_the_example_is_used_with_a_warning(program: Callable[..., Any], axes: dict[str, list[int]] | None) -> None:
    with pytest.warns(onnx_parity.TracerWarning) as caught:
        exported = onnx_parity.export(program, (X, N), dynamic_axes=axes)
    line = inspect.getsourcelines(program)[1] + 1
    assert {str(warning.message) for warning in caught} == {message(program)}
    assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, line)}
    torch.testing.assert_close(exported(X, N), program(X, N))


@pytest.mark.parametrize("axes", [None, {"x": [0]}], ids=["static", "dynamic"])
@pytest.mark.parametrize("program", [branches, counts, reads_a_float, through_numpy, through_a_list, compares])
def test_strict_refuses(program: Callable[..., Any], axes: dict[str, list[int]] | None) -> None:
    with pytest.raises(onnx_parity.FrozenValueError) as caught:
        onnx_parity.export(program, (X, N), dynamic_axes=axes, strict=True)
    assert str(caught.value) == message(program)


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
def test_scripts_look_at_values_when_the_model_runs() -> None:
    @torch.jit.script
    def scripted(x):  # type: ignore[no-untyped-def]
        if x.sum() > 0:
            return x + 1
        return x - 1

    exported = onnx_parity.export(lambda x: scripted(x) * 2, (X,), strict=True)
    for x in (X, -X):
        torch.testing.assert_close(exported(x), scripted(x) * 2)


@pytest.mark.filterwarnings("error")
def test_values_that_no_input_changes_may_be_read() -> None:
    def known(x: torch.Tensor) -> torch.Tensor:
        if SCALE.sum() > 2 and len(x) == x.shape[0]:
            total: float = sum(SCALE.tolist())
            return x * SCALE[0].item() + total + torch.from_numpy(SCALE.numpy()).sum()
        return x

    torch.testing.assert_close(onnx_parity.export(known, (X,), strict=True)(X), known(X))


@pytest.mark.filterwarnings("error")
def test_printing_a_tensor_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    def chatty(x: torch.Tensor) -> torch.Tensor:
        print(x)
        print("rows", x.shape[0])
        return x + 1

    torch.testing.assert_close(onnx_parity.export(chatty, (X,), strict=True)(X), X + 1)
    assert "rows 3" in capsys.readouterr().out


def keeps_numbers(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x[n - 1] * n.item() + x.sum().item() + torch.tensor([n, 1, 2, 3]).sum()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("axes", [None, {"x": [0]}], ids=["static", "dynamic"])
def test_numbers_stay_symbols(axes: dict[str, list[int]] | None) -> None:
    exported = onnx_parity.export(keeps_numbers, (X, N), dynamic_axes=axes, strict=True)
    for n in (1, 2, 3):
        x = torch.rand(3, 4)
        torch.testing.assert_close(exported(x, torch.tensor(n)), keeps_numbers(x, torch.tensor(n)))


def test_a_number_that_cannot_stay_a_symbol_is_taken_from_the_example_with_a_warning() -> None:
    def decides(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, p=float(n.item()) / 10, training=False) + n.item()

    with pytest.warns(onnx_parity.TracerWarning, match="turned a tensor into a Python value"):
        exported = onnx_parity.export(decides, (X, N))
    torch.testing.assert_close(exported(X, N), decides(X, N))
    with pytest.raises(onnx_parity.FrozenValueError):
        onnx_parity.export(decides, (X, N), strict=True)

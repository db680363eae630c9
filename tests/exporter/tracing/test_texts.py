"""Texts that a program makes of tensors and of dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity

AXES = ({0: "n", 1: "m"},)
X = torch.arange(24.0).reshape(4, 6) + 1


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * len(str(x)),
        lambda x: x * len(f"{x.shape}"),
        lambda x: x * float(str(x.shape[0])),
        lambda x: x * 2 if f"{x.shape[0]}" == "4" else x * 3,
        lambda x: x * 2 if str(x.shape[0] > 3) == "True" else x * 3,
        lambda x: x * {"4": 2.0}.get(str(x.shape[0]), 3.0),
    ],
)
def test_results_that_depend_on_texts_are_refused(program: Callable[..., Any]) -> None:
    with pytest.raises(onnx_parity.CaptureError, match=r"makes a text of a tensor or of a dynamic size at .*test"):
        onnx_parity.export(program, (X,), dynamic_shapes=AXES)


def test_texts_without_which_the_results_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    def prints(x: torch.Tensor) -> torch.Tensor:
        print(f"{x.shape} {x.shape[0] + 1}", x)
        return x * 2

    exported = onnx_parity.export(prints, (X,), dynamic_shapes=AXES)
    assert exported.assumptions == ()
    assert "torch.Size([4, 6]) 5" in capsys.readouterr().out
    torch.testing.assert_close(exported(X[:3]), X[:3] * 2)

"""Texts that a program makes of tensors and of dynamic sizes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.tracing import trace
from onnx_parity.exporter.tracing.attempt import record

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


_log = logging.getLogger(__name__)


def _checks(x: torch.Tensor) -> torch.Tensor:
    torch._assert(
        x.dim() == 2, f"{type(x)} of {x.shape[-2:]}, the first divided by the second is {x.shape[0] / x.shape[1]:.2f}"
    )
    return x * 2


def _logs(x: torch.Tensor) -> torch.Tensor:
    _log.info(f"{x.shape[0]:04d} rows: {x}")
    logging.debug(f"{len(x)}")
    print(x.shape, x)
    return x * 2


@pytest.mark.parametrize("program", [_checks, _logs])
def test_texts_that_are_only_said_do_not_make_it_record_again(
    program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = []

    def counted(*args: Any) -> Any:
        recordings.append(args)
        return record(*args)

    monkeypatch.setattr(trace, "record", counted)
    exported = onnx_parity.export(program, (X,), dynamic_shapes=AXES)
    assert len(recordings) == 1
    assert exported.assumptions == ()
    torch.testing.assert_close(exported(X[:3]), X[:3] * 2)


def _length_of_a_text(x: torch.Tensor) -> torch.Tensor:
    kept = []
    kept.append(f"{x.shape[0]}")
    return x * len(kept[0])


def _through_a_function(x: torch.Tensor) -> torch.Tensor:
    kept: list[str] = []
    print(f"{[*kept.__iadd__([str(x.shape[0])])]}")
    return x * len(kept[0])


def _by_a_local_name(x: torch.Tensor) -> torch.Tensor:
    kept: list[str] = []
    print = kept.append
    print(f"{x.shape[0]}")
    return x * len(kept[0])


@pytest.mark.parametrize("program", [_length_of_a_text, _through_a_function, _by_a_local_name])
def test_texts_that_are_kept_are_not_only_said(program: Callable[..., Any]) -> None:
    with pytest.raises(onnx_parity.CaptureError, match="depends on the text"):
        onnx_parity.export(program, (X,), dynamic_shapes=AXES)

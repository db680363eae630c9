"""Programs that are recorded once: each further recording takes as long as the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onnx_parity
from onnx_parity.exporter.sizes.python_functions import CALLS_WITH_SIZES
from onnx_parity.exporter.torch_inside.bytecode import parts_that_catch
from onnx_parity.exporter.tracing import trace
from onnx_parity.exporter.tracing.attempt import record

TABLE = torch.tensor([1.0, 2.0, 3.0])
FILTERS = torch.linspace(0, 1, 9).reshape(1, 1, 3, 3)


def _made_like_its_own(x: Tensor) -> Tensor:
    return torch.where(TABLE > 1, torch.ones_like(TABLE * 2), torch.zeros_like(TABLE)) + x.mean()


def _cut_and_joined(x: Tensor) -> Tensor:
    """torch raises an error where the two do not fit."""
    half = F.interpolate(x[..., ::2], scale_factor=(1.0, 2.0))
    return torch.cat([x, half], 1)


def _one_filter_for_all_channels(x: Tensor) -> Tensor:
    filters = FILTERS.expand(3, 1, 3, 3)
    return F.conv2d(x, filters, groups=filters.shape[0])


def _channels_of_others(x: Tensor) -> Tensor:
    return F.conv2d(x[:, 1:2], FILTERS)


def _guarded(x: Tensor) -> Any:
    if not torch.isfinite(x).all() or (x > 100).any():
        raise ValueError(f"x is {'large' if x.shape[0] else 'not finite'}")
    assert (x < 50).all(), "x is large"
    return torch.distributions.Normal(x, 1.0).log_prob(x * 2)


@pytest.mark.parametrize(
    "program", [_made_like_its_own, _cut_and_joined, _one_filter_for_all_channels, _channels_of_others, _guarded]
)
def test_a_program_is_recorded_once(program: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = []

    def counted(*args: Any) -> Any:
        recorded.append(args)
        return record(*args)

    monkeypatch.setattr(trace, "record", counted)
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    onnx_parity.export(program, (torch.randn(2, 3, 4, 6),), input_names=["x"], dynamic_axes=axes)
    assert len(recorded) == 1


def test_an_error_of_which_only_another_is_made_is_not_caught() -> None:
    def raises(x: Tensor) -> Tensor:
        try:
            return x.view(-1)
        except RuntimeError as error:
            if x.ndim > 2:
                raise ValueError("x has more axes") from error
            raise

    def catches(x: Tensor) -> Tensor:
        try:
            return x.view(-1)
        except RuntimeError:
            if x.ndim > 2:
                raise
        return x

    assert [bool(parts_that_catch(each.__code__)) for each in (raises, catches)] == [False, True]


def test_an_error_that_is_caught_is_no_guard() -> None:
    def checked(x: Tensor) -> Tensor:
        if (x > 0).any():
            raise ValueError
        return x

    def program(x: Tensor) -> Tensor:
        try:
            return checked(x)
        except ValueError:
            return -x

    exported = onnx_parity.export(
        program, (-torch.ones(2, 3),), input_names=["x"], dynamic_axes={"x": {0: "batch"}}, strict=True
    )
    for x in (torch.ones(3, 3), -torch.ones(1, 3)):
        torch.testing.assert_close(exported(x), program(x))


def test_methods_and_functions_of_modules_are_no_builtins() -> None:
    def of_tensors(x: Tensor) -> Tensor:
        return x.sum(0).max() + torch.min(x) + x.float()

    def of_sizes(x: Tensor) -> int:
        return max(x.shape)

    assert [CALLS_WITH_SIZES.are_missed_in(each.__code__) for each in (of_tensors, of_sizes)] == [False, True]

"""The results of normalizations, of contiguous tensors with one number for each channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.recording.fakes.metadata import are_contiguous, are_on_one_device, describe
from onnx_parity.exporter.registry.results import Contiguous, result_of

_WHY = "torch's fake kernels import sympy, and take 5 to 30 ms with dynamic sizes"


@result_of("aten::batch_norm", "aten::instance_norm", why=_WHY)
def batch_norm(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    of_input: bool,
    *options: object,
) -> Any:
    if not of_input and (running_mean is None or running_var is None):
        return NotImplemented
    channels = describe(input).shape[1:2]
    by_channel = [each for each in (weight, bias, running_mean, running_var) if each is not None]
    fits = all(describe(each).shape == channels for each in by_channel)
    if not fits or not are_contiguous(input):
        return NotImplemented
    return Contiguous(input.dtype, tuple(input.shape)) if input.dtype.is_floating_point else NotImplemented


@result_of("aten::native_layer_norm", why=_WHY)
def native_layer_norm(
    input: torch.Tensor, sizes: Sequence[Size], weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> Any:
    axes = len(sizes)  # These are static, as they are the shape of weights.
    last = describe(input).shape[-axes:]
    others = [describe(each) for each in (weight, bias) if each is not None]
    fits = all(each.shape == last and each.dtype == input.dtype for each in others)
    is_static = all(isinstance(size, int) for size in sizes)
    if not axes or not fits or not is_static or tuple(sizes) != last or input.dtype is not torch.float32:
        return NotImplemented
    if not are_on_one_device(input, weight, bias):
        return NotImplemented
    statistics = Contiguous(input.dtype, (*input.shape[:-axes], *[1] * axes))
    return Contiguous(input.dtype, tuple(input.shape)), statistics, statistics


@result_of("aten::native_group_norm", why=_WHY)
def native_group_norm(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    n: Size,
    c: Size,
    hw: Size,
    groups: int,
    eps: float,
) -> Any:
    channels = describe(input).shape[1:2]
    others = [describe(each) for each in (weight, bias) if each is not None]
    fits = all(each.shape == channels and each.dtype == input.dtype for each in others)
    if not fits or input.ndim < 2 or input.dtype is not torch.float32 or not are_on_one_device(input, weight, bias):
        return NotImplemented
    statistics = Contiguous(input.dtype, (input.shape[0], groups))
    # torch's fake kernel takes all results to be contiguous.
    return Contiguous(input.dtype, tuple(input.shape)), statistics, statistics

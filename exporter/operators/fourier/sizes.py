"""Inverse transforms of signals of a symbolic length: `torch.istft(x, 16, length=n)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.operators.fourier.recorded import istft
from onnx_parity.exporter.sizes.symbolic_numbers import with_symbolic_numbers

__all__: list[str] = []


@with_symbolic_numbers(torch.istft, torch.Tensor.istft, "aten::istft")
def invert_to_length(
    torchs: Callable[..., Any], input: torch.Tensor, n_fft: int, hop_length: int | None = None,
    win_length: int | None = None, window: torch.Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: Any = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    if type(length) is not torch.SymInt:
        return NotImplemented
    settings = hop_length, win_length, window, center, normalized, onesided
    return istft(input, n_fft, *settings, length, return_complex)

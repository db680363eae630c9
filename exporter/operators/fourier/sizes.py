"""Inverse transforms of signals of a symbolic length: `torch.istft(x, 16, length=n)`, and frequencies of as many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Varying
from onnx_parity.exporter.operators.fourier.recorded import frequencies, istft, positive_frequencies
from onnx_parity.exporter.sizes.symbolic_numbers import read_number, with_symbolic_numbers

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


@with_symbolic_numbers(torch.fft.fftfreq, torch.fft.rfftfreq, "aten::fft_fftfreq", "aten::fft_rfftfreq")
def frequencies_of_any_number(torchs: Callable[..., Any], n: Any, d: Any = 1.0, **options: Any) -> Any:
    n, d = read_number(n), read_number(d)
    if "out" in options or not any(isinstance(each, Varying) for each in (n, d)):
        return torchs(n, d, **options)
    made: torch.Tensor = (positive_frequencies if "rfft" in torchs.__name__ else frequencies)(n, d, **options)
    return made.requires_grad_() if options.get("requires_grad") else made

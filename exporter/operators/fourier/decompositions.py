"""The frequencies of Fourier transforms."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.registry.recorded import decomposition_of


@decomposition_of("aten::fft_fftfreq")
def frequencies(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, **options: Any) -> torch.Tensor:
    positive = torch.arange((n - 1) // 2 + 1, dtype=dtype or torch.get_default_dtype(), device=device)
    return torch.cat([positive, torch.arange(-(n // 2), 0, dtype=positive.dtype, device=device)]) * (1.0 / (n * d))


@decomposition_of("aten::fft_rfftfreq")
def positive_frequencies(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, **options: Any
) -> torch.Tensor:
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype(), device=device) * (1.0 / (n * d))

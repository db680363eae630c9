"""Products of matrices in scripts whose factors depend on values: `torch.addmm(x, y, z, alpha=n)`."""

from __future__ import annotations

import torch

from onnx_parity.exporter.script.unknown_numbers import with_factors_as_tensors

__all__: list[str] = []

with_factors_as_tensors(
    {
        "baddbmm": torch.bmm,
        "addmm": torch.mm,
        "addbmm": lambda one, other: torch.bmm(one, other).sum(0),
        "addmv": torch.mv,
        "addr": torch.outer,
    }
)

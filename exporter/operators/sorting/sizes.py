"""The greatest elements, in a symbolic number: `x.topk(n)`."""

from __future__ import annotations

import torch

from onnx_parity.exporter.sizes.symbolic_numbers import read_numbers_after

__all__: list[str] = []

read_numbers_after(1, torch.topk, torch.Tensor.topk)

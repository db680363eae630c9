"""Packed sequences that are unpacked to a symbolic number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F

from onnx_parity.exporter.graph.graph import Varying, same_size
from onnx_parity.exporter.sizes.symbolic_numbers import with_symbolic_numbers

__all__: list[str] = []


@with_symbolic_numbers(torch._pad_packed_sequence, "aten::_pad_packed_sequence")
def unpack_to_steps(
    torchs: Callable[..., Any], data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, value: Any, steps: Any
) -> Any:
    """torch takes a plain number: the sequence is unpacked, and the steps that it lacks are added."""
    if not isinstance(steps, torch.SymInt) or isinstance(value, Varying | torch.Tensor):
        return NotImplemented
    rows, lengths = torch.ops.aten._pad_packed_sequence.default(data, batch_sizes, batch_first, value, -1)
    own = batch_sizes.shape[0]
    if not same_size(steps, own):
        axes_after = rows.ndim - (2 if batch_first else 1)
        rows = F.pad(rows, [*[0, 0] * axes_after, 0, cast("int", steps - own)], value=value)
    return rows, lengths

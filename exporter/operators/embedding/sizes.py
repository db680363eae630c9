"""One-hot vectors of a symbolic number of classes: `F.one_hot(x, n)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F

from onnx_parity.exporter.sizes.symbolic_numbers import read_number, with_symbolic_numbers

__all__: list[str] = []


@with_symbolic_numbers(F.one_hot, "aten::one_hot")
def one_hot(torchs: Callable[..., Any], input: torch.Tensor, num_classes: Any = -1) -> Any:
    classes = read_number(num_classes)
    if not isinstance(classes, torch.SymInt):
        return torchs(input, classes)
    return (input.unsqueeze(-1) == torch.arange(cast("int", classes), device=input.device)).to(torch.int64)

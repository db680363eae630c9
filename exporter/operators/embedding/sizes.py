"""One-hot vectors of a symbolic number of classes: `F.one_hot(x, n)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.operators.embedding.lowering import one_hot
from onnx_parity.exporter.sizes.symbolic_numbers import read_number, with_symbolic_numbers

__all__: list[str] = []


@with_symbolic_numbers(F.one_hot, "aten::one_hot")
def one_hot_of_classes(torchs: Callable[..., Any], input: torch.Tensor, num_classes: Any = -1) -> Any:
    classes = read_number(num_classes)
    return one_hot(input, classes) if isinstance(classes, torch.SymInt) else torchs(input, classes)

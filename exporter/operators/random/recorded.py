"""What is recorded for dropout, and for random numbers that are written in place."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.recording.fakes.pointwise import floats, pointwise
from onnx_parity.exporter.registry.in_place import DYNAMIC, DYNAMIC_HALVES, copy_back
from onnx_parity.exporter.registry.recorded import instead_of

copy_back("exponential_", "geometric_", to=DYNAMIC)
copy_back("cauchy_", "log_normal_", to=DYNAMIC_HALVES)
pointwise(floats, "rand_like randn_like")


@instead_of("aten::normal_", where=DYNAMIC_HALVES.include, why=DYNAMIC_HALVES.why)
def normal_(self: torch.Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
    return self.copy_(torch.ops.aten.normal_functional.default(self, mean, std, generator=generator))


@instead_of("aten::dropout", why="torch's decomposition copies what is not dropped, and its kernel does not")
def dropout(input: torch.Tensor, p: float, train: bool) -> Any:
    return NotImplemented if train and p != 0 else input  # Later writes to one of them are seen in the other.

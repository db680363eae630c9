"""What is recorded for special functions that write in place, and the results of orthogonal polynomials."""

from __future__ import annotations

import torch

from onnx_parity.exporter.registry.in_place import DYNAMIC, DYNAMIC_HALVES, copy_back
from onnx_parity.exporter.registry.results import result_of

copy_back("logit_", "sinc_", "xlogy_", to=DYNAMIC)
copy_back("digamma_", "erfc_", "erfinv_", "i0_", "igamma_", "igammac_", "lgamma_", to=DYNAMIC_HALVES)


@result_of(
    *(f"aten::special_{name}" for name in dir(torch.special) if "_polynomial_" in name),
    why="torch's kernels expand the one that has fewer axes to plain ints",
    static=False,
)
def polynomial(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """A quotient has the same sizes, and the dtype of floats. It is not recorded."""
    return torch.true_divide(x, n)

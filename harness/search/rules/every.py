"""All rules."""

from __future__ import annotations

from onnx_parity.harness.search.rules import (  # noqa: F401  (each registers its rules)
    branching,
    by_index,
    matrices,
    pointwise,
    reductions,
    sizes,
    views,
    writes,
)
from onnx_parity.harness.search.rules.register import RULES

__all__ = ["RULES"]

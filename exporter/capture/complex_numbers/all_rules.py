"""All rules for complex numbers: importing this module imports every module that registers one."""

from __future__ import annotations

from onnx_parity.exporter.capture.complex_numbers import (  # noqa: F401  (they register their rules)
    arithmetic,
    conversion,
    decompositions,
    eigenvalues,
    fourier,
    functions,
    products,
    rearranging,
)
from onnx_parity.exporter.capture.complex_numbers.parts import rules

__all__ = ["rules"]

"""Imports every module that registers a replacement, and lists all replacements."""

from __future__ import annotations

import itertools

from onnx_parity.exporter.capture.replace import (  # noqa: F401  (importing them registers their replacements)
    ctc,
    decompositions,
    derivatives,
    dynamic_sizes,
    fourier_transforms,
    histograms,
    in_place,
    jagged_rows,
    kept_whole,
    kernels_only,
    linear_algebra,
    plain_sizes,
    result_sizes,
    upsampling,
    view_sizes,
    views,
    written_out,
)
from onnx_parity.exporter.capture.replace.registry import Kind, Replacement, registered

__all__ = ["replacements"]


def replacements() -> list[Replacement]:
    """All replacements of torch's operators, with their reasons, sorted by kind and name."""
    found = itertools.chain.from_iterable(registered(kind).values() for kind in Kind)
    kinds = [*Kind]
    return sorted(found, key=lambda replacement: (kinds.index(replacement.kind), replacement.name))

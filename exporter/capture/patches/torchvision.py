"""Patches torchvision's detectors, which loop over a data-dependent number of boxes in Python.

torchvision has scripted alternatives for these loops, which it uses while TorchScript traces, so the patch reports that
it does. The detectors also use `len` of tensors and `min` of numbers. These stay symbols here, where Python needs ints.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from onnx_parity.exporter.capture.patches.patch import FunctionAttribute, Patch, imported

__all__ = ["PATCHES"]

#: The modules that have scripted alternatives for their loops.
_WITH_SCRIPTS = frozenset({"torchvision.models.detection.roi_heads", "torchvision.ops.boxes"})
_COUNTING = ("torchvision.models.detection.roi_heads", "torchvision.models.detection._utils", "torchvision.ops.poolers")


def _is_tracing(torchs: Callable[[], bool]) -> bool:
    # The caller is two frames up, because a function that checks the thread lies between it and this one.
    asker = sys._getframe(2).f_globals.get("__name__")
    return asker in _WITH_SCRIPTS or torchs()


def _length(torchs: Callable[..., int], of: Any) -> Any:
    return of.shape[0] if isinstance(of, torch.Tensor) and of.ndim else torchs(of)


def _least(torchs: Callable[..., Any], *of: Any, **options: Any) -> Any:
    if any(isinstance(each, torch.SymInt) for each in of):
        return functools.reduce(torch.sym_min, of)
    return torchs(*of, **options)


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(imported("torchvision"), "_is_tracing", _is_tracing),
    FunctionAttribute(imported("torchvision.models.detection._utils"), "min", _least),
    *(FunctionAttribute(imported(module), "len", _length) for module in _COUNTING),
)

"""Patches torchvision's detectors, which loop over a data-dependent number of boxes in Python.

torchvision has scripted alternatives for these loops, which it uses while TorchScript traces, so the patch reports that
it does. The size to which images are padded stays a symbol, if the images may have any size.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.errors import OnnxExporterWarning
from onnx_parity.exporter.sizes.symbolic_numbers import in_example
from onnx_parity.exporter.torch_inside.frames import module_that_calls
from onnx_parity.exporter.torch_inside.imports import attribute_of
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, FunctionCode, Patch, of_module

__all__ = ["PATCHES"]

#: The modules that have scripted alternatives for their loops.
_WITH_SCRIPTS = frozenset({"torchvision.models.detection.roi_heads", "torchvision.ops.boxes"})


def _is_tracing(torchs: Callable[[], bool]) -> bool:
    # The caller is two frames up, because a function that checks the thread lies between it and this one.
    return module_that_calls(2) in _WITH_SCRIPTS or torchs()


def _is_symbolic(numbers: Iterable[Any]) -> bool:
    return any(isinstance(each, (torch.SymInt, torch.SymFloat)) for each in numbers)


def _batch_images(torchs: Callable[..., Any], self: Any, images: list[torch.Tensor], size_divisible: int = 32) -> Any:
    """Images padded to one size, which is divisible by a number."""
    if not _is_symbolic(size for image in images for size in image.shape):
        return torchs(self, images, size_divisible)
    greatest = [functools.reduce(torch.sym_max, (image.shape[axis] for image in images)) for axis in (1, 2)]
    height, width = ((size + size_divisible - 1) // size_divisible * size_divisible for size in greatest)
    return torch.stack([F.pad(image, (0, width - image.shape[2], 0, height - image.shape[1])) for image in images])


def _infer_scale(torchs: Callable[..., Any], feature: torch.Tensor, original_size: list[Any]) -> float:
    """How much smaller features are than the image, rounded to a power of 2: a constant of the model."""
    sizes = (*feature.shape[-2:], *original_size)
    if not _is_symbolic(sizes):
        inferred: float = torchs(feature, original_size)
        return inferred
    warnings.warn(
        "torchvision infers from the size of the image how much smaller the features are, which it rounds to a power "
        "of 2: the model has that of the example, and is wrong for images so small or narrow that another power is "
        "nearer (less than 76 pixels high after the resizing, if the detector pads to multiples of 32)",
        OnnxExporterWarning,
        stacklevel=3,
    )
    known = [in_example(size) for size in sizes]
    inferred = torchs(torch.empty(known[:2], device="meta"), known[2:])
    return inferred


def _batched_nms(
    torchs: Callable[..., Any], boxes: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor, iou_threshold: float
) -> Any:
    # It chooses another way where there are many boxes, but not while TorchScript traces.
    return attribute_of("torchvision.ops.boxes", "_batched_nms_coordinate_trick")(boxes, scores, idxs, iou_threshold)


def _transform() -> Any:
    return attribute_of("torchvision.models.detection.transform", "GeneralizedRCNNTransform")


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(of_module("torchvision"), "_is_tracing", _is_tracing),
    FunctionCode(of_module("torchvision.ops.boxes"), "batched_nms", _batched_nms),
    FunctionAttribute(_transform, "batch_images", _batch_images),
    FunctionAttribute(of_module("torchvision.ops.poolers"), "_infer_scale", _infer_scale),
)

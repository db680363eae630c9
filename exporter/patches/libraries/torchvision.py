"""Patches torchvision's detectors, which loop over a data-dependent number of boxes in Python.

torchvision has scripted alternatives for these loops, which it uses while TorchScript traces, so the patch reports that
it does. The detectors also use `len` of tensors, and `min` and `max` of numbers. These stay symbols here, where Python
needs ints. So does the size to which images are padded, if the images may have any size.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F

from onnx_parity.exporter.errors import OnnxExporterWarning
from onnx_parity.exporter.torch_inside.frames import module_that_calls
from onnx_parity.exporter.torch_inside.imports import attribute_of
from onnx_parity.exporter.torch_inside.patch import FunctionAttribute, FunctionCode, Patch, of_module

__all__ = ["PATCHES"]

#: The modules that have scripted alternatives for their loops.
_WITH_SCRIPTS = frozenset({"torchvision.models.detection.roi_heads", "torchvision.ops.boxes"})
#: The modules that compare sizes of images, or numbers of boxes.
_COMPARING = (
    "torchvision.models.detection._utils", "torchvision.models.detection.transform", "torchvision.ops.poolers",
)  # fmt: skip
#: The modules that count boxes.
_COUNTING = ("torchvision.models.detection.roi_heads", "torchvision.models.detection._utils", "torchvision.ops.poolers")


def _is_tracing(torchs: Callable[[], bool]) -> bool:
    # The caller is two frames up, because a function that checks the thread lies between it and this one.
    return module_that_calls(2) in _WITH_SCRIPTS or torchs()


def _length(torchs: Callable[..., int], of: Any) -> Any:
    return of.shape[0] if isinstance(of, torch.Tensor) and of.ndim else torchs(of)


def _is_symbolic(numbers: Iterable[Any]) -> bool:
    return any(isinstance(each, (torch.SymInt, torch.SymFloat)) for each in numbers)


def _least(torchs: Callable[..., Any], *of: Any, **options: Any) -> Any:
    numbers = of[0] if len(of) == 1 else of
    return functools.reduce(torch.sym_min, numbers) if _is_symbolic(numbers) else torchs(*of, **options)


def _greatest(torchs: Callable[..., Any], *of: Any, **options: Any) -> Any:
    numbers = of[0] if len(of) == 1 else of
    return functools.reduce(torch.sym_max, numbers) if _is_symbolic(numbers) else torchs(*of, **options)


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
    known = [_in_example(size) for size in sizes]
    inferred = torchs(torch.empty(known[:2], device="meta"), known[2:])
    return inferred


def _in_example(size: Any) -> int:
    return size if isinstance(size, int) else int(size.node.shape_env.number_in_example(size, {}))


def _batched_nms(
    torchs: Callable[..., Any], boxes: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor, iou_threshold: float
) -> Any:
    # It chooses another way where there are many boxes, but not while TorchScript traces.
    return attribute_of("torchvision.ops.boxes", "_batched_nms_coordinate_trick")(boxes, scores, idxs, iou_threshold)


def _transform() -> Any:
    return attribute_of("torchvision.models.detection.transform", "GeneralizedRCNNTransform")


PATCHES: tuple[Patch, ...] = (
    FunctionAttribute(of_module("torchvision"), "_is_tracing", _is_tracing),
    *(FunctionAttribute(of_module(module), "min", _least) for module in _COMPARING),
    *(FunctionAttribute(of_module(module), "max", _greatest) for module in _COMPARING),
    *(FunctionAttribute(of_module(module), "len", _length) for module in _COUNTING),
    FunctionCode(of_module("torchvision.ops.boxes"), "batched_nms", _batched_nms),
    FunctionAttribute(_transform, "batch_images", _batch_images),
    FunctionAttribute(of_module("torchvision.ops.poolers"), "_infer_scale", _infer_scale),
)

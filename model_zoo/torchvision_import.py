"""The one place that imports torchvision: `from onnx_parity.model_zoo.torchvision_import import torchvision`.

torchvision's wheels carry operators compiled for one build of torch. Beside another build (a CPU torch with
the CUDA wheel of torchvision) they do not load, and torchvision then fails on its own registration of a fake
kernel for an operator that nobody defined. Its classifiers need none of them, its detectors `nms` and `roi_align`, and
deformable convolutions `deform_conv2d`: here the missing schemas are defined, and kernels for these three.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import torch

from onnx_parity.model_zoo.torchvision_kernels import define_missing

#: The operators for which torchvision registers fake kernels even where its library did not load.
_SCHEMAS = {
    "torchvision::nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def _import_torchvision() -> ModuleType:
    # If they were defined before the import, a library that does load would define them again, and fail.
    try:
        return import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    for name, schema in _SCHEMAS.items():
        torch.library.define(name, schema)
    module = import_module("torchvision")
    define_missing()
    return module


torchvision = _import_torchvision()

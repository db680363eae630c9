"""Defects of `torch.onnx.export(dynamo=True)` that a release of onnxscript mended, by the programs of their reports."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.real_defects.defect import defect
from benchmarks.real_defects.running import exported

Program = Callable[[], tuple[object, object]]
#: For each release with a defect, the next one here.
_NEXT = {"0.6.2": "0.7.0", "0.7.0": "0.7.1"}


def _defect(broken: str, operator: str, number: int, place: str, names: str) -> Callable[[Program], Program]:
    report = f"https://github.com/microsoft/onnxscript/pull/{number}"
    return defect(
        "onnxscript",
        broken,
        operator,
        report,
        culprit="torch_dynamo",
        places=f"{place} op_cases/operator_database",
        names=names,
    )


def _on(*sizes: int) -> torch.Tensor:
    return torch.arange(torch.Size(sizes).numel(), dtype=torch.float32).reshape(sizes)


@_defect("0.7.1", "slice_scatter", 3006, "op_cases/assignment", "slice_scatter")
def slice_scatter_from_the_start() -> tuple[object, object]:
    """slice_scatter without a start has a node without an input."""
    return exported(lambda x, y: torch.slice_scatter(x, y, 0, None, 2), _on(4, 2), _on(2, 2) + 10)


@_defect("0.7.1", "full_like", 2994, "op_cases/creation", "full_like")
def full_like_with_a_memory_format() -> tuple[object, object]:
    """full_like with a memory format is refused."""
    return exported(lambda x: x + torch.full_like(x, 2.0, memory_format=torch.preserve_format), _on(2, 3))


@_defect("0.7.1", "linear", 2984, "op_cases/linear_algebra", "linear[")
def linear_of_one_row() -> tuple[object, object]:
    """linear with a weight of one axis has a result with an axis too many."""
    return exported(F.linear, _on(2, 3), _on(3))


@_defect("0.7.1", "index_put", 2921, "op_cases/assignment", "index_put")
def elements_added_where_a_mask_is() -> tuple[object, object]:
    """index_put_ by a mask with accumulate=True does not accumulate."""
    return exported(lambda x, y: torch.index_put(x, (x > 2,), y, accumulate=True), _on(2, 3), _on(3) + 10)


@_defect("0.7.1", "bincount", 2921, "op_cases/statistics", "bincount")
def counts_of_integers() -> tuple[object, object]:
    """bincount is refused."""
    return exported(lambda x: torch.bincount(x, minlength=6), torch.tensor([0, 3, 3]))


@_defect("0.7.1", "repeat_interleave", 2936, "op_cases/joining", "repeat_interleave")
def repeats_of_one_axis() -> tuple[object, object]:
    """repeat_interleave of a tensor of one axis has a result of two."""
    return exported(lambda x: torch.repeat_interleave(x, 2, dim=0), _on(3))


@_defect("0.7.0", "interpolate", 2918, "op_cases/resize", "interpolate upsample linear bicubic")
def interpolation_to_one_pixel() -> tuple[object, object]:
    """interpolate to one pixel takes the first one."""
    return exported(lambda x: F.interpolate(x, (1, 1), mode="bilinear", align_corners=False), _on(1, 1, 4, 4))


@_defect("0.7.0", "gru", 2853, "op_cases/recurrent", "gru")
def gru_resets_after_its_product() -> tuple[object, object]:
    """GRU applies the reset gate before the product."""
    torch.manual_seed(0)
    return exported(nn.GRU(3, 4), torch.randn(5, 2, 3))


@_defect("0.7.0", "full", 2926, "op_cases/creation", "full")
def full_of_an_integer() -> tuple[object, object]:
    """full of an integer is made of floats."""
    return exported(lambda x: x + torch.ops.aten.full.default([2], 3), torch.tensor([1, 2]))


@_defect("0.7.0", "arange", 2927, "op_cases/creation", "arange")
def arange_of_integers() -> tuple[object, object]:
    """arange of integers is made of floats."""
    return exported(lambda x: x + torch.ops.aten.arange.start_step(0, 4), torch.tensor([1, 2, 3, 4]))


@_defect("0.7.0", "pixel_unshuffle", 2892, "op_cases/shape", "pixel_unshuffle")
def pixel_unshuffle_of_two_channels() -> tuple[object, object]:
    """pixel_unshuffle writes channels in another order."""
    return exported(lambda x: F.pixel_unshuffle(x, 2), _on(1, 2, 4, 4))


@_defect("0.7.0", "conv2d", 2841, "op_cases/convolution", "conv2d pad")
def a_crop_before_a_convolution() -> tuple[object, object]:
    """A crop by negative padding is merged into the convolution after it, which cannot have it."""
    torch.manual_seed(0)
    weight = torch.randn(2, 1, 3, 3)
    return exported(lambda x: F.conv2d(F.pad(x, (-1, -1, -1, -1)), weight), torch.randn(1, 1, 8, 8))


@_defect("0.6.2", "interpolate", 2849, "op_cases/resize", "interpolate upsample linear bicubic")
def bicubic_interpolation_with_antialias() -> tuple[object, object]:
    """Antialiased bicubic interpolation has the coefficient of the one without."""
    torch.manual_seed(0)

    def resize(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, (5, 5), mode="bicubic", antialias=True, align_corners=False)

    return exported(resize, torch.randn(1, 1, 8, 8))


@_defect("0.6.2", "masked_scatter", 2929, "op_cases/assignment", "masked_scatter")
def masked_scatter_of_rows() -> tuple[object, object]:
    """masked_scatter with a mask of rows writes values in another order."""
    mask = torch.tensor([True, False, True])[None, :, None]
    return exported(lambda x, mask, y: x.masked_scatter(mask, y), torch.zeros(1, 3, 2), mask, _on(2, 2) + 1)


class _Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.bn = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first: torch.Tensor = self.bn(self.conv(x[:, 0:1]))
        second: torch.Tensor = self.bn(self.conv(x[:, 1:2]))
        return first + second


@_defect("0.6.2", "conv2d", 2883, "op_cases/convolution", "conv2d")
def a_convolution_that_is_called_twice() -> tuple[object, object]:
    """A batch normalization that is merged into a convolution is lost for the second call of it."""
    return exported(_Twice(), torch.randn(1, 2, 4, 4))


@_defect("0.6.2", "roi_align", 2830, "model_zoo/detection", "roi_align")
def roi_align_of_torchvision() -> tuple[object, object]:
    """roi_align of torchvision is refused."""
    from onnx_parity.model_zoo.torchvision_import import torchvision

    roi_align = torchvision.ops.roi_align
    boxes = torch.tensor([[0.0, 0.0, 0.0, 4.0, 4.0]])
    return exported(lambda x, boxes: roi_align(x, boxes, (2, 2)), _on(1, 1, 8, 8), boxes)

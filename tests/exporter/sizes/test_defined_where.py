"""Where kernels of PyTorch do not compute what their operators are defined to compute, for some sizes."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F

import onnx_parity


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (-1, 2), mode="circular")


def apart(x: torch.Tensor) -> torch.Tensor:
    return F.pixel_unshuffle(x, 2)


def test_such_sizes_are_left_out_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnx_parity.export(
            padded, (torch.rand(1, 2, 6),), dynamic_shapes=({2: "length"},), strict=True, verify=True
        )
    (assumption,) = program.assumptions
    assert assumption.condition == "length - 1 >= 2"
    assert assumption.otherwise == "a circular padding of what was cropped has elements that PyTorch does not write"
    x = torch.rand(1, 2, 3)
    assert torch.equal(program(x), padded(x))
    with pytest.raises(onnx_parity.AssumptionError, match="it assumes length - 1 >= 2"):
        program(torch.rand(1, 2, 2))


def test_images_without_pixels() -> None:
    program = onnx_parity.export(
        apart, (torch.rand(2, 3, 4, 6),), dynamic_shapes=({0: "batch", 2: "2*height"},), strict=True, verify=True
    )
    assert {each.condition for each in program.assumptions if not each.is_stated} == {"batch != 0", "2*height != 0"}
    nothing = onnx_parity.export(apart, (torch.rand(0, 3, 4, 6),))
    assert nothing(torch.rand(0, 3, 4, 6)).shape == (0, 3, 4, 6)


def test_images_without_channels() -> None:
    def weighed(x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, torch.ones(2, x.shape[1], 1, 1))

    program = onnx_parity.export(weighed, (torch.rand(2, 3, 4, 6),), dynamic_shapes=({1: "channels"},), strict=True)
    assert [each.condition for each in program.assumptions] == ["channels != 0"]


@pytest.mark.parametrize("axes", [None, ({2: "length"},)])
def test_an_example_of_such_sizes_is_refused(axes: tuple[dict[int, str], ...] | None) -> None:
    with pytest.raises(onnx_parity.CaptureError, match="elements that PyTorch does not write for these sizes"):
        onnx_parity.export(padded, (torch.rand(1, 2, 2),), dynamic_shapes=axes)


def test_paddings_that_crop_nothing_assume_nothing() -> None:
    program = onnx_parity.export(
        lambda x: F.pad(x, (1, 2), mode="circular"), (torch.rand(1, 2, 6),), dynamic_shapes=({2: "length"},)
    )
    assert not program.assumptions

"""Axes whose sizes are multiples of a size that no axis has itself: `8 * Dim("h")`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import onnx_parity
from tests.exporter.request.test_dynamic_axes import shape_of

H, W = Dim("h"), Dim("w")
Program = Callable[[torch.Tensor], torch.Tensor]


def image(height: int, width: int = 16) -> torch.Tensor:
    return torch.arange(3.0 * height * width).reshape(1, 3, height, width) / 7


def in_order(x: torch.Tensor) -> torch.Tensor:
    return x.view(1, 3, x.shape[2] // 8, 8, x.shape[3] // 8, 8).permute(0, 2, 4, 1, 3, 5).flatten(3)


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 0, 0, (8 - x.shape[2] % 8) % 8))


def in_parts(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(())
    for number in range(8):
        total = total + x.chunk(8, 2)[number].sum() * number
    return total


PROGRAMS: dict[str, tuple[Program, Any, list[Any]]] = {
    "remainder": (lambda x: x + 1 if x.shape[2] % 8 == 0 else x - 1, 8 * H, [1, 3, "8*h", 16]),
    "of a divisor": (lambda x: x + 1 if x.shape[2] // 2 % 4 == 0 else x - 1, 8 * H, [1, 3, "8*h", 16]),
    "other": (lambda x: x[:, :, : x.shape[2] % 8], 8 * H + 3, [1, 3, 3, 16]),
    "an offset": (lambda x: x[:, :, 3:].unflatten(2, (-1, 8)), 8 * H + 3, [1, 3, "h", 8, 16]),
    "a product": (lambda x: x[:, :, 24:].unflatten(2, (-1, 4)), 8 * (H + 3), [1, 3, "2*h", 4, 16]),
    "patches": (in_order, 8 * H, [1, "h", 2, 192]),
    "padding": (padded, 8 * H, [1, 3, "8*h", 16]),
    "chunks": (in_parts, 8 * H, []),
    "up and down": (lambda x: x + F.interpolate(F.max_pool2d(x, 2), scale_factor=2), 2 * H, [1, 3, "2*h", 16]),
    "the number itself": (lambda x: x * (x.shape[2] // 8) + x.shape[2], 8 * H, [1, 3, "8*h", 16]),
    "reshaped": (lambda x: x.reshape(1, 3, -1, 8, 16).amax(3), 8 * H, [1, 3, "h", 16]),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_known_of_a_multiple(name: str) -> None:
    program, dimension, shape = PROGRAMS[name]
    of = dimension.fn
    exported = onnx_parity.export(program, (image(of(2)),), dynamic_shapes=({2: dimension},), strict=True)
    assert shape_of(exported, "output") == shape
    assert shape_of(exported, "x") == [1, 3, dimension.__name__, 16]
    assert all(each.is_stated and not each.where for each in exported.assumptions)
    for number in (1, 2, 3, 7):
        x = image(of(number))
        torch.testing.assert_close(exported(x), program(x))
    with pytest.raises(onnx_parity.AssumptionError, match=r"; otherwise the size of the axis '.*' is not \d times a"):
        exported(image(of(2) + 1))


def test_what_the_size_is_asked_beyond_the_multiple_is_an_assumption() -> None:
    def asked(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[2] % 16 == 0 else x > 1

    with pytest.warns(onnx_parity.TracerWarning, match=r"\(8\*h\) % 16 == 0 is True in the example"):
        exported = onnx_parity.export(asked, (image(16),), dynamic_shapes=({2: 8 * H},), assumptions_output=True)
    assert [each.condition for each in exported.assumptions] == ["(8*h) % 16 == 0", "(8*h) % 8 == 0"]
    for height, holds in ((16, True), (24, False), (17, False), (32, True)):
        assert exported.runtime_session().run({"x": image(height)})[1].item() is holds
        if not holds:
            with pytest.raises(onnx_parity.AssumptionError):
                exported(image(height))
    # A new name of the axis says nothing of h.
    exported.rename_axes({"8*h": "height"})
    assert [each.condition for each in exported.assumptions] == ["(8*(height//8)) % 16 == 0", "height % 8 == 0"]
    with pytest.raises(onnx_parity.AssumptionError, match="and 'height' is 24"):
        exported(image(24))


def test_a_stated_condition_over_the_dimension() -> None:
    def asked(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[2] > 8 else x - 1

    for stated in ("h > 1", "8*h > 8"):
        exported = onnx_parity.export(
            asked, (image(16),), dynamic_shapes=({2: 8 * H},), assume=[stated], strict=True, verify=True
        )
        assert {"8*h > 8", "(8*h) % 8 == 0"} <= {str(each.condition) for each in exported.assumptions}
    with pytest.raises(onnx_parity.ArgumentError, match="'h > 2', which does not hold for the example, where h is 2"):
        onnx_parity.export(asked, (image(16),), dynamic_shapes=({2: 8 * H},), assume=["h > 2"])


@pytest.mark.filterwarnings("error")
def test_several_multiples_of_one_size() -> None:
    def asked(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[3] == 2 * x.shape[2] + 1 else x - 1

    shapes = ({2: 8 * H, 3: 16 * H + 1},)
    exported = onnx_parity.export(asked, (image(16, 33),), dynamic_shapes=shapes, strict=True, verify=True)
    x = image(8, 17)
    assert torch.equal(exported(x), asked(x))
    with pytest.raises(onnx_parity.AssumptionError, match=r"it assumes 16\*h \+ 1 == 16\*\(\(8\*h\)//8\) \+ 1"):
        exported(image(8, 33))


@pytest.mark.filterwarnings("error")
def test_limits_of_the_dimension() -> None:
    size = 8 * Dim("h", min=1, max=5)
    exported = onnx_parity.export(
        lambda x: x + 1 if 0 < x.shape[2] < 48 else x, (image(16),), dynamic_shapes=({2: size},), strict=True
    )
    assert [each.condition for each in exported.assumptions] == ["8*h >= 8", "8*h <= 40", "(8*h) % 8 == 0"]
    with pytest.raises(onnx_parity.AssumptionError):
        exported(image(48))


def test_a_size_that_the_program_fixes_is_named_as_the_dimension() -> None:
    with pytest.raises(onnx_parity.DynamicAxisError, match="'h'"):
        onnx_parity.export(lambda x: x + torch.ones(16, 1), (image(16),), dynamic_shapes=({2: 8 * H},))


def test_an_axis_has_the_size_that_its_name_computes_from_others() -> None:
    def summed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum() + y.sum()

    exported = onnx_parity.export(summed, (torch.ones(3), torch.ones(6)), dynamic_shapes=({0: H}, {0: 2 * H}))
    assert exported(torch.ones(4), torch.ones(8)) == 12
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        exported(torch.ones(3), torch.ones(7))
    assert str(caught.value) == (
        "the axis '2*h' has size 7 in 'y', but the axes that it names give 6: give tensors that fit"
    )


def test_both_forms_of_a_label_stay_labels() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = onnx_parity.export(lambda x: x * 2, (image(16),), dynamic_axes={"x": {2: "8*h"}})
    assert not exported.assumptions
    assert exported(image(17)).shape[2] == 17

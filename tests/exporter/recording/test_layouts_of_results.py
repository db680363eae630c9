"""How results of branches and loops of scripts lie in memory: which copies are none, for writes in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnx_parity
from tests.exporter.subjects import assert_agrees
from tests.thinned import one_in


@torch.jit.script
def _both_transposed(x: Tensor) -> Tensor:
    return x.t() * 2 if bool(x.sum() > 0) else x.t() - 1


@torch.jit.script
def _columns(x: Tensor) -> Tensor:
    return (x * 2)[:, :2] if bool(x.sum() > 0) else (x + 1)[:, 1:]


@torch.jit.script
def _one_transposed(x: Tensor) -> Tensor:
    return x.t() * 2 if bool(x.sum() > 0) else x.t().contiguous() - 1


@torch.jit.script
def _looped(x: Tensor) -> Tensor:
    y = x.t() * 1
    while bool(y.abs().sum() < 50):
        y = y * 2 + 1
    return y


@torch.jit.script
def _contiguous_after_a_turn(x: Tensor) -> Tensor:
    y = x.t() * 1
    while bool(y.abs().sum() < 50):
        y = (y * 2 + 1).contiguous()
    return y


def _contiguous(y: Tensor) -> Any:
    z = y.contiguous()
    z.add_(1)
    return y, z


def _flattened(y: Tensor) -> Any:
    z = (y + 1).flatten()
    y.mul_(2)
    return y, z


def _reshaped(y: Tensor) -> Any:
    z = y.reshape(-1)
    y.mul_(2)
    return z


def _of_a_view(y: Tensor) -> Any:
    turned = y.t()
    z = y.contiguous()
    z.add_(1)
    return turned


def _branching(y: Tensor) -> Tensor:
    return y + 1 if y.is_contiguous() else y - 1


def _scaled(y: Tensor) -> Tensor:
    return y * y.stride(0) + y.stride()[1]


def _placed(y: Tensor) -> Tensor:
    return y.as_strided((2, 2), (1, 2))


_EXAMPLE = torch.arange(9.0).reshape(3, 3)


def _after(script: Callable[[Tensor], Tensor], use: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    def program(x: Tensor) -> Any:
        return use(script(x))

    return program


@pytest.mark.parametrize("use", [_contiguous, _flattened, _reshaped, _of_a_view, _branching, _scaled])
@pytest.mark.parametrize("script", [_both_transposed, _columns, _looped])
def test_results_that_all_branches_lay_out_alike(
    script: Callable[[Tensor], Tensor], use: Callable[[Tensor], Any]
) -> None:
    program = onnx_parity.export(_after(script, use), (_EXAMPLE,))
    assert {each.about for each in program.assumptions} <= {"layouts"}  # Of what the script is given.
    for x in (_EXAMPLE, -_EXAMPLE, _EXAMPLE * 100):
        assert_agrees(program, _after(script, use), x)


@pytest.mark.parametrize("use", [_contiguous, _reshaped, _of_a_view])
@pytest.mark.parametrize("script", [_one_transposed, _contiguous_after_a_turn])
def test_a_write_to_what_is_a_copy_for_some_values(
    script: Callable[[Tensor], Tensor], use: Callable[[Tensor], Any]
) -> None:
    with pytest.raises(onnx_parity.CaptureError, match=r"writes in place .* write to a clone \(at .*test_layouts_of"):
        onnx_parity.export(_after(script, use), (_EXAMPLE,))


@pytest.mark.parametrize("use", [_branching, _scaled, _placed])
@pytest.mark.parametrize("script", [_one_transposed, _contiguous_after_a_turn])
def test_a_question_whose_answer_depends_on_values(
    script: Callable[[Tensor], Tensor], use: Callable[[Tensor], Any]
) -> None:
    with pytest.raises(onnx_parity.CaptureError, match=r"depends on the branch that has run.*\(at .*test_layouts_of"):
        onnx_parity.export(_after(script, use), (_EXAMPLE,))


@pytest.mark.parametrize("script", [_one_transposed, _contiguous_after_a_turn])
def test_what_does_not_depend_on_the_layout(script: Callable[[Tensor], Tensor]) -> None:
    def program(x: Tensor) -> Any:
        y = script(x)
        z = y.contiguous().view(-1)
        return z + 1, y.reshape(-1) * 2, y.t() @ y

    for x in (_EXAMPLE, -_EXAMPLE):
        assert_agrees(onnx_parity.export(program, (_EXAMPLE,)), program, x)


def test_an_axis_that_varies() -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="whether there is a copy"):
        program = onnx_parity.export(
            _after(_both_transposed, _contiguous), (torch.ones(4, 3),), dynamic_axes={"x": {0: "n"}}
        )
    assert [each.condition for each in program.assumptions if each.about == "sizes"] == ["n != 1"]
    for count in (0, 2, 3, 7):
        for x in (torch.randn(count, 3) + 5, torch.randn(count, 3) - 5):
            assert_agrees(program, _after(_both_transposed, _contiguous), x)


_OF_IMAGES: list[Callable[[Tensor], Tensor]] = [
    lambda x: torch.nn.functional.interpolate(x, scale_factor=2),
    lambda x: torch.nn.functional.pad(x, (1, 1)),
    lambda x: torch.nn.functional.conv_transpose2d(x, torch.ones(3, 2, 2, 2), stride=2),
    lambda x: torch.cat([x, x], 2),
    lambda x: torch.stack([x, x], 1).relu(),
]


@pytest.mark.parametrize("use", one_in(2, _OF_IMAGES))
@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_images_whose_channels_the_program_puts_last(use: Callable[[Tensor], Tensor]) -> None:
    """Their copies do not have their memory, but where `contiguous` returned what lies in both orders as it was."""

    def made(x: Tensor) -> Tensor:
        return use(x.contiguous(memory_format=torch.channels_last))

    def written(x: Tensor) -> Tensor:
        y = made(x)
        y.flatten().zero_()
        return y

    axes = ({2: "height", 3: "width"},)
    exported, plain = (onnx_parity.export(each, (torch.rand(2, 3, 4, 5),), dynamic_shapes=axes)
                       for each in (written, made))  # fmt: skip
    assert not plain.assumptions
    assert {each.about for each in exported.assumptions} == {"sizes", "layouts"}
    for height, width in ((1, 2), (2, 1), (2, 3), (7, 5), (1, 1)):
        x = torch.rand(2, 3, height, width)
        assert_agrees(plain, made, x)
        if height * width > 1:
            assert_agrees(exported, written, x)
        else:
            assert written(x).abs().sum() == 0
            with pytest.raises(onnx_parity.AssumptionError, match="test_layouts_of_results"):
                exported(x)


def test_a_write_to_a_copy_of_what_repeats_its_elements() -> None:
    """For one column, `reshape` returns no copy, and each row has one element twice. Of the result of a branch that is
    not known while it is recorded."""

    def program(x: Tensor) -> Tensor:
        x = x.squeeze(0)[None] if x.shape[0] == 1 else x
        x = x.view(x.shape[0], 1, x.shape[1]).expand(-1, 2, -1).reshape(x.shape[0], -1)
        x.t()[0] = 3.0
        return x + 0

    with pytest.raises(onnx_parity.OnnxExporterError, match="n == 1"):
        onnx_parity.export(program, (torch.rand(1, 2),), dynamic_shapes=({0: "n", 1: "m"},))

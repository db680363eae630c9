"""dynamic_axes in its three forms: symbolic in the file, right at other sizes, refused if the program fixes them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.errors import OnnxExporterWarning
from onnx_parity.exporter.registry.lowerings import unregister
from onnx_parity.exporter.torch_inside.frames import stop_at
from tests.exporter.subjects import Classifier, assert_agrees, images


def shape_of(program: onnx_parity.ONNXProgram, name: str) -> list[int | str]:
    graph = program.model_proto.graph
    (value,) = [end for end in (*graph.input, *graph.output) if end.name == name]
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


@pytest.mark.parametrize(
    ("spelling", "shape"),
    [
        ({"input": [0, 2]}, ["input_dim_0", 3, "input_dim_2", 8]),
        ({"input": {0: "batch", 2: "height"}}, ["batch", 3, "height", 8]),
        ({"input": {0: "batch", -1: "width"}}, ["batch", 3, 8, "width"]),
        ({"input": {0: ""}}, ["input_dim_0", 3, 8, 8]),
        ({"input": {0: "0", 2: "3"}}, ["0", 3, "3", 8]),
    ],
)
def test_spellings(spelling: dict[str, Any], shape: list[int | str]) -> None:
    model = Classifier().eval()
    program = onnx_parity.export(model, (images(),), dynamic_axes=spelling)
    assert shape_of(program, "input") == shape
    for batch in (1, 5):
        assert_agrees(program, model, images(batch))


def test_indices_names_and_outputs_mixed() -> None:
    program = onnx_parity.export(
        torch.matmul,
        (torch.ones(2, 3), torch.ones(3, 4)),
        input_names=["a", "b"],
        output_names=["product"],
        dynamic_axes={"a": [0], "b": {1: "columns"}, "product": {0: "rows", 1: "columns"}},
    )
    assert shape_of(program, "a") == ["a_dim_0", 3]
    assert shape_of(program, "b") == [3, "columns"]
    assert shape_of(program, "product") == ["rows", "columns"]
    for rows, columns in ((1, 1), (5, 2)):
        assert_agrees(program, torch.matmul, torch.rand(rows, 3), torch.rand(3, columns))


def test_one_name_is_one_size() -> None:
    program = onnx_parity.export(
        torch.add,
        (torch.ones(2, 3), torch.ones(2, 3)),
        input_names=["a", "b"],
        dynamic_axes={"a": {0: "n"}, "b": {0: "n"}},
    )
    assert shape_of(program, "a") == shape_of(program, "b") == shape_of(program, "output") == ["n", 3]


def test_example_of_size_one_does_not_fix_the_axis() -> None:
    def centred(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(0, keepdim=True)).reshape(x.shape[0] * 2, -1)

    program = onnx_parity.export(centred, (torch.ones(1, 4),), dynamic_axes={"x": {0: "n"}})
    for size in (1, 2, 7):
        assert_agrees(program, centred, torch.rand(size, 4))


def test_axis_that_the_program_fixes() -> None:
    def fixed(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3, 4)

    with pytest.raises(onnx_parity.DynamicAxisError) as caught:
        onnx_parity.export(fixed, (torch.ones(3, 4),), dynamic_axes={"x": {0: "batch"}})
    where = f"{__file__}:{inspect.getsourcelines(fixed)[1] + 1}"
    assert str(caught.value).startswith(
        f"1 dynamic axis is fixed by the program:\n  - 'batch' at {where}: the program needs"
    )
    assert str(caught.value).endswith(
        "Write those lines for any size (x.shape[i] instead of a number), or leave the axes out of dynamic_axes."
    )


def _with_for(x: torch.Tensor) -> torch.Tensor:
    total = x[0]
    for row in range(1, x.shape[0]):
        total = total + x[row]
    return total


def _with_while(x: torch.Tensor) -> torch.Tensor:
    total, row = x[0], 1
    while row < x.shape[0]:
        total, row = total + x[row], row + 1
    return total


@pytest.mark.parametrize("looping", [_with_for, _with_while])
def test_a_loop_over_a_dynamic_size_is_one_with_a_script_and_without(
    looping: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    for each in (looping, torch.jit.script(looping)):
        program = onnx_parity.export(lambda x, each=each: 2 * each(x), (torch.ones(3, 4),), dynamic_axes={"x": [0]})
        for rows in (1, 3, 5):
            assert_agrees(program, lambda x: 2 * looping(x), torch.rand(rows, 4))


@pytest.mark.parametrize(
    ("viewed", "needs"),
    [
        (lambda x: x.reshape(2, 24), "batch == 2"),
        (lambda x: x.view(48), "batch == 2"),
        (lambda x: x.view(2, x.shape[1], 2, 4), "batch == 2"),
    ],
)
def test_axis_that_a_view_fixes(viewed: Callable[[torch.Tensor], torch.Tensor], needs: str) -> None:
    axes: Any = {0: "batch", 1: "length"} if viewed(torch.ones(2, 3, 8)).ndim == 4 else {0: "batch"}
    with pytest.raises(onnx_parity.DynamicAxisError) as caught:
        onnx_parity.export(viewed, (torch.ones(2, 3, 8),), dynamic_shapes=(axes,))
    assert f"the program needs {needs} to be True" in str(caught.value)


def test_views_of_any_size() -> None:
    def viewed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        batch, length, features = x.shape
        return x.view(batch * length, features), x.view(batch, length, 2, 4), x.view(2, -1), x[:, :1].reshape(batch, 8)

    axes = {"x": {0: "batch", 1: "length"}}
    program = onnx_parity.export(viewed, (torch.ones(2, 3, 8),), dynamic_axes=axes, input_names=["x"])
    assert shape_of(program, "x") == ["batch", "length", 8]
    assert_agrees(program, viewed, torch.rand(5, 4, 8))


@pytest.mark.parametrize(("example", "size"), [(torch.ones(1, 4), "4*batch"), (torch.ones(3, 4), "4*batch")])
def test_view_of_another_size_than_the_example(example: torch.Tensor, size: str) -> None:
    # An axis of size 1 is recorded as one of any other size.
    with pytest.raises(onnx_parity.errors.ProgramFailedError, match=re.escape(f"is invalid for input of size {size}")):
        onnx_parity.export(lambda x: x.view(1, 4), (example,), dynamic_axes={"x": {0: "batch"}})


@pytest.mark.parametrize(
    ("model", "place"),
    [
        (nn.Linear(3, 2), ""),
        (nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(3, 2))), " in module 1.0"),
    ],
)
def test_axis_that_a_layer_of_torch_fixes(model: nn.Module, place: str) -> None:
    def for_somebody_else(**axes: Any) -> onnx_parity.ONNXProgram:
        return onnx_parity.export(model, (torch.ones(4, 3),), input_names=["x"], **axes)

    # As the command line does: no line of these is the program's.
    stop_at(for_somebody_else.__code__)
    needs = f"  - 'q'{place}: the program needs q == 3 to be True"
    with pytest.raises(onnx_parity.DynamicAxisError) as caught:
        for_somebody_else(dynamic_shapes=({1: "q"},))
    assert str(caught.value).splitlines()[1] == needs
    with pytest.raises(onnx_parity.DynamicAxisError):
        for_somebody_else(dynamic_axes={"x": {1: "q"}}, strict=True)
    # In dynamic_axes it is an axis that is not dynamic after all, because no other size is possible.
    with pytest.warns(onnx_parity.errors.OnnxExporterWarning) as warned:
        program = for_somebody_else(dynamic_axes={"x": {0: "batch", 1: "q"}})
    assert [str(each.message) for each in warned] == [
        "1 dynamic axis is static in the model, because the program fails with every other size that was tried:\n"
        f"{needs}\n"
        "Leave the axes out of dynamic_axes; or write those lines for any size (x.shape[i] instead of a number)."
    ]
    assert shape_of(program, "x") == ["batch", 3]
    assert_agrees(program, model, torch.rand(5, 3))


def test_axes_that_other_inputs_fix_are_static() -> None:
    model = nn.LSTM(5, 3)
    example = torch.rand(4, 2, 5), (torch.rand(1, 2, 3), torch.rand(1, 2, 3))
    with pytest.warns(onnx_parity.errors.OnnxExporterWarning, match="1 dynamic axis is static in the model"):
        program = onnx_parity.export(model, example, input_names=["x", "h", "c"], dynamic_axes={"x": [0, 1]})
    assert shape_of(program, "x") == ["x_dim_0", 2, 5]
    assert_agrees(program, model, torch.rand(7, 2, 5), example[1])
    with pytest.raises(onnx_parity.DynamicAxisError):  # One size of an expression is no size of its own.
        onnx_parity.export(
            lambda x, y: nn.functional.linear(x, torch.ones(2, 3)) + y.sum(),
            (torch.rand(4, 3), torch.rand(6)),
            input_names=["x", "y"],
            dynamic_axes={"x": {1: "q"}, "y": {0: "2*q"}},
        )


def test_an_axis_is_not_static_where_the_program_broadcasts_what_it_computes_from_it() -> None:
    def broadcasts(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.avg_pool2d(x, 3, 1) * torch.arange(4.0)

    assert broadcasts(torch.ones(2, 5, 3)).shape == (2, 3, 4)
    with pytest.raises(onnx_parity.DynamicAxisError, match=re.escape("columns - 2 == 4")):
        onnx_parity.export(broadcasts, (torch.ones(2, 5, 6),), dynamic_axes={"x": {2: "columns"}})


def test_size_that_becomes_a_number_is_fixed() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[int(row)] for row in "0" * x.shape[0]])

    with pytest.raises(onnx_parity.DynamicAxisError) as caught:
        onnx_parity.export(program, (torch.ones(3, 4),), dynamic_axes={"x": {0: "batch"}})
    where = f"{__file__}:{inspect.getsourcelines(program)[1] + 1}"
    assert f"  - over 'batch' at {where}" in str(caught.value)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"x": [2]}, "dynamic_axes['x'] names axis 2, but 'x' has 2 axes: give one of them"),
        ({"x": ["batch"]}, "dynamic_axes['x'] names the axis 'batch': give an int"),
        ({"x": {0: 3}}, "dynamic_axes['x'][0] is 3: give a string as the axis's name"),
        ({"x": {-2: "b", 0: "c"}}, "dynamic_axes['x'] names one axis twice, as 0 and as -2: name it once"),
        ({"x": 0}, "dynamic_axes['x'] is 0: give a list of axes, [0, 2], or a dict of names, {0: 'batch'}"),
    ],
)
def test_mistakes(axes: dict[str, Any], message: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(program, (torch.ones(2, 3),), dynamic_axes=axes)
    assert str(caught.value) == message


class OfOneResolution(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x > 1 if x.shape[0] == 4 else x * 2


def test_a_branch_that_only_the_example_meets() -> None:
    given: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": {0: "height"}}}
    with pytest.raises(onnx_parity.DynamicAxisError) as caught:
        onnx_parity.export(OfOneResolution(), (torch.ones(4, 2),), **given)
    assert str(caught.value).endswith(
        "\nIf the program only branches on whether a size is this number, give an example of another size: the model "
        "is then right for all others."
    )
    exported = onnx_parity.export(OfOneResolution(), (torch.ones(5, 2),), **given)
    assert_agrees(exported, OfOneResolution(), torch.rand(7, 2))


def test_one_name_for_several_sizes_is_a_label() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum(0) + y.sum((0, 1))

    with pytest.warns(onnx_parity.errors.OnnxExporterWarning) as caught:
        exported = onnx_parity.export(
            program,
            (torch.ones(4, 2), torch.ones(3, 3, 2)),
            input_names=["x", "y"],
            dynamic_axes={"x": {0: "n"}, "y": {0: "n", 1: "n"}},
        )
    assert [str(each.message) for each in caught] == [
        "dynamic_axes gives the name 'n' to axes of size 4 and of size 3 in the example: they are two axes in the "
        "model, 'n' and 'y_dim_0'. Give them two names"
    ]
    assert_agrees(exported, program, torch.rand(7, 2), torch.rand(1, 1, 2))
    with pytest.raises(onnx_parity.ArgumentError, match="axes with the same name have the same size; give them two"):
        onnx_parity.export(
            program, (torch.ones(4, 2), torch.ones(3, 3, 2)), dynamic_shapes=({0: "n"}, {0: "n", 1: "n"})
        )


def test_axes_of_outputs_may_count_from_the_last() -> None:
    def exported(axes: dict[int, str]) -> str:
        program = onnx_parity.export(
            torch.relu,
            (torch.ones(2, 3),),
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "rows"}, "y": axes},
        )
        return str(program.model.graph.outputs[0].shape)

    assert exported({-2: "batch"}) == "[batch,3]"
    assert exported({1: "fixed"}) == "[rows,3]"
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        exported({0: "a", -2: "b"})
    assert str(caught.value) == "dynamic_axes['y'] names one axis twice, as 0 and as -2: name it once"
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        exported({2: "a"})
    assert str(caught.value) == "dynamic_axes['y'] names axis 2, but 'y' has 2 axes: give one of them"


def test_means_of_none_are_torch_s() -> None:
    """onnxruntime's ReduceMean gives 0 there."""
    x = torch.arange(6.0).reshape(2, 3)

    def means(x: torch.Tensor) -> list[torch.Tensor]:
        mean, other = torch.var_mean(x, 0), x.half().mean(0, keepdim=True)
        return [x.mean(), x.mean(0), *mean, other, torch.nn.functional.mse_loss(x, x + 1), x.mean(1)]

    for opset in (8, 13, 18):
        program = onnx_parity.export(means, (x,), dynamic_axes={"x": {0: "rows"}}, opset_version=opset)
        for rows in (2, 1, 0):
            assert_agrees(program, means, x[:rows])
        assert {node.op_type for node in onnx_parity.export(lambda x: x.mean(0), (x,)).model.graph} == {"ReduceMean"}


def test_both_ways_at_once() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(torch.relu, (torch.ones(2),), dynamic_axes={"input_0": [0]}, dynamic_shapes=({0: "n"},))
    assert str(caught.value) == "dynamic_axes and dynamic_shapes are two forms of the same request: give one of them"


def test_loop_that_breaks_at_a_size_is_a_loop_of_the_model() -> None:
    def counts(x: torch.Tensor) -> torch.Tensor:
        number = 0
        while True:
            if number >= x.shape[0]:
                break
            x, number = x + number, number + 1
        return x

    program = onnx_parity.export(counts, (torch.ones(3, 4),), dynamic_axes={"x": {0: "batch"}}, strict=True)
    assert [node.op_type for node in program.model.graph].count("Loop") == 1
    for rows in (0, 1, 3, 7):
        assert_agrees(program, counts, torch.ones(rows, 4))


def test_a_lowering_that_takes_a_size_for_a_number_is_refused() -> None:
    @onnx_parity.lowering("aten::erfinv", since=7)
    def erfinv(g: Any, self: Any) -> Any:
        return g.op("Mul", self, float(int(self.sizes[0])))

    try:
        with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
            onnx_parity.export(torch.erfinv, (torch.ones(3),), input_names=["x"], dynamic_axes={"x": [0]})
        assert caught.value.refusals[0].reason == "its lowering needs x_dim_0 as a constant, but it is a dynamic size"
    finally:
        unregister("aten::erfinv", since=7)


def test_example_of_size_one_that_the_program_broadcasts() -> None:
    def broadcasts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(broadcasts, (torch.ones(1, 4), torch.ones(5, 4)), dynamic_axes={"x": {0: "batch"}})
    where = f"{__file__}:{inspect.getsourcelines(broadcasts)[1] + 1}"
    assert str(caught.value) == (
        f"the program failed while it was recorded at {where}: RuntimeError: The size of tensor a (batch) must match "
        "the size of tensor b (5) at non-singleton dimension 0)\n"
        "The size of 'batch' is 0 or 1 in the example. It was recorded as 2, because empty axes and axes of size 1 "
        "(which broadcast) behave differently from other sizes. Give an example of another size; if the "
        "program needs this one, leave the axis out of dynamic_axes."
    )


def test_dynamic_axes_of_what_is_not_there_are_ignored_with_a_warning() -> None:
    message = (
        r"dynamic_axes names 'y', which is neither an input \(x\) nor an output \(output\), and is ignored: see "
        "input_names and output_names"
    )
    with pytest.warns(OnnxExporterWarning, match=message) as warned:
        program = onnx_parity.export(torch.relu, (torch.ones(2),), input_names=["x"], dynamic_axes={"y": [0]})
    assert warned[0].filename == __file__
    assert program(torch.ones(2)).tolist() == [1, 1]
    with pytest.warns(OnnxExporterWarning, match="and is ignored: did you mean 'image'"):
        onnx_parity.export(torch.relu, (torch.ones(2),), input_names=["image"], dynamic_axes={"imag": [0]})


def test_weights_come_before_tensors_of_dynamic_sizes() -> None:
    """As in the affine layers of ResMLP."""
    scale, shift, half = nn.Parameter(torch.full((1, 3), 2.0)), nn.Parameter(torch.ones(1, 3)), torch.tensor(0.5)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        blended = [torch.lerp(scale, x, 0.3), torch.lerp(scale, x, half), torch.lerp(scale, shift, x)]
        return [torch.addcmul(shift, scale, x), torch.addcdiv(shift, x, scale, value=2), *blended]

    exported = onnx_parity.export(program, (torch.ones(2, 3),), dynamic_axes={"x": {0: "rows"}})
    for rows in (1, 5):
        assert_agrees(exported, program, torch.arange(rows * 3.0).reshape(rows, 3))


def test_the_less_of_two_quotients_of_sizes() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape
        factor = torch.sym_min(64 / torch.sym_min(height, width), 96 / torch.sym_max(height, width))
        return x.new_ones(torch.sym_int(height * factor), torch.sym_int(width * factor))

    axes = {"x": {0: "height", 1: "width"}}
    exported = onnx_parity.export(program, (torch.ones(70, 80),), dynamic_axes=axes)
    for height, width in ((80, 70), (31, 90), (64, 64)):
        assert_agrees(exported, program, torch.ones(height, width))


def test_a_convolution_with_a_dynamic_number_of_filters() -> None:
    x, filters, bias = torch.randn(2, 4, 5, 5), torch.randn(6, 4, 3, 3), torch.randn(6)
    axes = {"weight": {0: "filters"}, "bias": {0: "filters"}}
    program = onnx_parity.export(
        nn.functional.conv2d, (x, filters, bias), input_names=["x", "weight", "bias"], dynamic_axes=axes, verify=True
    )
    assert program(x, filters[:3], bias[:3]).shape == (2, 3, 3, 3)


def test_a_dynamic_stride_is_refused() -> None:
    def strided(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv1d(x, torch.ones(3, 2, 2), stride=x.shape[0])

    with pytest.raises(onnx_parity.UnsupportedOperatorsError, match="needs batch as a constant, but it is a dynamic"):
        onnx_parity.export(strided, (torch.randn(2, 2, 5),), dynamic_axes={"x": {0: "batch"}})


def test_an_axis_that_keeps_its_size_beside_an_infinite_element() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=1.3, mode="linear")

    exported = onnx_parity.export(program, (torch.rand(1, 1, 5),), dynamic_shapes=({2: "length"},))
    for numbers in ([1.0, float("inf"), 2.0], [float("inf"), 1.0], [1.0, 2.0, 3.0, 4.0]):
        x = torch.tensor([[numbers]])
        torch.testing.assert_close(exported(x), program(x), equal_nan=True)

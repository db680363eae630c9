"""Programs of `torch.export` as the model: weights, shapes, mutations, structure, and source lines."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim
from torch.export.graph_signature import InputKind

import onnx_parity
from tests.exporter.request.test_dynamic_axes import shape_of
from tests.exporter.subjects import Counter, assert_agrees
from tests.thinned import one_in

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Everything(nn.Module):
    """Parameters, a buffer that it writes, an attribute, a literal, an input that it writes, other modes, a number."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4))
        self.register_buffer("count", torch.zeros(()))
        self.scale = torch.linspace(1, 2, 4)

    def forward(self, x: torch.Tensor, more: dict[str, Any], *, shift: torch.Tensor, times: int = 2) -> dict[str, Any]:
        self.count.add_(1)
        x = self.layers(x) + self.scale * self.count + torch.tensor([1.0, 2.0, 3.0, 4.0])
        more["a"].mul_(2)
        with torch.no_grad():
            y = x * times
        with torch.autocast("cpu", torch.bfloat16):
            z = self.layers(x).float()
        number = more["number"].item()
        torch._check(number >= 0)
        return {"x": x + shift, "y": (y, None, 3, x.shape[0], z), "zeros": torch.zeros(number)}


def arguments(rows: int, number: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    more = {"a": torch.ones(2), "number": torch.tensor(number)}
    return (torch.rand(rows, 4), more), {"shift": torch.rand(rows, 4), "times": 2}


@pytest.fixture(scope="module", params=[False, True], ids=["as exported", "decomposed"])
def everything(request: pytest.FixtureRequest) -> torch.export.ExportedProgram:
    rows = Dim("rows", min=2, max=64)
    shapes = {"x": {0: rows}, "more": {"a": None, "number": None}, "shift": {0: rows}, "times": None}
    args, kwargs = arguments(3, 3)
    exported = torch.export.export(Everything(), args, kwargs, dynamic_shapes=shapes, strict=False)
    return exported.run_decompositions({}) if request.param else exported


class Nested(nn.Module):
    def forward(self, x: torch.Tensor, more: tuple[torch.Tensor]) -> torch.Tensor:
        return x + more[0]


def test_objects_that_onnx_has_no_form_for() -> None:
    program = torch.export.export(Nested(), (X, (X,)))
    # torch.export writes such an input for objects of classes in C++, of which this torch may have none.
    program.graph_signature.input_specs[1].kind = InputKind.CUSTOM_OBJ
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(program)
    assert str(caught.value) == (
        "the exported program holds a custom_obj, 'more_0', which ONNX cannot represent: write the program with tensors"
    )


@pytest.mark.filterwarnings("ignore::onnx_parity.DroppedWriteWarning")
def test_everything(everything: torch.export.ExportedProgram) -> None:
    program = onnx_parity.export(everything)
    assert program.input_names == ("x", "more_0", "more_1", "shift")
    assert {"layers.0.weight", "layers.0.bias"} <= program.model.graph.initializers.keys()
    assert shape_of(program, "x") == shape_of(program, "shift") == ["x_dim_0", 4]
    for rows, number in ((3, 3), (5, 0), (2, 7)):
        args, kwargs = arguments(rows, number)
        module = copy.deepcopy(everything).module()  # Running it writes to the buffers of the program.
        expected = module(*copy.deepcopy(args), **kwargs)
        torch.testing.assert_close(program(*args, **kwargs), expected, rtol=2e-2, atol=2e-2)


def test_writes_are_warned_about(everything: torch.export.ExportedProgram) -> None:
    with pytest.warns(onnx_parity.DroppedWriteWarning, match="the program writes to count, more_0"):
        onnx_parity.export(everything)
    assert everything.state_dict["count"] == 0


@pytest.mark.filterwarnings("ignore::onnx_parity.DroppedWriteWarning")
def test_nodes_know_the_line_and_the_module_that_were_exported(everything: torch.export.ExportedProgram) -> None:
    capture = onnx_parity.capture_program(everything)
    line = inspect.getsourcelines(Everything.forward)[1] + 2
    origin = next(node.origin for node in capture.graph.nodes if "linear" in str(node.op))
    assert (origin.file, origin.line, origin.module) == (__file__, line, "layers.0")
    assert all(node.origin.file in (__file__, "") for node in capture.graph.nodes)


@pytest.mark.filterwarnings("ignore::onnx_parity.DroppedWriteWarning")
def test_axes_can_be_named_and_not_added(everything: torch.export.ExportedProgram) -> None:
    program = onnx_parity.export(everything, dynamic_axes={"x": {0: "batch"}})
    assert shape_of(program, "x") == shape_of(program, "shift") == ["batch", 4]
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(everything, dynamic_axes={"x": [1]})
    assert str(caught.value) == (
        "axis 1 of 'x' is static in the exported program: call torch.export.export with dynamic_shapes that make it "
        "dynamic"
    )


def test_arguments_of_another_structure(everything: torch.export.ExportedProgram) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(everything, (X, {"a": torch.ones(2)}), kwargs={"shift": X, "times": 2})
    assert str(caught.value) == "the exported program takes 4 tensors, but got 3: pass all of them"
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(everything, training=True)
    assert str(caught.value) == (
        "training=True, but model is an ExportedProgram, whose mode was fixed when it was made: put the module into "
        "training mode before torch.export.export"
    )
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(torch.export.export(Nested(), (X, (X,))), (X, [X]))
    assert str(caught.value) == (
        "the program was exported for arguments of the structure ((_, (_,)), {}), positional and by name, but got "
        "((_, [_]), {}): give the same structure"
    )
    bare = copy.copy(everything)
    bare.example_inputs = None
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(bare)
    assert str(caught.value) == "the exported program has no example inputs: give them as args and kwargs"


def test_derived_dimensions() -> None:
    class Interleaved(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, x]) + y.reshape(x.shape[0], 2, -1).reshape(y.shape)

    rows = Dim("rows", min=2, max=64)
    args = (torch.rand(3, 4), torch.rand(6, 4))
    shapes = ({0: rows}, {0: 2 * rows})
    model = Interleaved()
    for program in (
        onnx_parity.export(torch.export.export(model, args, dynamic_shapes=shapes)),
        onnx_parity.export(model, args, dynamic_shapes=shapes),
    ):
        assert_agrees(program, model, torch.rand(5, 4), torch.rand(10, 4))


def test_two_exports_are_the_same_bytes(everything: torch.export.ExportedProgram) -> None:
    with pytest.warns(onnx_parity.DroppedWriteWarning):
        first, second = onnx_parity.export(everything).serialize(), onnx_parity.export(everything).serialize()
    assert first == second


def test_written_buffer_of_a_decomposed_program() -> None:
    exported = torch.export.export(Counter(), (X,)).run_decompositions({})
    with pytest.warns(onnx_parity.DroppedWriteWarning, match="the program writes to count"):
        program = onnx_parity.export(exported)
    torch.testing.assert_close(program(X), X + 1)


class Decides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.layer(x) + 1, lambda x: x - 1, (x,))


class Repeats(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return while_loop(lambda n, x: n < x.shape[0], lambda n, x: (n + 1, x * 2), (torch.tensor(0), x))


class Scans(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("decomposed", one_in(2, [False, True]), ids=["as exported", "decomposed"])
@pytest.mark.parametrize("model", [Decides(), Repeats(), Scans()], ids=lambda model: type(model).__name__)
def test_control_flow(model: nn.Module, decomposed: bool) -> None:
    exported = torch.export.export(model, (X,), dynamic_shapes=({0: Dim("rows", min=2)},))
    program = onnx_parity.export(exported.run_decompositions({}) if decomposed else exported)
    for x in (X + 3, X - 3, torch.rand(5, 4)):
        assert_agrees(program, model, x)


def test_dynamic_numbers_are_refused() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
            return x * times

    exported = torch.export.export(Scaled(), (X, 3), dynamic_shapes=(None, Dim.DYNAMIC))
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(exported)
    assert str(caught.value) == (
        "the exported program has the number 'times' as a dynamic input, but in a model it would become a constant: "
        "export the program with a tensor of one number instead"
    )
    fixed = onnx_parity.export(torch.export.export(Scaled(), (X, 3)))
    torch.testing.assert_close(fixed(X), X * 3)


class CalledLikeMethods(nn.Module):
    """Parts with the names that the module around an exported program has for other things."""

    axes: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.program = nn.Linear(4, 4)
        self.example = nn.Parameter(torch.ones(4))
        self.register_buffer("axes", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.program(x) * self.example + self.axes
        return result


def test_parts_called_like_methods() -> None:
    model = CalledLikeMethods()
    program = onnx_parity.export(torch.export.export(model, (X,)))
    assert {"program.weight", "example", "axes"} <= program.model.graph.initializers.keys()
    assert_agrees(program, model, X)


def test_transforms_left_half_done_are_refused() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.vmap(lambda row: row / row.norm())(x)
            return result

    class Gradient(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.func.grad(lambda x: (x**3).sum())(x)
            return result

    try:
        exported, gradient = (torch.export.export(module, (X,)) for module in (Scaled(), Gradient()))
    except AssertionError:
        pytest.skip("torch 2.11 cannot export them at all")
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(exported)
    assert str(caught.value) == (
        "the exported program contains a transform of torch.func (_vmap_increment_nesting), which torch.export records "
        "incompletely: export the module itself instead of the ExportedProgram"
    )
    assert_agrees(onnx_parity.export(Scaled(), (X,)), Scaled(), X)
    with pytest.raises(onnx_parity.CaptureError, match="_unwrap_for_grad"):
        onnx_parity.export(gradient)

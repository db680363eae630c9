"""Lists of any length and tensors that may be None, as inputs and outputs: sequences and optionals of ONNX."""

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor
from torch.export import Dim

import onnx_parity
from onnx_parity.exporter import ListOf, OrNone

ALIKE = [torch.randn(2, 3), torch.randn(2, 3)]
RAGGED = [torch.randn(2, 3), torch.randn(4, 3)]
LISTS = ([torch.randn(2, 3)], [torch.randn(2, 3) for _ in range(5)])
RAGGED_LISTS = ([torch.randn(1, 3)], [torch.randn(rows, 3) for rows in (3, 1, 2, 3)])


@torch.jit.script
def reads(xs: list[Tensor]) -> tuple[Tensor, int, Tensor, Tensor, list[Tensor]]:
    total = torch.zeros(3)
    for x in xs:
        total = total + x.sum(0)
    return total, len(xs), xs[-1] * 2, torch.cat(xs), [x[0] for x in xs]


@torch.jit.script
def doubles(xs: list[Tensor]) -> list[Tensor]:
    return [x * 2 for x in xs]


@torch.jit.script
def hands_on(xs: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    return xs, xs[0] + 1


@torch.jit.script
def changes(xs: list[Tensor]) -> tuple[list[Tensor], list[Tensor], Tensor]:
    ys = [xs[0]]
    if len(xs) > 2:
        ys.append(xs[1] * 2)
        ys.insert(0, xs[2])
    xs[0] = xs[0].exp()
    last = xs.pop()
    xs += [last, last]
    return ys, xs, last


@torch.jit.script
def writes_to_items(xs: list[Tensor]) -> Tensor:
    for x in xs:
        x.add_(1)
    return torch.cat(xs)


@torch.jit.script
def chooses(x: Tensor, n: Tensor) -> Tensor:
    return [x, x[:1], x[:2]][int(n)]


@torch.jit.script
def scaled(x: Tensor, scale: Tensor | None = None) -> Tensor:
    if scale is None:
        scale = torch.ones_like(x) * 3
    return x * scale


@torch.jit.script
def sometimes(x: Tensor, y: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    found: Tensor | None = None
    if bool(x.sum() > 0):
        found = x * 2
    return found, y


@torch.jit.script
def writes_to_it(y: Tensor | None) -> Tensor:
    if y is not None:
        y.add_(1)
        return y
    return torch.zeros(2)


def hold(program: onnx_parity.ONNXProgram, script: Callable[..., Any], *args: Any) -> None:
    torch.testing.assert_close(program(*args), script(*args))


@pytest.mark.parametrize("opset", [11, 13, 18, 26])
def test_a_list_of_tensors_of_one_shape(opset: int) -> None:
    program = onnx_parity.export(
        reads, (ALIKE,), dynamic_shapes={"xs": ListOf()}, opset_version=opset, input_names=["images"], verify=True
    )
    assert program.input_names == ("images",)
    for other in LISTS:
        hold(program, reads, other)


@pytest.mark.parametrize("opset", [11, 18])
def test_a_list_of_tensors_of_other_sizes(opset: int) -> None:
    program = onnx_parity.export(
        reads, (RAGGED,), dynamic_axes={"xs": ListOf({0: "rows"})}, opset_version=opset, verify=True
    )
    for other in RAGGED_LISTS:
        hold(program, reads, other)
    (given,) = program.model_proto.graph.input
    item = given.type.sequence_type.elem_type.tensor_type
    assert [size.dim_param or size.dim_value for size in item.shape.dim] == ["rows", 3]
    assert "graph(%xs : Float[](rows, 3)" in str(program)


@pytest.mark.parametrize("spec", [ListOf(), ListOf({0: Dim.DYNAMIC})], ids=["alike", "ragged"])
def test_what_is_made_of_each_item_is_a_list(spec: ListOf) -> None:
    program = onnx_parity.export(doubles, (ALIKE,), dynamic_shapes=(spec,), verify=True)
    for other in (*LISTS, []):
        hold(program, doubles, other)


@pytest.mark.parametrize(("script", "opset"), [(changes, 13), (hands_on, 14)])
def test_lists_are_changed(script: Callable[..., Any], opset: int) -> None:
    spec = {"xs": ListOf({0: "rows"})}
    program = onnx_parity.export(script, (RAGGED,), dynamic_axes=spec, opset_version=opset)
    for other in RAGGED_LISTS:
        torch.testing.assert_close(program(list(other)), script(list(other)))


def test_it_is_one_of_many() -> None:
    places = torch.tensor(1)
    program = onnx_parity.export(chooses, (torch.randn(3, 2), places), opset_version=11)
    for place in (0, 1, 2):
        hold(program, chooses, torch.randn(3, 2), torch.tensor(place))


def test_a_traced_module_hands_a_list_to_a_script() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, given: dict[str, Any]) -> Tensor:
            total: Tensor = self.linear(reads(given["xs"])[0]) + given["x"]
            return total

    model = Model()
    spec = {"given": {"xs": ListOf({0: "rows"}), "x": {0: Dim("batch")}}}
    program = onnx_parity.export(model, ({"xs": RAGGED, "x": torch.randn(4, 3)}, {}), dynamic_shapes=spec, verify=True)
    assert program.input_names == ("given_0", "given_1")
    hold(program, model, {"xs": RAGGED_LISTS[1], "x": torch.randn(2, 3)})


@pytest.mark.parametrize("opset", [15, 18])
def test_a_tensor_that_may_be_none(opset: int) -> None:
    x = torch.randn(2, 3)
    program = onnx_parity.export(
        scaled,
        (x, x),
        dynamic_axes={"x": {0: "batch"}, "scale": OrNone({0: "batch"})},
        opset_version=opset,
        verify=True,
    )
    hold(program, scaled, torch.randn(4, 3), None)
    hold(program, scaled, torch.randn(4, 3), torch.randn(4, 3))
    assert "%scale : Float?(batch, 3)" in str(program)


def test_a_result_that_may_be_none() -> None:
    x = torch.randn(2, 3)
    program = onnx_parity.export(sometimes, (x, x), dynamic_axes={"y": OrNone({0: "rows"})}, verify=True)
    for arguments in ((x.abs(), None), (-x.abs(), torch.randn(5, 3))):
        hold(program, sometimes, *arguments)
    assert [output.type.WhichOneof("value") for output in program.model_proto.graph.output] == ["optional_type"] * 2


def test_opsets_that_have_none_are_named() -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(doubles, (ALIKE,), dynamic_axes={"xs": ListOf()}, opset_version=10)
    assert [(each.operator, each.reason, each.since) for each in caught.value.refusals] == [
        ("the input 'xs'", "ONNX has sequences only from opset 11", 11)
    ]
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(doubles, (RAGGED,), dynamic_axes={"xs": ListOf({0: "rows"})}, opset_version=12)
    assert [(each.operator, each.reason, each.since) for each in caught.value.refusals] == [
        ("prim::Loop", "ONNX's If and Loop do not return sequences at this opset", 13)
    ]
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(sometimes, (ALIKE[0], ALIKE[0]), dynamic_axes={"y": OrNone()}, opset_version=14)
    assert caught.value.refusals[0].reason == "ONNX has optionals only from opset 15"
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(handed_on, (RAGGED,), dynamic_axes={"xs": ListOf({0: "rows"})}, opset_version=13)
    assert caught.value.refusals[0].reason == "ONNX's Identity does not take sequences at this opset"


@torch.jit.script
def handed_on(xs: list[torch.Tensor]) -> list[torch.Tensor]:
    return xs


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (
            ALIKE[0],
            "dynamic_shapes['xs'] is a ListOf, but the example has a float32 tensor of 2 axes there: give a list of "
            "tensors",
        ),
        (
            [],
            "dynamic_shapes['xs'] is a ListOf, but the example's list is empty: give a list of at least one tensor, "
            "which gives dtype and sizes",
        ),
        (
            RAGGED,
            "dynamic_shapes['xs'] is a ListOf whose axis 0 is static, but in the example's list item 0 has size 2 "
            "there and item 1 has size 4: make the axis dynamic, ListOf({0: 'size'})",
        ),
        (
            [ALIKE[0], ALIKE[0].double()],
            "dynamic_shapes['xs'] is a ListOf, but in the example's list item 0 is a float32 tensor of 2 axes and "
            "item 1 is a float64 tensor of 2 axes: give tensors of one dtype and one number of axes, as ONNX requires",
        ),
    ],
)
def test_empty_examples_are_refused(example: Any, message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(doubles, (example,), dynamic_shapes={"xs": ListOf()})
    assert str(caught.value) == message


def test_none_is_no_example() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(scaled, (ALIKE[0], None), dynamic_axes={"scale": OrNone()})
    assert str(caught.value) == (
        "dynamic_axes['scale'] is an OrNone, but the example has None there: give a tensor, which gives dtype and "
        "sizes; None can be passed when the model runs"
    )


def test_names_of_no_argument_are_refused() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(doubles, (ALIKE,), dynamic_axes={"ys": ListOf()})
    assert str(caught.value) == (
        "dynamic_axes['ys'] is a ListOf, but the program has no argument of this name: give one of xs"
    )


def test_python_takes_no_list_apart() -> None:
    remedy = (
        "Python would do so only once, while the program is recorded. Do it in a function with @torch.jit.script, or "
        "export torch.jit.script(model)"
    )
    for program in (lambda xs: xs[0] * 2, lambda xs: sum(x.sum() for x in xs), lambda xs: xs[0] * len(xs)):
        with pytest.raises(onnx_parity.CaptureError) as caught:
            onnx_parity.export(program, (ALIKE,), dynamic_axes={"xs": ListOf()})
        assert str(caught.value) == f"the program iterates over or indexes a list of unknown length. {remedy}"
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(lambda xs: torch.cat(xs), (ALIKE,), dynamic_axes={"xs": ListOf()})  # noqa: PLW0108
    assert str(caught.value).startswith("the program passes a list of unknown length to an operator at ")
    assert str(caught.value).endswith(remedy)


def test_python_does_not_ask_for_none() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(lambda x: x if x is not None else torch.ones(2), (ALIKE[0],), dynamic_axes={"x": OrNone()})
    assert str(caught.value) == (
        "an OrNone needs a script, because Python evaluates `is None` only once, while the program is recorded: "
        "export torch.jit.script(model)"
    )


def test_an_exported_program_has_none() -> None:
    class Model(torch.nn.Module):
        def forward(self, xs: list[Tensor]) -> Tensor:
            return torch.cat(xs)

    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(torch.export.export(Model(), (ALIKE,)), dynamic_axes={"xs": ListOf()})
    assert str(caught.value) == (
        "the lists of an ExportedProgram have a fixed length, and its arguments cannot be None: to use a ListOf or an "
        "OrNone, export torch.jit.script(model)"
    )


def test_writes_to_what_they_hold_are_refused() -> None:
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(writes_to_items, (RAGGED,), dynamic_axes={"xs": ListOf({0: "rows"})})
    assert str(caught.value).startswith(
        "the script writes in place to an item of a list whose length depends on values: write to a clone, and "
        "assign that to the list (at "
    )
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(writes_to_items, (ALIKE,), dynamic_axes={"xs": ListOf()})
    assert str(caught.value) == (
        "the program writes in place to the items of the list 'xs' that it is given: write to a clone"
    )
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(writes_to_it, (torch.randn(2),), dynamic_axes={"y": OrNone()})
    assert str(caught.value) == (
        "the program writes in place to the tensor, which may be None, 'y' that it is given: write to a clone"
    )


def test_a_call_with_other_arguments_is_refused() -> None:
    program = onnx_parity.export(doubles, (ALIKE,), dynamic_axes={"xs": ListOf()})
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program(ALIKE[0])
    assert str(caught.value) == (
        "xs is a list of tensors in the model, but torch.float32[2, 3] was given: give a list of tensors"
    )
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program([torch.randn(2, 4)])
    assert str(caught.value).startswith("the input 'xs' must be torch.float32[2, 3], and torch.float32[2, 4] was given")


def test_what_may_be_none_may_be_left_out() -> None:
    program = onnx_parity.export(scaled, (ALIKE[0], ALIKE[0]), dynamic_axes={"scale": OrNone()})
    hold(program, scaled, ALIKE[1])


def test_two_exports_are_the_same_to_the_byte() -> None:
    files = [onnx_parity.export(changes, (RAGGED,), dynamic_axes={"xs": ListOf({0: "rows"})}).serialize() for _ in "ab"]
    assert files[0] == files[1]
    onnx.checker.check_model(files[0], full_check=True)

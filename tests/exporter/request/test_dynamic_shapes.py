"""dynamic_shapes in the forms of torch.export."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import onnx_parity
from tests.exporter.request.test_dynamic_axes import shape_of
from tests.exporter.subjects import assert_agrees


def scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * scale


ARGS = (torch.ones(4, 3), torch.ones(4, 3))


def test_shared_dimension() -> None:
    batch = Dim("batch", min=1, max=64)
    program = onnx_parity.export(scaled, ARGS, dynamic_shapes={"x": {0: batch}, "scale": {0: batch}})
    assert shape_of(program, "x") == shape_of(program, "scale") == shape_of(program, "output") == ["batch", 3]
    for size in (1, 9):
        assert_agrees(program, scaled, torch.rand(size, 3), torch.rand(size, 3))


@pytest.mark.parametrize(
    ("shapes", "shape"),
    [
        (({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}), ["x_dim_0", 3]),
        (((Dim.DYNAMIC, None), (Dim.DYNAMIC, 3)), ["x_dim_0", 3]),
        (({0: "n"}, {0: "n"}), ["n", 3]),
        ((["n", Dim.STATIC], ["n", None]), ["n", 3]),
        ((None, None), [4, 3]),
    ],
)
def test_spellings(shapes: Any, shape: list[int | str]) -> None:
    assert shape_of(onnx_parity.export(lambda x, y: x + y.sum(), ARGS, dynamic_shapes=shapes), "x") == shape


def test_nested_structure() -> None:
    def joined(pieces: list[torch.Tensor], more: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([*pieces, more["z"]])

    args = ([torch.ones(2, 3), torch.ones(5, 3)], {"z": torch.ones(1, 3)})
    program = onnx_parity.export(
        joined, (*args, {}), dynamic_shapes={"pieces": [{0: "a"}, {0: "b"}], "more": {"z": {0: "c"}}}
    )
    assert shape_of(program, "output")[1] == 3
    other = ([torch.rand(1, 3), torch.rand(2, 3)], {"z": torch.rand(4, 3)})
    assert_agrees(program, joined, *other)


def test_automatic_axis_that_is_fixed_is_static() -> None:
    def half_fixed(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(4, 1)

    program = onnx_parity.export(half_fixed, (torch.ones(4, 3),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert shape_of(program, "x") == [4, "x_dim_1"]
    assert_agrees(program, half_fixed, torch.rand(4, 1))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            ({0: Dim("n", min=8)}, None),
            "dynamic_shapes['x'] asks for n from 8 on, but the example's size is 4: give other "
            "bounds or another example",
        ),
        (
            ({0: "n"},),
            "dynamic_shapes has 1 entries for 2 arguments with tensors (x, scale): give one for each, "
            "None where nothing is dynamic",
        ),
        (
            {"y": {0: "n"}},
            "dynamic_shapes names 'y', which is not an argument of the program: give one of x, scale",
        ),
        ((("n",), None), "dynamic_shapes['x'] has 1 entries, but 'x' has 2 axes: give one entry for each"),
        (("n", None), "dynamic_shapes['x'] is 'n': give a dict, {0: Dim('batch')}, or one entry for each axis"),
        (
            ({0: 1.5}, None),
            "dynamic_shapes['x'] contains 1.5: give torch.export.Dim('name'), Dim.DYNAMIC, Dim.AUTO, a name, or None",
        ),
        (({4: "n"}, None), "dynamic_shapes['x'] names axis 4, but 'x' has 2 axes: give one of them"),
    ],
)
def test_mistakes(shapes: Any, message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(scaled, ARGS, dynamic_shapes=shapes)
    assert str(caught.value) == message


@pytest.mark.filterwarnings("error")
def test_ranges_decide() -> None:
    def decides(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if 1 < x.shape[0] <= 64 else x > 0

    program = onnx_parity.export(decides, ARGS[:1], dynamic_shapes=({0: Dim("n", min=2, max=64)},), strict=True)
    assert_agrees(program, decides, torch.rand(64, 3))
    with pytest.raises(onnx_parity.FrozenValueError, match="n <= 64 is True in the example"):
        onnx_parity.export(decides, ARGS[:1], dynamic_shapes=({0: Dim("n", min=2, max=65)},), strict=True)


class OfAnyNumber(torch.nn.Module):
    def forward(self, x: torch.Tensor, *rest: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return x * scale + torch.stack([each.sum() for each in rest]).sum()


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": {0: "a"}, "rest": ({0: "b"}, ["c"])},
        ({0: "a"}, ({0: "b"}, ["c"])),
        ({0: "a"}, {0: "b"}, ["c"]),
        {"x": {0: "a"}, "input_1": {0: "b"}, "input_2": ["c"]},
    ],
)
def test_arguments_in_a_star(shapes: Any) -> None:
    model = OfAnyNumber()
    program = onnx_parity.export(model, (torch.ones(2), torch.ones(3), torch.ones(4)), dynamic_shapes=shapes)
    assert [shape_of(program, name) for name in ("x", "input_1", "input_2")] == [["a"], ["b"], ["c"]]
    assert_agrees(program, model, torch.rand(5), torch.rand(6), torch.rand(7))


@pytest.mark.parametrize("shapes", [{"x": {0: "a"}}, {"x": {0: "a"}, "rest": None}, ({0: "a"}, None)])
def test_static_arguments_in_a_star(shapes: Any) -> None:
    program = onnx_parity.export(OfAnyNumber(), (torch.ones(2), torch.ones(3)), dynamic_shapes=shapes)
    assert [shape_of(program, name) for name in ("x", "input_1")] == [["a"], [3]]


@pytest.mark.parametrize(("entry", "count"), [(({0: "b"},), 2), ({0: "b"}, 1), ("b", 1)])
def test_shapes_of_a_star_that_do_not_fit(entry: Any, count: int) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(
            OfAnyNumber(), (torch.ones(2), *[torch.ones(3)] * count), dynamic_shapes={"x": None, "rest": entry}
        )
    assert str(caught.value) == (
        f"dynamic_shapes['rest'] is {entry!r}: give a tuple with one entry for each of the {count} arguments in *rest"
    )


def test_derived_dimension_that_the_example_is_not() -> None:
    n = Dim("n")
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(scaled, ARGS, dynamic_shapes=({0: n}, {0: 2 * n}))
    assert str(caught.value) == (
        "dynamic_shapes['scale'] asks for 2*n, which is 8 for n = 4, but the example's size is 4: give an example that "
        "fits"
    )


def test_derived_dimensions_whose_root_is_no_size() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2).sum() + y.sum()

    h = Dim("h")
    onnx_parity.export(program, (torch.ones(4), torch.ones(7)), dynamic_shapes=({0: 2 * h}, {0: 3 * h + 1}))
    for sizes, message in (
        (
            (5, 7),
            "dynamic_shapes['x'] is 2*h, but the example's size is 5, which no integer h gives: give an example "
            "that fits",
        ),
        (
            (4, 10),
            "dynamic_shapes['y'] asks for 3*h + 1, which is 7 for h = 2, but the example's size is 10: give an example "
            "that fits",
        ),
    ):
        with pytest.raises(onnx_parity.ArgumentError) as caught:
            onnx_parity.export(program, tuple(map(torch.ones, sizes)), dynamic_shapes=({0: 2 * h}, {0: 3 * h + 1}))
        assert str(caught.value) == message


def test_a_structure_of_another_length() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(
            lambda x, more: x + more[0],
            (ARGS[0], (ARGS[0],)),
            dynamic_shapes={"x": {0: "n"}, "more": ({0: "n"}, None)},
        )
    assert str(caught.value) == "dynamic_shapes['more'] has 2 entries for an argument of 1: give one for each"


def test_entries_by_position_are_in_the_order_of_the_signature() -> None:
    class Sums(torch.nn.Module):
        def forward(self, x: torch.Tensor, *, z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.sum(0) + y.sum(0) * 2 + z.sum(0)

    kwargs = {"y": torch.rand(5, 3), "z": torch.rand(6, 3)}
    shapes = (None, {0: torch.export.Dim("rows")}, None)
    program = onnx_parity.export(Sums(), (torch.rand(4, 3),), kwargs=kwargs, dynamic_shapes=shapes)
    found = {value.name: str(value.shape) for value in program.model.graph.inputs}
    assert found == {"x": "[4,3]", "y": "[5,3]", "z": "[rows,3]"}


def test_entries_by_position_beside_any_number_of_arguments() -> None:
    def sums(x: torch.Tensor, *rest: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum(0) + sum(each.sum(0) for each in rest) + y.sum(0)

    args = torch.rand(4, 3), torch.rand(5, 3), torch.rand(6, 3)
    shapes = (None, (None, {0: torch.export.Dim("rows")}), None)
    program = onnx_parity.export(sums, args, kwargs={"y": torch.rand(7, 3)}, dynamic_shapes=shapes)
    assert [str(value.shape) for value in program.model.graph.inputs] == ["[4,3]", "[5,3]", "[rows,3]", "[7,3]"]

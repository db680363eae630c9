"""Dimensions of torch.export as its programs give them: copied hints, hints with limits, and objects that make them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.export.dynamic_shapes import AdditionalInputs, ShapesCollection
from torch.utils import _pytree as pytree

import onnx_parity
from tests.exporter.subjects import assert_agrees

X = torch.rand(4, 6)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def _axes(program: onnx_parity.ONNXProgram) -> list[list[Any]]:
    shapes = [each.type.tensor_type.shape for each in program.model_proto.graph.input]
    return [[size.dim_param or size.dim_value for size in shape.dim] for shape in shapes]


DYNAMIC: Any = Dim.DYNAMIC
AUTO: Any = Dim.AUTO


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (copy.deepcopy(DYNAMIC), "x_dim_0"),
        (pickle.loads(pickle.dumps(AUTO)), "x_dim_0"),
        (DYNAMIC(min=2, max=9), "x_dim_0"),
        (AUTO(max=9), "x_dim_0"),
        (copy.deepcopy(Dim.STATIC), 4),
        (copy.deepcopy(Dim("rows", min=2)), "rows"),
    ],
)
def test_hints_are_told_by_their_kind(hint: Any, expected: str | int) -> None:
    exported = onnx_parity.export(doubled, (X,), dynamic_shapes=({0: hint},))
    assert _axes(exported) == [[expected, 6]]
    assert_agrees(exported, doubled, torch.rand(4 if expected == 4 else 7, 6))


def test_limits_of_a_hint_hold_for_the_example() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(doubled, (X,), dynamic_shapes=({0: DYNAMIC(min=5, max=9)},))
    assert str(caught.value) == (
        "dynamic_shapes['x'] asks for x_dim_0 from 5 to 9, but the example's size is 4: give other bounds or another "
        "example"
    )


def test_what_a_hint_declares_is_known() -> None:
    """So the branch is no question."""
    exported = onnx_parity.export(
        lambda x: x * 2 if x.shape[0] > 1 else x, (X,), dynamic_shapes=({0: DYNAMIC(min=2)},), strict=True
    )
    assert_agrees(exported, doubled, torch.rand(7, 6))


def test_a_collection_of_shapes() -> None:
    y = torch.rand(3, 6)
    shapes = ShapesCollection()
    shapes[X] = {0: Dim("rows")}
    shapes[y] = (Dim("others"), None)
    exported = onnx_parity.export(lambda x, held: x.sum(0) + held["y"][0], (X, {"y": [y]}, {}), dynamic_shapes=shapes)
    assert _axes(exported) == [["rows", 6], ["others", 6]]


def test_a_collection_for_other_tensors_is_refused() -> None:
    shapes = ShapesCollection()
    shapes[X.clone()] = {0: Dim("rows")}
    with pytest.raises(onnx_parity.ArgumentError, match="dynamic_shapes does not fit the arguments: Some tensors"):
        onnx_parity.export(doubled, (X,), dynamic_shapes=shapes)


def test_further_examples() -> None:
    examples = AdditionalInputs()
    examples.add((X,))
    examples.add((torch.rand(9, 6),))
    exported = onnx_parity.export(doubled, (X,), dynamic_shapes=examples)
    assert _axes(exported) == [["x_dim_0", 6]]
    assert_agrees(exported, doubled, torch.rand(7, 6))


class Pair:
    """Registered with pytree, and so an object whose children have no names."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


pytree.register_pytree_node(Pair, lambda pair: ([pair.x, pair.y], None), lambda parts, _: Pair(*parts))


@dataclass
class Held:
    x: Any
    several: list[Any]
    named: dict[str, Any]


torch.export.register_dataclass(Held)
ROWS = {0: Dim("rows")}


@pytest.mark.parametrize(
    "shapes", [(Pair(ROWS, ROWS),), {"pair": Pair(ROWS, ROWS)}, ([ROWS, ROWS],)], ids=["object", "by name", "list"]
)
def test_an_object_of_a_registered_class(shapes: Any) -> None:
    exported = onnx_parity.export(lambda pair: pair.x + pair.y, (Pair(X, X + 1),), dynamic_shapes=shapes)
    assert _axes(exported) == [["rows", 6], ["rows", 6]]


def test_what_is_no_shape_in_such_an_object_is_refused() -> None:
    with pytest.raises(onnx_parity.ArgumentError, match=r"dynamic_shapes\['pair'\] is 7: give a dict"):
        onnx_parity.export(lambda pair: pair.x + pair.y, (Pair(X, X + 1),), dynamic_shapes=(Pair(ROWS, 7),))


@pytest.mark.parametrize(
    "shapes",
    [
        Held(ROWS, [ROWS, ROWS], {"z": ROWS}),
        [ROWS, [ROWS, ROWS], {"z": ROWS}],
        {"x": ROWS, "several": [ROWS, ROWS], "named": {"z": ROWS}},
    ],
    ids=["object", "list", "dict"],
)
def test_a_registered_dataclass_with_lists_and_dicts(shapes: Any) -> None:
    held = Held(X, [X, X + 1], {"z": X})
    exported = onnx_parity.export(
        lambda held: held.x + held.several[0] + held.several[1] + held.named["z"], (held,), dynamic_shapes=(shapes,)
    )
    assert _axes(exported) == [["rows", 6]] * 4


@dataclass
class _Parts:
    first: torch.Tensor
    listed: list[torch.Tensor]
    named: dict[str, torch.Tensor]


def test_a_registered_dataclass_of_lists_and_dicts_has_an_entry_for_each_field() -> None:
    torch.export.register_dataclass(_Parts, serialized_type_name="parts of test_hints")

    def program(parts: _Parts) -> torch.Tensor:
        return parts.first + parts.listed[0].sum() + parts.named["x"].mean()

    fields: Any = [{0: Dim("rows")}, [{0: Dim("more")}], {"x": {1: Dim("columns")}}]
    exported = onnx_parity.export(program, (_Parts(X, [X], {"x": X}),), dynamic_shapes=(fields,))
    assert _axes(exported) == [["rows", 6], ["more", 6], [4, "columns"]]

"""Sequences of tensors, and optionals."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from onnx_parity.harness.onnx_node import NOTHING, Array, TypeOf, Types, call, definition, node, seq

_ITEMS = seq((2,), (3,), (1,))

# --- sequences --------------------------------------------------------------------------------------------------------


@definition
def at(items: list[Array], position: Array) -> Array:
    return items[int(position)]


@definition
def made_of(*tensors: Array) -> list[Array]:
    return list(tensors)


@definition
def empty(dtype: Any = None) -> list[Array]:
    del dtype
    return []


@definition
def without(items: list[Array], position: Any = None) -> list[Array]:
    """Without a position, the last is removed."""
    kept = list(items)
    del kept[-1 if position is None else int(position)]
    return kept


@definition
def inserted(items: list[Array], tensor: Array, position: Any = None) -> list[Array]:
    """Without a position, it is the last."""
    place = len(items) if position is None else int(position.item())
    place += len(items) if place < 0 else 0
    return [*items[:place], tensor, *items[place:]]


sequence_at = node(
    "SequenceAt",
    at,
    call(_ITEMS, 1),
    call(_ITEMS, -1),
    call(seq((2, 3)), 0),
    call(seq((0, 1)), 0),
    usual={"I": "int64"},
    exact=True,
)
sequence_construct = node("SequenceConstruct", made_of, call((2,)), call((1,)), call((2,), (3,), (0,)), exact=True)
sequence_empty = node("SequenceEmpty", empty, call(dtype=TypeOf("S")), main="S")
sequence_empty_of_floats = node("SequenceEmpty", empty, call(), where=lambda types: types["S"] == "seq(tensor(float))")
sequence_erase = node(
    "SequenceErase",
    without,
    call(_ITEMS, 1),
    call(_ITEMS),
    call(_ITEMS, -3),
    call(seq((0,), (1,)), 0),
    usual={"I": "int64"},
    exact=True,
)
sequence_insert = node(
    "SequenceInsert",
    inserted,
    call(_ITEMS, (4,), 1),
    call(_ITEMS, (4,)),
    call(_ITEMS, (4,), -1),
    call(_ITEMS, (0,), 3),
    usual={"I": "int64"},
    exact=True,
)
sequence_length = node(
    "SequenceLength",
    definition(lambda items: np.array(len(items))),
    call(_ITEMS),
    call(seq((2,))),
    call(seq((0,), (1,))),
)


@definition
def joined(items: list[Array], axis: int, new_axis: int) -> Array:
    return np.stack(items, axis) if new_axis else np.concatenate(items, axis)


concat_from_sequence = node(
    "ConcatFromSequence",
    joined,
    call(_ITEMS, axis=0),
    call(seq((2, 1), (2, 3)), axis=-1),
    call(seq((0, 3), (1, 3)), axis=0),
    call(seq((2, 3), (2, 3)), axis=1, new_axis=1),
    call(seq((2,), (2,)), axis=-1, new_axis=1),
    exact=True,
)


@definition
def split_up(x: Array, split: Any = None, *, axis: int, keepdims: int) -> list[Array]:
    """A number is the size of the parts, of which the last may be smaller; sizes are those of each."""
    if split is None:
        parts = np.split(x, x.shape[axis], axis)
        return parts if keepdims else [np.squeeze(part, axis) for part in parts]
    if split.ndim:
        return np.split(x, np.cumsum(split)[:-1], axis)
    return np.split(x, range(int(split), x.shape[axis], int(split)), axis)


split_to_sequence = node(
    "SplitToSequence",
    split_up,
    call((3, 2)),
    call((3, 2), keepdims=0),
    call((5, 2), 2),
    call((5, 2), [1, 3, 1]),
    call((2, 4), [2, 2], axis=-1),
    call((1, 2)),
    call((0, 4), [2, 2], axis=1),
    call((4, 2), 2, axis=0),
    usual={"I": "int64"},
    exact=True,
)

# --- optionals --------------------------------------------------------------------------------------------------------


@definition
def the_same(value: Any) -> Any:
    return value


@definition
def has_value(value: Any = None) -> Array:
    return np.array(value is not None)


def _same_form(types: Types) -> bool:
    return types["O"] == f"optional({types['V']})"


optional = node("Optional", the_same, call((2, 3)), call(()), call((1,)), call((0,)), where=_same_form, exact=True)


@definition
def no_value(type: Any) -> None:
    del type


optional_without_value = node(
    "Optional",
    no_value,
    call(type=helper.make_tensor_type_proto(1, (2,))),
    main="O",
    where=lambda types: types["O"] == "optional(tensor(float))" and types["V"] == "tensor(float)",
)
optional_get_element = node(
    "OptionalGetElement",
    the_same,
    call((2, 3)),
    call(()),
    call((1,)),
    call((0, 3)),
    main="O",
    where=lambda types: types["O"] in (types["V"], f"optional({types['V']})"),
    exact=True,
)
optional_has_element = node("OptionalHasElement", has_value, call((2, 3)), call((1,)), call((0, 3)), main="O")
optional_has_no_element = node(
    "OptionalHasElement", has_value, call(NOTHING), main="O", where=lambda types: types["O"].startswith("optional")
)
nothing_has_no_element = node(
    "OptionalHasElement", has_value, call(), since=18, where=lambda types: types["O"].endswith("(tensor(float))")
)

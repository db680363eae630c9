"""Branches and loops. Their bodies are written in ONNX's own syntax; `{V}` stands for the type of V."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import Array, Subgraph, Types, call, definition, node, seq

# --- If ---------------------------------------------------------------------------------------------------------------


def _branch(element: str, *values: int) -> Subgraph:
    """A branch of numbers. They are cast, because no constant can be written for every type."""
    written = f"{element}[{len(values)}] {{{', '.join(map(str, values))}}}"
    return Subgraph(
        f"branch () => ({{V}}[n] y) {{ c = Constant <value = {written}> () y = Cast <to = {{V.code}}> (c) }}"
    )


_THEN, _ELSE = _branch("int64", 1, 1), _branch("int64", 1)
#: Before version 11, both branches have the same shape, and constants are floats.
_THEN_1, _ELSE_1 = _branch("float", 1, 1), _branch("float", 0, 1)


@definition
def chosen(cond: Array, types: Types, **branches: Any) -> Array:
    del branches
    number = 2 if cond else 1
    return np.array(["1"] * number, object) if "string" in types["V"] else np.ones(number)


def _is_tensor(types: Types) -> bool:
    return types["V"].startswith("tensor") and "complex" not in types["V"]


if_ = node(
    "If",
    chosen,
    call(True, then_branch=_THEN, else_branch=_ELSE),
    call(False, then_branch=_THEN, else_branch=_ELSE),
    call([True], then_branch=_THEN, else_branch=_ELSE),
    main="V",
    where=_is_tensor,
    since=11,
    exact=True,
)
if_1 = node(
    "If",
    definition(lambda cond, **branches: np.array([1, 1] if cond else [0, 1])),
    call(True, then_branch=_THEN_1, else_branch=_ELSE_1),
    call(False, then_branch=_THEN_1, else_branch=_ELSE_1),
    main="V",
    # Opset 7 casts nothing to strings.
    where=lambda types: _is_tensor(types) and "string" not in types["V"],
    before=11,
    exact=True,
)


def _may_be_passed_on(types: Types) -> bool:
    """Identity, SequenceEmpty and Optional have no sequences and optionals of the newer types."""
    return not any(each in types["V"] for each in ("bfloat16", "float8", "float4", "float6", "int4", "int2)"))


_NO_ITEMS = Subgraph("branch () => ({V} y) { y = SequenceEmpty <dtype = {V.code}> () }")
_OPTIONAL_ITEMS = Subgraph("branch () => ({V} y) { e = SequenceEmpty <dtype = {V.code}> () y = Optional (e) }")
_OPTIONAL_TENSOR = Subgraph(
    "branch () => ({V}[1] y) { c = Constant <value = int64[1] {1}> () d = Cast <to = {V.code}> (c) y = Optional (d) }"
)


@definition
def no_items(cond: Array, **branches: Any) -> list[Array]:
    del cond, branches
    return []


if_of_sequences = node(
    "If",
    no_items,
    call(True, then_branch=_NO_ITEMS, else_branch=_NO_ITEMS),
    main="V",
    where=lambda types: types["V"].startswith("seq") and _may_be_passed_on(types),
)
if_of_optional_sequences = node(
    "If",
    no_items,
    call(True, then_branch=_OPTIONAL_ITEMS, else_branch=_OPTIONAL_ITEMS),
    main="V",
    where=lambda types: types["V"].startswith("optional(seq") and _may_be_passed_on(types),
)
if_of_optional_tensors = node(
    "If",
    definition(lambda cond, types, **_: np.array(["1"], object) if "string" in types["V"] else np.ones(1)),
    call(False, then_branch=_OPTIONAL_TENSOR, else_branch=_OPTIONAL_TENSOR),
    main="V",
    where=lambda types: (
        types["V"].startswith("optional(tensor") and "complex" not in types["V"] and _may_be_passed_on(types)
    ),
    exact=True,
)

#: Any value of the model is passed on; a loop that goes round once does it for every type, as Identity does not.
_PASSED = Subgraph(
    "branch () => ({V}[] y) { once = Constant <value = int64 {1}> () "
    "y = Loop <body = round (int64 i, bool c, {V}[] s) => (bool d, {V}[] s) { d = Identity (c) }> (once, , x) }"
)
_OTHER = Subgraph("branch () => ({V}[] y) { y = Identity (x) }")


@definition
def passed_on_by_branch(cond: Array, x: Any, **branches: Any) -> Any:
    del cond, branches
    return x


if_of_outer_tensors = node(
    "If",
    passed_on_by_branch,
    call(True, then_branch=_OTHER, else_branch=_OTHER, outer={"x": (2, 3)}),
    call(False, then_branch=_OTHER, else_branch=_OTHER, outer={"x": (2, 3)}),
    call(True, then_branch=_OTHER, else_branch=_OTHER, outer={"x": (0, 3)}),
    main="V",
    where=lambda types: types["V"].startswith("tensor"),
    exact=True,
)
if_of_outer_sequences, if_of_outer_optionals = (
    node(
        "If",
        passed_on_by_branch,
        call(True, then_branch=_PASSED, else_branch=_PASSED, outer={"x": given}),
        main="V",
        where=where,
        exact=True,
    )
    for given, where in (
        (seq((2,), (3, 1)), lambda types: "seq" in types["V"]),
        ((2, 3), lambda types: types["V"].startswith("optional(tensor")),
    )
)

# --- Loop -------------------------------------------------------------------------------------------------------------

#: The carried value stays as it is, and each iteration is one of the scanned ones.
_CARRYING = Subgraph(
    "body (int64 i, bool c, {V}[2] x) => (bool c_out, {V}[2] x_out, {V}[2] y) "
    "{ c_out = Identity (c) x_out = Identity (x) y = Identity (x) }"
)


@definition
def carried(trips: Any, cond: Any, x: Array, body: Any) -> tuple[Array, Array]:
    del body
    times = 0 if trips is None or (cond is not None and not cond) else int(trips)
    return x, np.stack([x] * times) if times else np.zeros((0, *x.shape), x.dtype)


loop = node(
    "Loop",
    carried,
    call(3, True, (2,), body=_CARRYING),
    call(3, None, (2,), body=_CARRYING),
    call(None, False, (2,), body=_CARRYING),
    call(0, True, (2,), body=_CARRYING),
    call(3, False, (2,), body=_CARRYING),
    main="V",
    where=lambda types: types["V"].startswith("tensor"),
    exact=True,
)

_COUNTING = Subgraph(
    "body (int64 i, bool c, int64 n) => (bool c_out, int64 n_out, int64 y) "
    "{ n_out = Add (n, i) limit = Constant <value = int64 {4}> () c_out = Less (n_out, limit) y = Mul (n_out, n_out) }"
)


@definition
def counted(trips: Any, cond: Any, start: Array, body: Any) -> tuple[Array, Array]:
    """The sum of the iterations' numbers, until it is 4 or more."""
    del body
    total, squares = int(start), []
    number = 0
    while (
        (trips is None or number < int(trips)) and (number > 0 or cond is None or cond) and (number == 0 or total < 4)
    ):
        total += number
        squares.append(total * total)
        number += 1
    return np.array(total), np.array(squares, np.int64)


loop_until = node(
    "Loop",
    counted,
    call(10, True, 0, body=_COUNTING),
    call(None, True, 0, body=_COUNTING),
    call(2, True, 1, body=_COUNTING),
    main="V",
    where=lambda types: types["V"] == "tensor(int64)",
    since=11,
)
_GROWING = Subgraph(
    "body (int64 i, bool c, {V}[2] s) => (bool c_out, {V}[2] s_out) { c_out = Identity (c) s_out = Identity (s) }"
)


@definition
def passed_on(trips: Any, cond: Any, items: Any, body: Any) -> Any:
    del trips, cond, body
    return items


loop_of_sequences = node(
    "Loop",
    passed_on,
    call(2, True, seq((2,), (2,)), body=_GROWING),
    main="V",
    where=lambda types: types["V"].startswith("seq") and _may_be_passed_on(types),
    # Before opset 14, there is no Identity of sequences.
    since=16,
    exact=True,
)
loop_of_optionals = node(
    "Loop",
    passed_on,
    call(2, True, (2,), body=_GROWING),
    main="V",
    where=lambda types: types["V"].startswith("optional") and _may_be_passed_on(types),
    exact=True,
)

#: Nothing is computed, so every type can be there.
_RESTING = Subgraph("body (int64 i, bool c, {V}[] s) => (bool d, {V}[] s) { d = Identity (c) }")
loop_that_rests = node(
    "Loop",
    passed_on,
    call(1, True, seq((2,), (3, 1)), body=_RESTING),
    main="V",
    where=lambda types: "seq" in types["V"],
    exact=True,
)
loop_of_an_optional_that_rests = node(
    "Loop",
    passed_on,
    call(1, True, (2, 3), body=_RESTING),
    call(1, True, (0, 3), body=_RESTING),
    main="V",
    where=lambda types: types["V"].startswith("optional(tensor"),
    exact=True,
)

# --- Scan -------------------------------------------------------------------------------------------------------------

_PASSING = Subgraph("body ({V}[2] s, {V}[2] x) => ({V}[2] s_out, {V}[2] y) { s_out = Identity (x) y = Identity (s) }")
_PASSING_NOTHING = Subgraph(_PASSING.text.replace("[2]", "[0]"))


@definition
def scanned(state: Array, xs: Array, *, num_scan_inputs: int, body: Any, **axes: Any) -> tuple[Array, Array]:
    """Each step returns the last step's element, and keeps its own."""
    del num_scan_inputs, body
    directions = axes.get("directions") or axes.get("scan_input_directions") or [0]
    steps = np.moveaxis(xs, (axes.get("scan_input_axes") or [0])[0], 0)
    steps = steps[::-1] if directions[0] else steps
    results = np.stack([state, *steps[:-1]])
    results = results[::-1] if (axes.get("scan_output_directions") or [0])[0] else results
    return steps[-1], np.moveaxis(results, 0, (axes.get("scan_output_axes") or [0])[0])


scan = node(
    "Scan",
    scanned,
    call((2,), (3, 2), body=_PASSING, num_scan_inputs=1),
    call((2,), (3, 2), body=_PASSING, num_scan_inputs=1, scan_input_directions=[1]),
    call((2,), (3, 2), body=_PASSING, num_scan_inputs=1, scan_output_directions=[1]),
    call((2,), (2, 3), body=_PASSING, num_scan_inputs=1, scan_input_axes=[1]),
    call((2,), (3, 2), body=_PASSING, num_scan_inputs=1, scan_output_axes=[1]),
    call((2,), (1, 2), body=_PASSING, num_scan_inputs=1),
    call((0,), (3, 0), body=_PASSING_NOTHING, num_scan_inputs=1),
    main="V",
    since=9,
    exact=True,
)


@definition
def scanned_in_batches(lengths: Any, state: Array, xs: Array, *, num_scan_inputs: int, body: Any, **rest: Any) -> Any:
    del num_scan_inputs, body, lengths
    steps = xs[:, ::-1] if (rest.get("directions") or [0])[0] else xs
    return steps[:, -1], np.concatenate([state[:, None], steps[:, :-1]], 1)


scan_8 = node(
    "Scan",
    scanned_in_batches,
    call(None, (2, 2), (2, 3, 2), body=_PASSING, num_scan_inputs=1),
    call([3, 3], (2, 2), (2, 3, 2), body=_PASSING, num_scan_inputs=1),
    call(None, (2, 2), (2, 3, 2), body=_PASSING, num_scan_inputs=1, directions=[1]),
    main="V",
    before=9,
    exact=True,
)

# --- SequenceMap ------------------------------------------------------------------------------------------------------

_TWICE = Subgraph("body ({S.item}[n] x) => ({S.item}[m] y) { y = Concat <axis = 0> (x, x) }")
_JOINED = Subgraph("body ({S.item}[n] x, {S.item}[k] z) => ({S.item}[m] y) { y = Concat <axis = 0> (x, z) }")


@definition
def mapped(items: list[Array], *others: Any, body: Any) -> list[Array]:
    del body
    if not others:
        return [np.concatenate([item, item]) for item in items]
    (other,) = others
    return [
        np.concatenate([item, other[place] if isinstance(other, list) else other]) for place, item in enumerate(items)
    ]


sequence_map = node(
    "SequenceMap",
    mapped,
    call(seq((2,), (3,)), body=_TWICE),
    call(seq((0,), (3,)), body=_TWICE),
    main="S",
    exact=True,
)
sequence_map_with_tensor = node(
    "SequenceMap",
    mapped,
    call(seq((2,), (3,)), (1,), body=_JOINED),
    main="S",
    where=lambda types: types["V"] == types["S"][4:-1],
    exact=True,
)
sequence_map_with_sequence = node(
    "SequenceMap",
    mapped,
    call(seq((2,), (3,)), seq((1,), (2,)), body=_JOINED),
    main="V",
    where=lambda types: types["V"] == types["S"],
    exact=True,
)

"""Comparisons, logic, bits, and what is told of each element."""

from __future__ import annotations

import numpy as np
import torch

from onnx_parity.harness.onnx_node import BROADCAST, LIMITS, LIMITS_OF_TWO, Array, call, definition, drawn, node

#: Where two tensors are compared that have few different elements.
_ALIKE = (
    call(drawn((2, 3), values=(1.0, 2.0, 3.0)), drawn((2, 3), values=(1.0, 3.0, 2.0, 2.0))),
    call(drawn((), values=(2.0,)), drawn((2, 3), values=(1.0, 2.0, 3.0))),
    call([], [1]),
    call(*LIMITS_OF_TWO),
)
_NOT_FINITE = (
    call([[float("inf"), float("-inf"), float("nan")], [0.0, -0.0, 1.0]]),
    call(float("nan")),
    call([float("inf")]),
    call((0, 3)),
    call(LIMITS),
)

equal = node("Equal", definition(np.equal), *_ALIKE, stays_whole=True)
greater = node("Greater", definition(np.greater), *_ALIKE, stays_whole=True)
less = node("Less", definition(np.less), *_ALIKE, stays_whole=True)
greater_or_equal = node("GreaterOrEqual", definition(np.greater_equal), *_ALIKE, stays_whole=True)
less_or_equal = node("LessOrEqual", definition(np.less_equal), *_ALIKE, stays_whole=True)

and_ = node("And", torch.logical_and, shapes=BROADCAST)
or_ = node("Or", torch.logical_or, shapes=BROADCAST)
xor = node("Xor", torch.logical_xor, shapes=BROADCAST)
not_ = node("Not", torch.logical_not)

bitwise_and = node("BitwiseAnd", torch.bitwise_and, shapes=BROADCAST, low=-128.0, high=127.0, stays_whole=True)
bitwise_or = node("BitwiseOr", torch.bitwise_or, shapes=BROADCAST, low=-128.0, high=127.0, stays_whole=True)
bitwise_xor = node("BitwiseXor", torch.bitwise_xor, shapes=BROADCAST, low=-128.0, high=127.0, stays_whole=True)
bitwise_not = node("BitwiseNot", torch.bitwise_not, low=-128.0, high=127.0, stays_whole=True)


@definition
def shift(x: Array, y: Array, direction: str) -> Array:
    """What is shifted out is lost, and a shift to the right of a negative integer keeps its sign."""
    shifted: Array = np.left_shift(x, y) if direction == "LEFT" else np.right_shift(x, y)
    return shifted


bit_shift = node(
    "BitShift",
    shift,
    call(drawn((2, 3), 0.0, 127.0), drawn((2, 3), 0.0, 6.0), direction="LEFT"),
    call(drawn((2, 3), -128.0, 127.0), drawn((3,), 0.0, 6.0), direction="RIGHT"),
    call((0, 3), (1,), direction="LEFT"),
)


@definition
def is_infinite(x: Array, detect_negative: int, detect_positive: int) -> Array:
    found: Array = (np.isposinf(x) & bool(detect_positive)) | (np.isneginf(x) & bool(detect_negative))
    return found


is_nan = node("IsNaN", definition(np.isnan), *_NOT_FINITE)
is_inf = node(
    "IsInf",
    is_infinite,
    *_NOT_FINITE,
    call([float("inf"), float("-inf"), 1.0], detect_negative=0),
    call([float("inf"), float("-inf"), 1.0], detect_positive=0),
)

where = node(
    "Where",
    definition(np.where),
    call((2, 3), (2, 3), (2, 3)),
    call([True, False, True], (2, 1), (3,)),
    call(True, (2, 3), ()),
    call((0, 3), (1, 3), (3,)),
    call([[True], [False]], LIMITS, LIMITS),
    main="T",
    stays_whole=True,
    exact=True,
)

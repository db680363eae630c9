"""What the loops of linear algebra are made of: columns, rows, masks and products of matrices.

A factorization is a Loop over the columns of its matrix. An iteration works on a whole batch of whole matrices, and
masks what has to stay as it is. The vectors that it finds, a column of L or a row of the solution, are stacked by the
Loop. All axes before the last two are axes of the batch.
"""

from __future__ import annotations

import math

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import broadcast, same_shape, same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value

__all__ = [
    "below_diagonal",
    "beside_diagonal",
    "broadcast_batch",
    "column",
    "diagonal",
    "element",
    "first_flagged",
    "identity_matrix",
    "largest",
    "lying",
    "matrix_product",
    "no_elements",
    "on_diagonal",
    "power_of_two_near",
    "row",
    "smallest_side",
    "stacked_columns",
    "stacked_rows",
    "standing",
    "sum_over",
    "take_columns",
    "transposed",
    "triangle",
]

# --- parts of matrices ------------------------------------------------------------------------------------------------


def column(g: Graph, a: Value, k: Value) -> Value:
    """a[..., :, k]"""
    return shaped(g.op("Gather", a, k, axis_i=a.rank - 1), a.sizes[:-1])


def row(g: Graph, a: Value, k: Value) -> Value:
    """a[..., k, :]"""
    return shaped(g.op("Gather", a, k, axis_i=a.rank - 2), (*a.sizes[:-2], a.sizes[-1]))


def element(g: Graph, v: Value, k: Value) -> Value:
    """v[..., k] with an axis of size 1 in the place of k"""
    return g.unsqueeze(shaped(g.op("Gather", v, k, axis_i=v.rank - 1), v.sizes[:-1]), [v.rank - 1])


def standing(g: Graph, v: Value) -> Value:
    """Vectors as matrices of one column."""
    return g.unsqueeze(v, [v.rank])


def lying(g: Graph, v: Value) -> Value:
    """Vectors as matrices of one row."""
    return g.unsqueeze(v, [v.rank - 1])


def transposed(g: Graph, a: Value) -> Value:
    """Each matrix transposed."""
    return g.transpose(a, [*range(a.rank - 2), a.rank - 1, a.rank - 2])


def stacked_columns(g: Graph, stack: Value) -> Value:
    """Matrices of the columns that a Loop has stacked along the first axis."""
    return g.transpose(stack, [*range(1, stack.rank), 0])


def stacked_rows(g: Graph, stack: Value) -> Value:
    """Matrices of the rows that a Loop has stacked along the first axis."""
    return g.transpose(stack, [*range(1, stack.rank - 1), 0, stack.rank - 1])


def take_columns(g: Graph, a: Value, order: Value) -> Value:
    """The columns of matrices whose numbers are in the last axis of `order`, which has the same batch."""
    return g.gather_elements(a, g.expand(lying(g, order), (*a.sizes[:-1], order.sizes[-1])), a.rank - 1)


def on_diagonal(g: Graph, rows: Size, columns: Size) -> Value:
    """True on the diagonal of a matrix."""
    return g.equal(g.along(rows, 0, 2), g.along(columns, 1, 2))


def identity_matrix(g: Graph, rows: Size, columns: Size, dtype: torch.dtype) -> Value:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    return g.cast(on_diagonal(g, rows, columns), dtype)


def triangle(g: Graph, a: Value, diagonal: int, upper: bool) -> Value:
    """The upper or lower triangle of matrices, zeros elsewhere."""
    return shaped(g.triangle(a, diagonal, upper), a.shape)


def diagonal(g: Graph, a: Value) -> Value:
    """The diagonals of matrices, whose other elements may be infinite or NaN."""
    rows, columns = a.sizes[-2:]
    others_zero = g.where(on_diagonal(g, rows, columns), a, g.const(0, a.dtype))
    # Summed over the longer side.
    over = -2 if isinstance(rows, int) and isinstance(columns, int) and rows > columns else -1
    return sum_over(g, others_zero, over)


# --- computations -----------------------------------------------------------------------------------------------------


def below_diagonal(g: Graph, size: Size) -> Value:
    """The places left of the diagonal's, which are those of the first diagonal below it."""
    return g.equal(g.along(size, 0, 2), g.op("Add", g.along(size, 1, 2), 1))


def beside_diagonal(g: Graph, a: Value, is_left: Value) -> tuple[Value, Value, Value]:
    """Of each row: the element on the diagonal, the one left of it, and the one above it; 0 if there is none."""
    zero = g.const(0, a.dtype)
    left, above = (sum_over(g, g.where(is_left, each, zero), -1) for each in (a, transposed(g, a)))
    return diagonal(g, a), left, above


def matrix_product(g: Graph, a: Value, b: Value) -> Value:
    """a @ b, of batches that broadcast."""
    batch = broadcast(*(_batch_of(x) for x in (a, b)))
    return shaped(g.matmul(a, b), None if batch is None else (*batch, a.sizes[-2], b.sizes[-1]))


def sum_over(g: Graph, x: Value, axis: int, keepdim: bool = False) -> Value:
    """The sum over an axis, which may be counted from the end."""
    return g.reduce("Sum", x, [axis % x.rank], keepdim)


def largest(g: Graph, x: Value, axes: int) -> Value:
    """The largest magnitude over the last `axes` axes, which are kept."""
    return g.reduce("Max", g.op("Abs", x), list(range(x.rank - axes, x.rank)), True)


def power_of_two_near(g: Graph, magnitude: Value) -> Value:
    """A power of two near numbers, by which they are divided without rounding; 1 for 0 and for what is not finite."""
    top = math.log2(torch.finfo(magnitude.dtype).max)
    exponent = g.op("Floor", g.op("Mul", g.op("Log", magnitude), 1 / math.log(2)))
    # The comparisons are false for NaN and infinities.
    above, below = g.const(-top, magnitude.dtype), g.const(top, magnitude.dtype)
    usual = g.op("And", g.greater(exponent, above), g.less(exponent, below))
    kept = g.where(usual, exponent, g.const(0, magnitude.dtype))
    return g.op("Pow", g.const(2, magnitude.dtype), kept)


def first_flagged(g: Graph, flags: Value) -> Value:
    """For LAPACK's `info`: the number of the first true element along the last axis, from 1; 0 if there is none."""
    size = flags.sizes[-1]
    if no_elements(flags):
        return g.full(flags.sizes[:-1], 0, torch.int32)
    left = g.op("Sub", g.scalar(size, torch.int64), g.iota(size))
    most = g.reduce("Max", shaped(g.op("Mul", g.cast(flags, torch.int64), left), flags.sizes), [flags.rank - 1], False)
    if not isinstance(size, int):
        most = g.extreme("Max", most, g.const(0))  # The maximum of no elements is the smallest integer.
    found = g.op("Sub", g.scalar(size + 1, torch.int64), most)
    return g.cast(g.op("Mul", found, g.cast(g.cast(most, torch.bool), torch.int64)), torch.int32)


# --- shapes -----------------------------------------------------------------------------------------------------------


def smallest_side(a: Value) -> Size:
    rows, columns = a.sizes[-2:]
    smallest: Size = torch.sym_min(rows, columns)
    return smallest


def broadcast_batch(g: Graph, a: Value, b: Value) -> Value:
    """`b` expanded so that it has all axes of the batch that `a` and `b` broadcast to."""
    batch = broadcast(*(_batch_of(x) for x in (a, b)))
    assert batch is not None
    return b if same_shape(batch, b.sizes[:-2]) else g.expand(b, (*batch, *b.sizes[-2:]))


def no_elements(*values: Value) -> bool:
    """Whether one of the values is known to be empty."""
    return any(same_size(size, 0) for value in values for size in value.sizes)


def _batch_of(x: Value) -> Value:
    """A stand-in whose shape is the batch of `x`."""
    return Value(x.ir, x.dtype, x.sizes[:-2])

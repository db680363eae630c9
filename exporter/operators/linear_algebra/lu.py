"""The LU decomposition, and what is computed from it: solutions, inverses and determinants."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_shape, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import (
    column,
    diagonal,
    element,
    first_flagged,
    identity_matrix,
    lying,
    matrix_product,
    no_elements,
    row,
    smallest_side,
    standing,
    transposed,
    triangle,
)
from onnx_parity.exporter.operators.linear_algebra.triangular import solve_triangular
from onnx_parity.exporter.registry.lowerings import lowering

__all__ = ["pivot_row", "swapped_rows"]


def _factors(g: Graph, a: Value, pivot: bool = True) -> tuple[Value, Value]:
    """L below the diagonal and U from it on, in one matrix; and the row, from 1, that each row was swapped with.

    Each iteration finds the largest element of a column, swaps its row to the diagonal, and subtracts multiples of that
    row from those below. The multiples are what L consists of, and replace the zeros that arise.
    """
    rows, columns = g.iota(a.sizes[-2]), g.iota(a.sizes[-1])
    zero = g.const(0, a.dtype)

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        (matrix,) = carried
        chosen = element(g, rows, k)
        if pivot:
            chosen = pivot_row(g, g.op("Abs", column(g, matrix, k)), rows, k, a.sizes[:-2])
            matrix = swapped_rows(g, matrix, k, chosen, rows)
        upper = row(g, matrix, k)
        head = element(g, upper, k)
        divisor = g.where(g.equal(head, zero), g.const(1, a.dtype), head)
        below = standing(g, g.greater(rows, k))
        multiples = g.where(below, standing(g, g.op("Div", column(g, matrix, k), divisor)), zero)
        rest = g.where(g.greater(columns, k), upper, zero)
        eliminated = g.op("Sub", matrix, g.op("Mul", multiples, lying(g, rest)))
        replaced = g.op("And", below, lying(g, g.equal(columns, k)))
        return [g.where(replaced, multiples, eliminated), g.squeeze(chosen, [chosen.rank - 1])]

    matrix, chosen = g.repeat(smallest_side(a), [a], step)
    pivots = g.op("Add", g.transpose(chosen, [*range(1, chosen.rank), 0]), 1)
    return matrix, g.cast(pivots, torch.int32)


def pivot_row(g: Graph, magnitudes: Value, rows: Value, k: Value, batch: Sequence[Size]) -> Value:
    """The row, from row k on, with the largest element of a column, with an axis of size 1 in the place of the rows."""
    from_here = g.where(g.less(rows, k), g.const(-1, magnitudes.dtype), magnitudes)
    chosen = g.op("ArgMax", from_here, axis_i=len(batch), keepdims_i=1)
    # ONNX does not define what is chosen beside a NaN, which may be a row before it.
    return shaped(g.extreme("Max", chosen, k), (*batch, 1))


def swapped_rows(g: Graph, matrix: Value, k: Value, chosen: Value, rows: Value) -> Value:
    """Row k and the chosen one of each matrix swapped; `chosen` has an axis of size 1 in the place of the rows."""
    is_chosen = standing(g, g.equal(rows, chosen))
    alone = g.where(is_chosen, matrix, g.const(0, matrix.dtype))
    up = g.reduce("Sum", alone, [matrix.rank - 2], True)
    is_here = standing(g, g.equal(rows, k))
    down = g.where(is_chosen, lying(g, row(g, matrix, k)), matrix)
    return g.where(is_here, up, down)


def _order(g: Graph, pivots: Value, size: Size) -> Value:
    """For each row after all swaps, in which row it was before."""
    batch = pivots.sizes[:-1]
    rows = g.iota(size)
    swaps = g.op("Sub", g.cast(pivots, torch.int64), 1)

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        (order,) = carried
        return [g.squeeze(swapped_rows(g, standing(g, order), k, element(g, swaps, k), rows), [order.rank])]

    (order,) = g.repeat(pivots.sizes[-1], [g.expand(rows, (*batch, size))], step)
    return order


def _permutation(g: Graph, pivots: Value, size: Size, dtype: torch.dtype) -> Value:
    """P of P @ L @ U, whose transpose makes the swaps."""
    order = _order(g, pivots, size)
    return g.cast(g.equal(standing(g, g.iota(size)), lying(g, order)), dtype)


def _solution(g: Graph, lu: Value, pivots: Value, b: Value, adjoint: bool = False) -> Value:
    """The solution of P @ L @ U @ x = b, or if `adjoint` of (P @ L @ U).T @ x = b"""
    permutation = _permutation(g, pivots, lu.sizes[-1], lu.dtype)
    if adjoint:
        turned = transposed(g, lu)
        lower = solve_triangular(g, turned, b, upper=False)
        return matrix_product(g, permutation, solve_triangular(g, turned, lower, upper=True, unit=True))
    return _of_swapped(g, lu, matrix_product(g, transposed(g, permutation), b))


def _of_swapped(g: Graph, lu: Value, b: Value) -> Value:
    """The solution of L @ U @ x = b"""
    return solve_triangular(g, lu, solve_triangular(g, lu, b, upper=False, unit=True), upper=True)


def _info(g: Graph, lu: Value) -> Value:
    """The number of the first element on the diagonal of U that is 0, from 1; 0 if there is none"""
    heads = diagonal(g, lu)
    return first_flagged(g, g.equal(heads, g.const(0, heads.dtype)))


def _parts(g: Graph, lu: Value) -> tuple[Value, Value]:
    """L and U of the matrix that has both."""
    rows, columns = lu.sizes[-2:]
    side = smallest_side(lu)
    left = shaped(g.slice(lu, [lu.rank - 1], [0], [side]), (*lu.sizes[:-1], side))
    top = shaped(g.slice(lu, [lu.rank - 2], [0], [side]), (*lu.sizes[:-2], side, columns))
    lower = g.op("Add", triangle(g, left, -1, False), identity_matrix(g, rows, side, lu.dtype))
    return lower, triangle(g, top, 0, True)


# --- decompositions ---------------------------------------------------------------------------------------------------


@lowering("aten::linalg_lu_factor_ex")
def linalg_lu_factor_ex(
    g: Graph, A: Value, pivot: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value | None]:
    lu, pivots = _factors(g, A, pivot)
    return lu, pivots, _info(g, lu) if g.is_used(2) else None


@lowering("aten::linalg_lu")
def linalg_lu(g: Graph, A: Value, pivot: bool = True) -> tuple[Value, Value, Value]:
    lu, pivots = _factors(g, A, pivot)
    permutation = _permutation(g, pivots, A.sizes[-2], A.dtype) if pivot else g.full(g.out.shape, 0, A.dtype)
    return permutation, *_parts(g, lu)


@lowering("aten::lu_unpack")
def lu_unpack(
    g: Graph, LU_data: Value, LU_pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Value, Value, Value]:
    empty = g.full([0], 0, LU_data.dtype)
    permutation = _permutation(g, LU_pivots, LU_data.sizes[-2], LU_data.dtype) if unpack_pivots else empty
    return permutation, *(_parts(g, LU_data) if unpack_data else (empty, empty))


# --- systems of equations ---------------------------------------------------------------------------------------------


@lowering("aten::linalg_lu_solve")
def linalg_lu_solve(g: Graph, LU: Value, pivots: Value, B: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    if left:
        return _solution(g, LU, pivots, B, adjoint)
    return transposed(g, _solution(g, LU, pivots, transposed(g, B), not adjoint))


@lowering("aten::_linalg_solve_ex")
def linalg_solve_ex(
    g: Graph, A: Value, B: Value, *, left: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value, Value | None]:
    lu, pivots = _factors(g, A)
    is_vector = B.rank == 1 or (B.rank == A.rank - 1 and same_shape(B.sizes, A.sizes[:-1]))
    sides = standing(g, B) if is_vector else B if left else transposed(g, B)
    solution = _solution(g, lu, pivots, sides, adjoint=not left and not is_vector)
    if is_vector:
        solution = g.squeeze(solution, [solution.rank - 1])
    elif not left:
        solution = transposed(g, solution)
    return solution, lu, pivots, _info(g, lu) if g.is_used(3) else None


@lowering("aten::linalg_inv_ex")
def linalg_inv_ex(g: Graph, A: Value, check_errors: bool = False) -> tuple[Value, Value | None]:
    lu, pivots = _factors(g, A)
    # The identity matrix, swapped. To multiply by it, onnxruntime's MatMul has no kernel where the batch is empty.
    inverse = _of_swapped(g, lu, transposed(g, _permutation(g, pivots, A.sizes[-1], A.dtype)))
    return inverse, _info(g, lu) if g.is_used(1) else None


# --- determinants -----------------------------------------------------------------------------------------------------


def _signed_heads(g: Graph, lu: Value, pivots: Value) -> Value:
    """The diagonal of U, with the sign changed for each swap. Its product is the determinant."""
    heads = diagonal(g, lu)
    stays = g.equal(g.cast(pivots, torch.int64), g.op("Add", g.iota(pivots.sizes[-1]), 1))
    return g.where(stays, heads, g.op("Neg", heads))


@lowering("aten::_linalg_det")
def determinant(g: Graph, A: Value) -> tuple[Value, ...]:
    """The determinant, LU and pivots. onnxruntime has Det, which came with opset 11, in float32 only"""
    if not g.is_used(1) and not g.is_used(2) and g.has_kernel("Det", A.dtype):
        return (g.op("Det", A),)
    if no_elements(A):
        return g.full(g.out.shape, 1, A.dtype), A, g.full(A.sizes[:-1], 0, torch.int32)
    lu, pivots = _factors(g, A)
    return g.reduce("Prod", _signed_heads(g, lu, pivots), [A.rank - 2], False), lu, pivots


@lowering("aten::_linalg_slogdet")
def slogdet(g: Graph, A: Value) -> tuple[Value, ...]:
    """The sign of the determinant, the logarithm of its magnitude, LU and pivots"""
    if no_elements(A):
        ones, zeros = (g.full(g.out.shape, number, A.dtype) for number in (1, 0))
        return ones, zeros, A, g.full(A.sizes[:-1], 0, torch.int32)
    lu, pivots = _factors(g, A)
    heads = _signed_heads(g, lu, pivots)
    sign = g.reduce("Prod", g.sign(heads), [A.rank - 2], False)
    magnitude = g.reduce("Sum", g.op("Log", g.op("Abs", heads)), [A.rank - 2], False)
    return sign, magnitude, lu, pivots

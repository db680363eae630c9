"""Eigenvalues of symmetric matrices, singular values, and the pseudoinverse that is computed from them."""

from __future__ import annotations

import msgspec
import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.linear_algebra.loops.jacobi import diagonalized, orthogonalized
from onnx_parity.exporter.operators.linear_algebra.loops.matrix_loops import (
    diagonal,
    identity_matrix,
    lying,
    matrix_product,
    no_elements,
    smallest_side,
    sum_over,
    take_columns,
    transposed,
    triangle,
)
from onnx_parity.exporter.operators.linear_algebra.qr import orthogonal, reflections
from onnx_parity.exporter.registry.lowerings import lowering

# --- eigenvalues ------------------------------------------------------------------------------------------------------


@lowering("aten::_linalg_eigh")
def eigh(g: Graph, A: Value, UPLO: str = "L", compute_v: bool = True) -> tuple[Value, Value]:
    """The eigenvalues in ascending order, and the eigenvectors, as columns"""
    values, vectors = _eigen(g, A, UPLO, compute_v and g.is_used(1))
    return values, g.full([0], 0, A.dtype) if vectors is None else vectors


def _eigen(g: Graph, a: Value, triangle_used: str, with_vectors: bool) -> tuple[Value, Value | None]:
    """The same of symmetric matrices of which one triangle counts."""
    is_upper = triangle_used.upper() == "U"
    other = transposed(g, triangle(g, a, 1 if is_upper else -1, is_upper))
    whole = g.op("Add", triangle(g, a, 0, is_upper), other)
    values, vectors = diagonalized(g, whole, with_vectors)
    values, order = g.top_k(values, a.sizes[-1], values.rank - 1, largest=False)
    return values, None if vectors is None else take_columns(g, vectors, order)


# --- singular values --------------------------------------------------------------------------------------------------


def _identity(g: Graph, output: int, dtype: torch.dtype) -> Value:
    """Matrices of ones on the diagonal, of the sizes of an output"""
    shape = g.output(output).shape
    rows, columns = shape[-2:]
    return g.expand(identity_matrix(g, rows, columns, dtype), shape)


@lowering("aten::_linalg_svd")
def svd(
    g: Graph, A: Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Value, Value, Value]:
    """U, the singular values in descending order, and V.T. A wide matrix is transposed, which exchanges U and V"""
    if no_elements(A):
        return _identity(g, 0, A.dtype), g.full(g.output(1).shape, 0, A.dtype), _identity(g, 2, A.dtype)
    if not compute_uv or not (g.is_used(0) or g.is_used(2)):
        unused = g.full([0], 0, A.dtype)
        return unused, _Singular.values_of(g, A), unused
    is_wide = _is_wide(A)
    singular = _Singular.of(g, transposed(g, A) if is_wide else A)
    rows, side = (A.sizes[-1] if is_wide else A.sizes[-2]), smallest_side(A)
    u = singular.left(g, rows if full_matrices else side)
    v = singular.right if full_matrices else _first_columns(g, singular.right, side)
    return (v if is_wide else u), singular.values, transposed(g, u if is_wide else v)


def _is_wide(a: Value) -> bool:
    """Whether the matrices are known to have more columns than rows; their transposes have fewer pairs of columns."""
    rows, columns = a.sizes[-2:]
    return isinstance(rows, int) and isinstance(columns, int) and rows < columns


class _Singular(msgspec.Struct, frozen=True):
    """The singular values in descending order, in the same order the columns of A @ V divided by a scale, and V."""

    values: Value
    scale: Value
    products: Value
    right: Value

    @classmethod
    def of(cls, g: Graph, a: Value) -> _Singular:
        side = smallest_side(a)
        products, scale, right = orthogonalized(g, a, with_vectors=True)
        assert right is not None
        lengths = _lengths(g, products)
        lengths, order = g.top_k(lengths, a.sizes[-1], lengths.rank - 1, largest=True)
        if not same_size(side, a.sizes[-1]):
            lengths = shaped(g.slice(lengths, [lengths.rank - 1], [0], [side]), (*a.sizes[:-2], side))
        ordered = _first_columns(g, take_columns(g, products, order), side)
        return cls(_times_scale(g, lengths, scale), scale, ordered, take_columns(g, right, order))

    @staticmethod
    def values_of(g: Graph, a: Value) -> Value:
        """The singular values alone."""
        side = smallest_side(a)
        products, scale, _ = orthogonalized(g, transposed(g, a) if _is_wide(a) else a, with_vectors=False)
        lengths = _lengths(g, products)
        values, _ = g.top_k(lengths, side, lengths.rank - 1, largest=True)
        return _times_scale(g, values, scale)

    def left(self, g: Graph, columns: Size) -> Value:
        """The columns of U, and as many more as are asked for.

        They are orthonormal also where a singular value is 0: they are the Q of a QR decomposition of A @ V, whose R is
        diagonal.
        """
        r, vectors, taus = reflections(g, self.products)
        q = orthogonal(g, vectors, taus, columns)
        side = r.sizes[-1]
        heads = diagonal(g, shaped(g.slice(r, [r.rank - 2], [0], [side]), (*r.sizes[:-2], side, side)))
        is_turned = g.cast(g.less(heads, g.const(0, r.dtype)), r.dtype)
        signs = g.op("Sub", g.const(1, r.dtype), g.op("Mul", is_turned, 2))
        if not same_size(side, columns):
            signs = g.pad(signs, [0] * signs.rank, [*[0] * (signs.rank - 1), columns - side], value=1)
        return g.op("Mul", q, lying(g, signs))


def _lengths(g: Graph, a: Value) -> Value:
    """The lengths of the columns."""
    return g.op("Sqrt", sum_over(g, g.op("Mul", a, a), -2))


def _times_scale(g: Graph, vectors: Value, scale: Value) -> Value:
    return g.op("Mul", vectors, g.squeeze(scale, [scale.rank - 1]))


def _first_columns(g: Graph, a: Value, count: Size) -> Value:
    if same_size(a.sizes[-1], count):
        return a
    return shaped(g.slice(a, [a.rank - 1], [0], [count]), (*a.sizes[:-1], count))


# --- the pseudoinverse ------------------------------------------------------------------------------------------------


@lowering("aten::linalg_pinv.atol_rtol_tensor")
def pinv(
    g: Graph, self: Value, *, atol: Value | None = None, rtol: Value | None = None, hermitian: bool = False
) -> Value:
    """V @ diag(1 / s) @ U.T, without the singular values s up to max(atol, rtol * the largest)"""
    if hermitian:
        values, vectors = _eigen(g, self, "L", with_vectors=True)
        assert vectors is not None
        weights = _inverses(g, self, values, atol, rtol)
        return matrix_product(g, g.op("Mul", vectors, lying(g, weights)), transposed(g, vectors))
    is_wide = _is_wide(self)
    singular = _Singular.of(g, transposed(g, self) if is_wide else self)
    weights = _inverses(g, self, singular.values, atol, rtol)
    # Where s is not left out, a column of U is that of A @ V divided by s.
    over_scale = g.op("Mul", g.op("Mul", singular.products, lying(g, weights)), singular.scale)
    v = _first_columns(g, singular.right, smallest_side(self))
    inverse = matrix_product(g, g.op("Mul", v, lying(g, weights)), transposed(g, over_scale))
    return transposed(g, inverse) if is_wide else inverse


def _inverses(g: Graph, a: Value, values: Value, atol: Value | None, rtol: Value | None) -> Value:
    """1 / s, or 0 where the magnitude of s is at most the tolerance."""
    magnitudes = g.op("Abs", values)
    longest = torch.sym_max(*a.sizes[-2:])
    usual = g.op("Mul", g.scalar(longest, a.dtype), torch.finfo(a.dtype).eps)
    zero, one = g.const(0, a.dtype), g.const(1, a.dtype)
    if rtol is not None:
        relative = _per_matrix(g, rtol, a.dtype)
    elif atol is not None:
        relative = g.where(g.greater(_per_matrix(g, atol, a.dtype), zero), zero, usual)
    else:
        relative = usual
    tolerance = g.op("Mul", g.reduce("Max", magnitudes, [values.rank - 1], True), relative)
    if atol is not None:
        tolerance = g.extreme("Max", tolerance, _per_matrix(g, atol, a.dtype))
    is_kept = shaped(g.greater(magnitudes, tolerance), values.shape)
    inverses = g.op("Div", one, g.where(is_kept, values, one))
    return g.where(is_kept, inverses, zero)


def _per_matrix(g: Graph, number: Value, dtype: torch.dtype) -> Value:
    """A number for each matrix of a batch, as a vector of one element for each."""
    return g.unsqueeze(g.cast(number, dtype), [number.rank])

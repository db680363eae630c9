"""The Fourier transform along axes, one after the other, of real numbers or of the parts of complex ones.

Transforms are computed in float64: onnxruntime's DFT in float32 loses three digits where the length is not a power of
two, and one where it is. In float64 it loses digits too, in the inverse all but seven, where the length is none, and
where it is one, it has 1e-16 in place of zeros. So a transform of float64, and any where ONNX has no DFT, is a product
with a table of sines and cosines, and one of many points, n = p q, consists of transforms of p and of q points.
"""

from __future__ import annotations

import math

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.roots_of_unity import roots_of_unity
from onnx_parity.exporter.lowering.values.shapes import same_size, shaped
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry.lowerings import lowering

#: A table for more points than this is split, if the number of points has factors.
_MOST_POINTS = 64


@lowering("onnx_parity::dft")
def dft(g: Graph, real: Value, imag: Value | None, dims: list[int], inverse: bool, onesided: bool) -> Value:
    is_real = imag is None or (not inverse and imag.everywhere == 0)
    parts = [g.unsqueeze(each, [real.rank]) for each in ((real,) if is_real or imag is None else (real, imag))]
    pairs = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=real.rank)
    result = shaped(g.cast(pairs, torch.float64), (*real.sizes, len(parts)))
    for dim in dims:
        sizes = list(result.sizes)
        sizes[-1] = 2
        if onesided and dim == dims[0]:
            sizes[dim] = sizes[dim] // 2 + 1
        result = shaped(_along(g, result, dim, inverse, sizes, is_precise=real.dtype is torch.float64), sizes)
    return g.cast(result, real.dtype)


def _along(g: Graph, x: Value, dim: int, inverse: bool, sizes: list[Size], is_precise: bool) -> Value:
    """The transform along one axis, of which the result has as many elements as `sizes` says."""
    size = x.sizes[dim]
    is_power = isinstance(size, int) and size & (size - 1) == 0
    onesided = not same_size(size, sizes[dim])
    if not g.can_dft(torch.float64) or is_precise:
        return _by_tables(g, x, dim, inverse, sizes)
    if is_power or not inverse:
        return g.dft(x, dim, inverse=inverse, onesided=onesided)
    swapped = shaped(g.dft(_swapped(g, x), dim, onesided=onesided), sizes)
    return g.op("Div", _swapped(g, swapped), g.scalar(size, torch.float64))


def _swapped(g: Graph, pairs: Value) -> Value:
    """Imaginary parts first. The inverse transform of these is the transform, with its own parts swapped."""
    return shaped(g.op("Gather", pairs, g.const([1, 0]), axis_i=pairs.rank - 1), pairs.shape)


# --- without DFT ------------------------------------------------------------------------------------------------------


def _by_tables(g: Graph, x: Value, dim: int, inverse: bool, sizes: list[Size]) -> Value:
    """The axis is moved beside that of the parts, transformed, and moved back."""
    order = [*(axis for axis in range(x.rank - 1) if axis != dim), dim, x.rank - 1]
    moved = g.transpose(x, order)
    size = x.sizes[dim]
    sign = 1 if inverse else -1
    if isinstance(size, int):
        y = _transformed(g, moved, size, sign)
        y = y if same_size(size, sizes[dim]) else g.slice(y, [x.rank - 2], [0], [size // 2 + 1])
    else:
        y = _product(g, moved, size, sizes[dim], _table_at_run_time(g, size, sizes[dim], x, sign))
    back = g.transpose(shaped(y, tuple(sizes[axis] for axis in order)), [order.index(a) for a in range(x.rank)])
    return g.op("Div", back, g.scalar(size, x.dtype)) if inverse else back


def _transformed(g: Graph, x: Value, size: int, sign: int) -> Value:
    """The transform of the axis before the last, of a known number of points."""
    *batch, _, parts = x.sizes
    first = next(each for each in range(math.isqrt(size), 0, -1) if size % each == 0) if size > _MOST_POINTS else 1
    if first == 1:
        return _product(g, x, size, size, _table(g, size, int(parts), x.dtype, sign))
    other = size // first
    rank = len(batch) + 3
    before = list(range(len(batch)))
    # x[j1 * other + j2] as [j2, j1], transformed over j1, then multiplied by exp(sign * 2 pi i * j2 * k1 / size).
    grid = g.transpose(g.reshape(x, [*batch, first, other, parts]), [*before, rank - 2, rank - 3, rank - 1])
    inner = _transformed(g, grid, first, sign)
    turned = _turned(g, inner, sign * torch.outer(torch.arange(other), torch.arange(first)), size)
    outer = g.transpose(turned, [*before, rank - 2, rank - 3, rank - 1])
    result = _transformed(g, outer, other, sign)
    flat = g.transpose(result, [*before, rank - 2, rank - 3, rank - 1])
    return g.reshape(flat, [*batch, size, 2])


def _turned(g: Graph, pairs: Value, powers: torch.Tensor, size: int) -> Value:
    """Complex numbers multiplied by exp(2 pi i powers / size)."""
    real, imag = roots_of_unity(powers, size)
    cos, sin = (g.const(each.unsqueeze(-1), pairs.dtype) for each in (real, 0.0 - imag))
    both = g.const(torch.tensor([1.0, -1.0]), pairs.dtype)
    swapped = g.op("Mul", _swapped(g, pairs), both)
    return g.op("Add", g.op("Mul", pairs, cos), g.op("Mul", swapped, sin))


def _table(g: Graph, size: int, parts: int, dtype: torch.dtype, sign: int) -> Value:
    """The matrix [point and part, frequency and part] that a row of points is multiplied by."""
    points = torch.arange(size)
    cos, sin = roots_of_unity(sign * torch.outer(points, points), size)
    rows = [torch.stack([cos, sin], -1), torch.stack([0.0 - sin, cos], -1)][:parts]
    return g.const(torch.stack(rows, 1).reshape(parts * size, 2 * size), dtype)


def _table_at_run_time(g: Graph, size: Size, count: Size, x: Value, sign: int) -> Value:
    """The same for a number of points that is not known, with the same symmetry.

    The sine of a / n quarter turns is that of (n - |a + n mod 4 n - 2 n|) / n, which is between -1 and 1, and each row
    of the table has the sines of 4 j k and n (a cosine), 0 or 2 n (a negative sine) more.
    """
    parts = int(x.sizes[-1])
    more = [1, 0 if sign > 0 else 2, 2 if sign > 0 else 0, 1][: 2 * parts]
    n = g.scalar(size, torch.int64)
    quarters = g.op("Mul", g.along(size, 0, 1), 4)
    places = g.op("Add", quarters, g.op("Mul", g.const(torch.tensor(more).unsqueeze(1) + 1), n))
    beyond = g.op("Sub", g.remainder(places, g.op("Mul", n, 4)), g.op("Mul", n, 2))
    folded = g.cast(g.op("Sub", n, g.op("Abs", beyond)), x.dtype)
    turns = g.op("Mul", g.op("Div", folded, g.scalar(size, x.dtype)), math.pi / 2)
    sines = g.reshape(g.elementary("Sin", shaped(turns, (2 * parts, size))), [parts, 2, size])
    powers = g.remainder(g.op("Mul", g.along(size, 0, 2), g.along(count, 1, 2)), n)
    table = shaped(g.op("Gather", sines, powers, axis_i=2), (parts, 2, size, count))
    return g.reshape(g.transpose(table, [2, 0, 3, 1]), [parts * size, 2 * count])


def _product(g: Graph, x: Value, size: Size, count: Size, table: Value) -> Value:
    *batch, _, parts = x.sizes
    product = g.op("MatMul", g.reshape(x, [*batch, parts * size]), table)
    return g.reshape(shaped(product, (*batch, 2 * count)), [*batch, count, 2])

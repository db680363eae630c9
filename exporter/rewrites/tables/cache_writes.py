"""New tokens that are written into a cache of a fixed size, which TensorScatter does in place.

    Transpose(ScatterND(Transpose(cache), start + Range(0, n), Transpose(new)))  ->  TensorScatter(cache, new, start)

TensorScatter came with opset 24. ScatterND has to copy the cache twice where its tokens are not its first axis.
"""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import (
    axes_of,
    number_of,
    pairs_of,
    permutation_of,
    producer_of,
    sizes_of,
)
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, op

__all__ = ["CACHE_WRITES"]


class _Found(msgspec.Struct, frozen=True):
    cache: ir.Value
    new: ir.Value | Op
    #: The position of the first new token; None for 0.
    start: ir.Value | None
    axis: int
    batch: int | str


def _find_write(node: ir.Node, _walk: Walk) -> _Found | NoMatch:
    scatter = producer_of(node.inputs[0], "ScatterND")
    moved = producer_of(scatter.inputs[0], "Transpose") if scatter is not None else None
    if scatter is None or moved is None or "reduction" in scatter.attributes:
        return NoMatch("it does not move back the axes of a tensor that was written to")
    order, back = permutation_of(moved), permutation_of(node)
    cache = moved.inputs[0]
    sizes = sizes_of(cache)
    if (
        order is None
        or back is None
        or sizes is None
        or cache is None
        or [order[axis] for axis in back] != sorted(order)
    ):
        return NoMatch("it does not move the axes back to where they were")
    (axis, *others) = order
    if not axis or others != sorted(others):
        return NoMatch("it moves other axes than that of the tokens")
    start = _start_of(scatter.inputs[1])
    if isinstance(start, NoMatch):
        return start
    return _Found(cache, _moved_back(scatter.inputs[2], back, sizes), start, axis, sizes[0])


def _start_of(positions: ir.Value | None) -> ir.Value | NoMatch | None:
    """The first of positions that follow each other, which are rows of an index."""
    column = producer_of(positions, "Unsqueeze")
    if column is None or axes_of(column) not in ([1], [-1]):
        return NoMatch("what it writes to is no list of positions")
    shifted = producer_of(column.inputs[0], "Add")
    pairs = [(None, column.inputs[0])] if shifted is None else [*pairs_of(shifted)]
    for start, counted in pairs:
        count = producer_of(counted, "Range")
        if count is None or number_of(count.inputs[0]) != 0 or number_of(count.inputs[2]) != 1:
            continue
        if start is None or (sizes_of(start) == () and start.dtype is ir.DataType.INT64):
            return start
    return NoMatch("the positions are not known to follow each other")


def _moved_back(new: ir.Value | None, back: list[int], sizes: tuple[int | str, ...]) -> ir.Value | Op:
    """The new tokens with their axes as those of the cache."""
    assert new is not None
    transpose = producer_of(new, "Transpose")
    if transpose is not None and transpose.inputs[0] is not None:
        order = permutation_of(transpose)
        if order is not None and [order[axis] for axis in back] == sorted(order):
            return transpose.inputs[0]
    moved = sizes_of(new)
    return op("Transpose", new, perm=back, sizes=None if moved is None else [moved[axis] for axis in back])


def _write(node: ir.Node, found: _Found, walk: Walk) -> Op:
    if found.start is None:
        return op("TensorScatter", found.cache, found.new, axis=found.axis)
    size: ir.Value | Op
    if isinstance(found.batch, int):
        size = walk.constants.vector([found.batch], node)
    else:
        size = op("Shape", found.cache, start=0, end=1, sizes=[1], dtype=ir.DataType.INT64)
    starts = op("Expand", found.start, size, sizes=[found.batch])
    return op("TensorScatter", found.cache, found.new, starts, axis=found.axis)


CACHE_WRITES = (
    Rewrite(name="tokens written into a cache", at=("Transpose",), since=24, find=_find_write, write=_write),
)

"""Sums of a tensor and two constants, which are added to each other when the model is written.

    (x + a) + b  ->  x + (a + b)

Examples are BERT's embeddings of positions and of token types, where the example fixes both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as ir

from onnx_parity.exporter.rewrites.engine.matching import (
    is_learned,
    is_read_by_one,
    known_tensor,
    pairs_of,
    producer_of,
    sizes_of,
)
from onnx_parity.exporter.rewrites.engine.rewriter import NoMatch, Op, Rewrite, Walk, first_match, op

__all__ = ["SUMS_OF_CONSTANTS"]

#: Halves would be rounded otherwise by more than their users may expect.
_DTYPES = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def _find_sum(total: ir.Node, walk: Walk) -> tuple[ir.Value, ir.Value, ir.Value] | NoMatch:
    """The tensor and the constants.

    1. One of the constants has the shape of both together, and nothing else reads it: the model becomes no larger.
    2. One of them at least depends on parameters. Others may be there to round: what a program adds and takes away.
    """
    if walk.keeps_weights:
        return NoMatch("weights stay in their files")
    if total.outputs[0].dtype not in _DTYPES:
        return NoMatch("sums of the dtype are rounded too much")
    return first_match(_sums(total, walk.once(_made_sums)), "it has not two inputs")


def _made_sums(_walk: Walk) -> dict[ir.Value, bool]:
    """The sums of constants that this walk has added, which are folded after it, and whether they are learned."""
    return {}


def _sums(total: ir.Node, made: Mapping[ir.Value, bool]) -> Iterator[tuple[ir.Value, ir.Value, ir.Value] | NoMatch]:
    for inner, b in pairs_of(total):
        before = producer_of(inner, "Add")
        if before is None or before.graph is not total.graph or not is_read_by_one(before):
            yield NoMatch("it adds to no sum that is read here alone")
            continue
        for x, a in pairs_of(before):
            larger = _larger_of(a, b, made)
            if larger is None or _is_learned(x, made) is not None:
                yield NoMatch("it does not add two constants of which one is learned and as large as both together")
            elif len(larger.uses()) > 1:
                yield NoMatch("the larger constant is read elsewhere too")
            else:
                yield x, a, b


def _larger_of(a: ir.Value, b: ir.Value, made: Mapping[ir.Value, bool]) -> ir.Value | None:
    """Which of two constants, of which one is learned, has the shape of both together; None if neither has."""
    are_learned = [_is_learned(value, made) for value in (a, b)]
    if None in are_learned or True not in are_learned or a.shape is None or b.shape is None:
        return None
    shapes = tuple(a.shape.numpy()), tuple(b.shape.numpy())
    # torch.broadcast_shapes imports sympy, for half a second.
    whole = np.broadcast_shapes(*shapes)
    return a if shapes[0] == whole else b if shapes[1] == whole else None


def _is_learned(value: ir.Value, made: Mapping[ir.Value, bool]) -> bool | None:
    """Whether a constant depends on parameters; None for a value that is no constant."""
    tensor = known_tensor(value)
    return made.get(value) if tensor is None else is_learned(tensor)


def _add_constants_first(total: ir.Node, found: tuple[ir.Value, ir.Value, ir.Value], walk: Walk) -> Op:
    x, a, b = found
    made = walk.once(_made_sums)
    constants = walk.add(op("Add", a, b, sizes=sizes_of(_larger_of(a, b, made))), total)
    made[constants] = True
    return op("Add", x, constants)


SUMS_OF_CONSTANTS = (
    Rewrite(name="sum of a tensor and two constants", at=("Add",), find=_find_sum, write=_add_constants_first),
)

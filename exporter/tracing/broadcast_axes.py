"""Dynamic axes that are broadcast together and equal in the example, and what the program does where one of them is 1.

    def program(x, y):  # x is of rows x 4, and y is of others x 4
        z = x + y
        return z * z.shape[0]

torch takes two sizes as equal that are equal in the example, so that `z.shape[0]` is `rows`, although it is `others`
where there is one row. ONNX broadcasts by itself. So the program is recorded with each of two such sizes being 1, and
they are assumed to be equal if anything else is computed then, or if another operator reads a tensor that has another
shape then: what is written for it may need the shape, and onnxruntime gives two tensors of the same shape in the model
one memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx_parity.exporter.expressions.expression import Expression, Symbol
from onnx_parity.exporter.sizes.answers import Answer
from onnx_parity.exporter.tracing.attempt import FailedThere
from onnx_parity.exporter.tracing.branches_on_sizes import ComparisonAt, NotRecorded, Recording, by_axis
from onnx_parity.exporter.tracing.traced import Traced

__all__ = ["axes_that_have_to_be_equal"]

#: How often a program is recorded again. Further sizes are assumed to be equal.
_MOST_RECORDINGS = 16
#: The sizes of an axis that are looked through for one at which a size that is computed from it is 1.
_SIZES = range(64)


def axes_that_have_to_be_equal(recorded: Traced, again: Recording) -> list[Answer]:
    """The answers of torch's that two dynamic sizes are equal without which the recording is not right."""
    mattering, seen, left = [], set(), _MOST_RECORDINGS
    for known in recorded.equalities:
        sides = frozenset(known.holding.args)
        if sides in seen:
            continue
        seen.add(sides)
        for sizes in _sizes_with_one(known.holding, recorded):
            left -= 1
            if left < 0 or not _is_right_with(sizes, recorded, again):
                mattering.append(known)
                break
    return mattering


def _sizes_with_one(equality: Expression, recorded: Traced) -> Iterator[dict[Symbol, int]]:
    """The sizes of the recording with one of the equal sizes at 1, and not the other."""
    for side in equality.args:
        for symbol in side.free_symbols if len(side.free_symbols) == 1 else ():
            tried = ({**recorded.sizes, symbol: size} for size in ((1,) if side == symbol else _SIZES))
            found = [each for each in tried if side.at(each) == 1 and not equality.holds_at(each)]
            yield from found[:1]


def _is_right_with(sizes: dict[Symbol, int], recorded: Traced, again: Recording) -> bool:
    """Whether a model that broadcasts by itself computes the same with these sizes, or the program fails with them."""
    try:
        other = again(sizes=by_axis(sizes, recorded))
    except FailedThere:
        return True
    except NotRecorded:
        return False
    return other is None or _Broadcasting(sizes).same_but_for_broadcasting(recorded, other)


class _Broadcasting(ComparisonAt):
    """A comparison in which results may be of other shapes, as long as no operator reads them."""

    def same_but_for_broadcasting(self, recorded: Traced, other: Traced) -> bool:
        if not self.compute_the_same(recorded, other) or not self.same_structure(recorded, other):
            return False
        unlike = {one for one, another in self.pairs.items() if not self.same_shapes([one], [another])}
        return all(unlike.isdisjoint(node.inputs()) for node in recorded.graph.live_nodes())

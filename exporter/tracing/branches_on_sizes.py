"""Branches on dynamic sizes, of a program and of torch, and whether what was recorded is right for other sizes too.

The program is recorded again, as it would run on the other side of a branch. The branch does not matter if

1. the recording with the other answer is the same: `is_causal = length > 1 and mask is None`, where there is a mask; if
   the question was whether a size is one number, they only have to be the same for this number;
2. the question was whether a tensor is empty, and for each size that can make it so, the recording where this size is 0
   is the same; or all outputs are empty then, and of the same shapes; or the program itself fails then;
3. the program raises an error on the other side at once: `if height % 8: raise ValueError`, or torch's own check that a
   kernel is no larger than an image.

On the other side the program may ask more: the second half of `height > 2 and width > 2` where the first does not hold
in the example. What it asks there is denied too, as is every combination of questions that alone do not matter.

Where a branch matters, the program may still be right for all sizes as it runs on the other side: `if padded: crop`
crops nothing where nothing is padded. Then that is what is exported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from onnx_parity.exporter.expressions.conditions import Comparison, Equal, GreaterOrEqual, Less, Not, Unequal
from onnx_parity.exporter.expressions.expression import Condition, Expression, Symbol
from onnx_parity.exporter.expressions.solving import follows_from
from onnx_parity.exporter.graph.block_primitives import IF, LOOP, SCAN
from onnx_parity.exporter.graph.correspondence import Correspondence
from onnx_parity.exporter.graph.graph import Graph, Origin, Varying, operator_name, same_shape
from onnx_parity.exporter.graph.numbering import Numbering
from onnx_parity.exporter.sizes.answers import Answer
from onnx_parity.exporter.sizes.branch_sizes import find_sizes
from onnx_parity.exporter.tracing.attempt import FailedThere

if TYPE_CHECKING:
    from onnx_parity.exporter.recording.fakes.input_layouts import InputLayout
    from onnx_parity.exporter.tracing.traced import Traced

__all__ = [
    "ComparisonAt",
    "NotRecorded",
    "Recording",
    "are_the_same",
    "branches_that_matter",
    "by_axis",
    "compute_the_same",
    "on_the_other_side",
    "returns_other_shapes",
]


class NotRecorded(Exception):
    """Another side of the program cannot be recorded, although it may run."""


#: Operators that choose one of the elements along an axis, and those that do so without an axis too.
_CHOOSING = frozenset(f"aten::{name}" for name in ("kthvalue", "max", "median", "min", "mode", "nanmedian"))
_ALWAYS_CHOOSING = frozenset({"aten::argmax", "aten::argmin"})


class Recording(Protocol):
    """Records the program once more: with the other answers to some questions, with an empty axis, with other sizes, or
    with inputs that lie otherwise in memory.

    Returns None if the program fails, raises FailedThere if it does so at once because it is denied, and NotRecorded if
    it cannot be recorded.
    """

    def __call__(
        self,
        *,
        denied: frozenset[Expression] = ...,
        empty: str | None = None,
        sizes: Mapping[str, int] = ...,
        layouts: Mapping[int, InputLayout] = ...,
        turned: frozenset[int] = ...,
    ) -> Traced | None: ...


#: The most branches that matter for one of their other sides to be looked at.
_MOST_SIDES = 4
#: How often a program is recorded again. One that asks more is not one that can be right for all sizes.
_MOST_RECORDINGS = 16


def branches_that_matter(recorded: Traced, again: Recording) -> list[Answer]:
    """The branches of a recording on dynamic sizes, without those whose other side is right too."""
    questions = {each.expression for each in recorded.branches if each.by_user}
    if len(questions) > _MOST_RECORDINGS:
        mattering = questions
    else:
        mattering = {each for each in questions if _emptying(each) and not _is_right_if_empty(each, recorded, again)}
        mattering |= _that_matter_together({each for each in questions if not _emptying(each)}, recorded, again)
    # What torch does where one of the program's own branches is another one follows from that.
    where = [each.holding for each in recorded.branches if each.expression in mattering]
    mattering |= _that_matter_to_torch([each for each in recorded.branches if not each.by_user], where, recorded, again)
    return _without_implied([each for each in recorded.branches if each.expression in mattering])


def _without_implied(branches: Sequence[Answer]) -> list[Answer]:
    """The branches without those whose answers follow from that of another one."""
    left = list(branches)
    for branch in branches:
        others = [each for each in left if each.expression != branch.expression]
        if len(others) < len(left) and any(follows_from(branch.holding, [each.holding]) for each in others):
            left = others
    return left


def on_the_other_side(recorded: Traced, mattering: Sequence[Answer], again: Recording) -> Traced | None:
    """The recording on the other side of a branch that matters, if it is right on both sides."""
    questions = list(dict.fromkeys(each.expression for each in mattering if each.by_user))
    if len(questions) > _MOST_SIDES or len(questions) < len({each.expression for each in mattering}):
        return None
    for question in questions:
        if _emptying(question) or _sizes_where([question]):
            continue  # The other side is for one size only.
        side = frozenset([question])
        try:
            other = again(denied=side)
        except (FailedThere, NotRecorded):
            continue
        # What is empty is looked at as the example runs, which is on this side.
        is_plain = other is not None and not any(each.by_user and _emptying(each.expression) for each in other.branches)
        if other is not None and is_plain and not other.reads and other.text is None and other.has_denied:
            other.branches = [*other.branches, *_denied_in(other)]
            if not branches_that_matter(other, _SeenFromThere(side, recorded, again)):
                return other
    return None


def returns_other_shapes(graph: Graph) -> bool:
    """Whether the sides of a branch return other shapes than each other, as ONNX's If does from opset 11 on."""
    for node in graph.all_live_nodes():
        if node.op is IF:
            sides = zip(node.arguments["then"].outputs, node.arguments["orelse"].outputs, strict=True)
            if not all(same_shape(one.shape, other.shape) for one, other in sides):
                return True
    return False


def _denied_in(recorded: Traced) -> list[Answer]:
    """The questions that were denied in a recording, with the answers that they have there."""
    return [
        Answer(each, not each.holds_at(recorded.sizes), Origin("", 0), by_user=True)
        for each in recorded.denied
        if each.free_symbols <= recorded.sizes.keys()
    ]


class _SeenFromThere:
    """Recordings as they are seen from the other side of a branch, where the answers of the example are the others."""

    def __init__(self, side: frozenset[Expression], recorded: Traced, again: Recording) -> None:
        self._side, self._again = side, again
        self._recorded = msgspec.structs.replace(recorded, has_denied=True)

    def __call__(
        self,
        *,
        denied: frozenset[Expression] = frozenset(),
        empty: str | None = None,
        sizes: Mapping[str, int] = {},
        layouts: Mapping[int, InputLayout] = {},
        turned: frozenset[int] = frozenset(),
    ) -> Traced | None:
        if empty is not None or sizes:
            return self._again(empty=empty, sizes=sizes)
        return self._again(denied=denied ^ self._side) if denied != self._side else self._recorded


def _that_matter_together(questions: set[Expression], recorded: Traced, again: Recording) -> set[Expression]:
    """Those of the questions that have other answers in a recording that is not the same."""
    asked = {each.expression for each in recorded.branches}
    mattering: set[Expression] = set()
    waiting = deque(frozenset([each]) for each in sorted(questions, key=str))
    seen = set(waiting)
    left = _MOST_RECORDINGS
    while waiting:
        denied = waiting.popleft()
        numbers = _sizes_where(denied)
        if denied & mattering or numbers is None:
            continue
        further = None if not left else _asked_where(denied, numbers, recorded, again)
        left -= bool(left)
        if further is None:
            mattering |= denied & questions
            continue
        # Questions of the recording about empty tensors are looked at by themselves.
        found = {denied | {each} for each in further if not (each in asked and _emptying(each))} - seen
        waiting.extend(sorted(found, key=str))
        seen |= found
    return mattering


def _asked_where(
    denied: frozenset[Expression], numbers: Mapping[Expression, int], recorded: Traced, again: Recording
) -> list[Expression] | None:
    """What the program asks where these questions have the other answers; None if it computes something else there."""
    try:
        other = again(denied=denied)
    except FailedThere:
        return []
    except NotRecorded:
        return None
    if other is None:
        return [] if _fails_where(denied, recorded, again) else None
    # A question that torch asks, and not the program, keeps its answer.
    if len(denied) == 1 and not other.has_denied:
        return None
    asked = [each for each in other.branches if each.by_user]
    if not all(isinstance(each.expression, Condition) for each in asked):
        return None
    is_same = ComparisonAt(numbers, [each.holding for each in (*asked, *_denied_in(other))]).same(recorded, other)
    return [each.expression for each in asked] if is_same else None


def _fails_where(denied: frozenset[Expression], recorded: Traced, again: Recording) -> bool:
    """Whether the program fails with sizes with which these questions have the other answers. With the example's, it
    may have failed because of these: `if x.shape == y.shape: x = torch.stack([x, y])`."""
    wanted = [Not.of(each) if each.holds_at(recorded.sizes) else each for each in denied]
    found = find_sizes(recorded.sizes, wanted)
    if not _all_hold(wanted, found):
        return False
    try:
        return again(sizes=by_axis(found, recorded)) is None
    except FailedThere:
        return True
    except NotRecorded:
        return False


def by_axis(sizes: Mapping[Symbol, int], recorded: Traced) -> dict[str, int]:
    """Sizes by the names of their axes."""
    names = recorded.graph.axis_names
    return {names[str(symbol)]: size for symbol, size in sizes.items() if str(symbol) in names}


def _that_matter_to_torch(
    branches: Sequence[Answer], where: Sequence[Expression], recorded: Traced, again: Recording
) -> set[Expression]:
    """The questions of torch that have other answers for sizes with which something else is recorded, although these
    conditions hold.

    Those that have the same answer wherever the program does not fail do not matter.
    """
    mattering: set[Expression] = set()
    waiting = deque(branches)
    left = _MOST_RECORDINGS
    while waiting:
        branch = waiting.popleft()
        others = _sizes_denying(branch, where, recorded)
        if not others:
            continue
        if left < len(others):
            mattering.add(branch.expression)
            continue
        left -= len(others)
        for sizes in others:
            if not _is_same_with(sizes, recorded, again):
                mattering.add(branch.expression)
                break
            # What has been answered otherwise in the same recording makes no difference either.
            waiting = deque(each for each in waiting if not _all_hold([Not.of(each.holding)], sizes))
    return mattering


def _sizes_denying(branch: Answer, where: Sequence[Expression], recorded: Traced) -> list[dict[Symbol, int]]:
    """Sizes with which a question has the other answer, and these conditions hold: as few of them changed as possible,
    and all that were equal changed to the same, since the program may need them to be. None if none are found."""
    wanted = [Not.of(branch.holding), *where]
    found = find_sizes(recorded.sizes, wanted)
    if not _all_hold(wanted, found):
        return []
    new = {recorded.sizes[symbol]: size for symbol, size in found.items() if size != recorded.sizes[symbol]}
    equal = {symbol: new.get(size, size) for symbol, size in recorded.sizes.items()}
    return [found] if equal == found or not _all_hold(wanted, equal) else [found, equal]


def _all_hold(conditions: Iterable[Expression], sizes: Mapping[Symbol, int]) -> bool:
    return all(each.free_symbols <= sizes.keys() and each.holds_at(sizes) for each in conditions)


def _is_same_with(sizes: Mapping[Symbol, int], recorded: Traced, again: Recording) -> bool:
    """Whether the same is recorded with these sizes, or the program fails with them."""
    try:
        other = again(sizes=by_axis(sizes, recorded))
    except NotRecorded:
        return False
    return other is None or ComparisonAt({}).same(recorded, other) or ComparisonAt(sizes).same(recorded, other)


def _sizes_where(denied: Iterable[Expression]) -> dict[Expression, int] | None:
    """The sizes for which alone the other answers are right, if the questions were whether a size is one number. None
    if that would be two numbers."""
    numbers: dict[Expression, int] = {}
    for question in denied:
        is_equality = isinstance(question, Equal | Unequal)
        if is_equality and question.args[0].is_Symbol and question.args[1].is_Integer:
            symbol, number = question.args[0], int(question.args[1])  # type: ignore[call-overload]
            if numbers.setdefault(symbol, number) != number:
                return None
    return numbers


def _emptying(question: Expression) -> list[Expression]:
    """For the question whether a tensor is empty, a product of sizes is 0: the sizes that can make it so."""
    if not isinstance(question, Comparison):
        return []
    product, limit = question.args
    if limit != (1 if isinstance(question, GreaterOrEqual | Less) else 0):
        return []
    factors = list(dict.fromkeys(product.factors()[1]))
    return factors if all(factor.is_Symbol for factor in factors) else []


def _is_right_if_empty(question: Expression, recorded: Traced, again: Recording) -> bool:
    return all(_is_right_without(symbol, question, recorded, again) for symbol in _emptying(question))


def _is_right_without(symbol: Expression, question: Expression, recorded: Traced, again: Recording) -> bool:
    """Whether a recording is right where a size is 0, although the program has another answer to the question there."""
    axis = recorded.graph.axis_names.get(str(symbol))
    if axis is None:
        return False
    try:
        other = again(empty=axis)
    except NotRecorded:
        return False
    if other is None:
        return True
    if not {each.expression for each in other.branches} <= {each.expression for each in recorded.branches}:
        return False
    comparison = ComparisonAt({symbol: 0})
    if comparison.all_empty(recorded.graph):
        is_same = comparison.same_form(recorded, other) and not comparison.stacks_nothing(recorded.graph)
        is_same = is_same and not comparison.chooses_from_nothing(recorded.graph)
        return is_same and _runs_as_recorded(axis, question, again)
    return comparison.same(recorded, other)


def _runs_as_recorded(axis: str, question: Expression, again: Recording) -> bool:
    """Whether the program runs with an empty axis as it does in the example: `x[:, 0]` does not, for one."""
    try:
        return again(denied=frozenset([question]), sizes={axis: 0}) is not None
    except (FailedThere, NotRecorded):
        return False


def compute_the_same(one: Traced, other: Traced) -> bool:
    """Whether two recordings compute the same for all sizes."""
    return ComparisonAt({}).same(one, other)


def are_the_same(one: Traced, other: Traced) -> bool:
    """The same, with writes in place and copies in any order, or by other views."""
    if compute_the_same(one, other):
        return True
    numbering = Numbering()
    is_of_one_form = ComparisonAt({}).same_form(one, other)
    return is_of_one_form and numbering.of_outputs(one.graph) == numbering.of_outputs(other.graph)


class ComparisonAt(Correspondence):
    """The comparison of two recordings where some sizes have these values."""

    def same(self, recorded: Traced, another: Traced) -> bool:
        """Whether they compute the same."""
        is_same = self.compute_the_same(recorded, another) and self.same_form(recorded, another)
        return is_same and not self._has_dropped_axes()

    def _has_dropped_axes(self) -> bool:
        """Whether a result has fewer axes than in the other recording, as that of `squeeze` for an axis of 1: the
        model would drop the axis whatever its size."""
        return any(len(mine.shape) < len(theirs.shape) for mine, theirs in self.pairs.items())

    def compute_the_same(self, recorded: Traced, another: Traced) -> bool:
        """Whether their operators do the same, of which results may have other shapes."""
        one, other = recorded.graph, another.graph
        self.pairs = {a.value: b.value for a, b in zip(one.inputs, other.inputs, strict=True)}
        return self.same_nodes(one.live_nodes(), other.live_nodes()) and self.same_value(one.outputs, other.outputs)

    def same_form(self, recorded: Traced, another: Traced) -> bool:
        """Whether they return the same structure, with outputs of the same names, dtypes and shapes."""
        outputs, others = recorded.graph.outputs, another.graph.outputs
        return self.same_structure(recorded, another) and self.same_shapes(outputs, others)

    def same_structure(self, recorded: Traced, another: Traced) -> bool:
        """Whether they return the same structure, with outputs of the same names and dtypes."""
        one, other = recorded.returned, another.returned
        outputs, others = recorded.graph.outputs, another.graph.outputs
        return (
            (one.spec, one.names) == (other.spec, other.names)
            and [each.dtype for each in outputs] == [each.dtype for each in others]
            and self.same_value(one.plain, other.plain)
        )

    def stacks_nothing(self, graph: Graph) -> bool:
        """Whether a loop stacks tensors of dynamic sizes in no iteration: runtimes do not know these sizes then."""
        loops = [node for node in graph.live_nodes() if node.op in (LOOP, SCAN)]
        stacked = [each.shape for node in loops for each in node.outputs if each is not None and each.shape]
        return any(self.plain(size) == 0 and any(isinstance(each, Varying) for each in rest) for size, *rest in stacked)

    def chooses_from_nothing(self, graph: Graph) -> bool:
        """Whether an operator chooses an element along an axis of none, which it refuses, be its result empty or not:
        torch is not asked whether it does, because the program says that there are some."""
        for node in graph.live_nodes():
            name, dim = operator_name(node.op), node.arguments.get("dim")
            if name in _ALWAYS_CHOOSING or (name in _CHOOSING and dim is not None):
                shape = next(node.inputs()).shape
                if any(self.plain(size) == 0 for size in (shape if dim is None or not shape else [shape[dim]])):
                    return True
        return False

    def all_empty(self, graph: Graph) -> bool:
        """Whether all outputs are empty."""
        return all(any(self.plain(size) == 0 for size in output.shape) for output in graph.outputs)

"""Branches of a recording. Each is one node with a `Block` for each of its two bodies.

Bodies are recorded separately, and may use values of the surrounding graph. Each body gets its own tensors in place of
those that it may write to; the new values are outputs of the node and are copied back afterwards.

A *leaf* is a tensor, a Python number, or None. A leaf that differs between two branches is an output of the block; any
other leaf is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.dispatch.gradients import refuse_to_differentiate
from onnx_parity.exporter.expressions.conditions import And, Equal, LessOrEqual, Not, Or
from onnx_parity.exporter.expressions.expression import Expression, Number
from onnx_parity.exporter.expressions.integers_and_reals import Choice, Max, Min, Mod
from onnx_parity.exporter.graph.block_primitives import IF
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import Block, Holds, Node, Size, Value, same_size
from onnx_parity.exporter.recording.leaves import Leaf, Leaves, same_leaf, share_memory
from onnx_parity.exporter.sizes.size_node import expression_of_size
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = ["SEEN_TWICE", "Branches"]

asks_for_its_caller(__file__)

SEEN_TWICE = (
    "a branch or loop writes in place to a tensor that also has another name, or a view, outside of it: write to a "
    "clone of it"
)


class _Shared(msgspec.Struct, frozen=True):
    """A reference to one of the tensors that a block shares with the code around it."""

    place: int


class _Side(msgspec.Struct, frozen=True):
    """One recorded body of a branch."""

    #: Copies of the shared tensors for this body.
    own: Sequence[torch.Tensor]
    nodes: list[Node]
    #: The returned leaves followed by the shared tensors at the end of the body; then the same as recorded tensors.
    leaves: Sequence[Leaf]
    settled: Sequence[Leaf]


class Branches(Leaves):
    """Records branches into the graph of a recorder."""

    def branch(
        self,
        condition: torch.Tensor,
        then: Callable[[Sequence[torch.Tensor]], Any],
        orelse: Callable[[Sequence[torch.Tensor]], Any],
        shared: Sequence[torch.Tensor] = (),
        flatten: Callable[[Any, Any], Callable[[Any], Sequence[Leaf]]] | None = None,
    ) -> list[Leaf]:
        """Record both bodies of a branch. Returns the leaves of the result.

        The `shared` tensors are passed to both bodies, and writes of a body to them are copied back afterwards.
        `flatten` is called with both results, and returns the function that splits either into leaves.
        """
        asked = self.recorder.value_of(self.take(condition))
        of_sizes = self.of_sizes(condition)
        inner = self.settled(shared)
        sides = self._sides((then, orelse), inner, flatten, of_sizes)
        counts = [len(side.settled) - len(shared) for side in sides]
        if counts[0] != counts[1]:
            raise self.error(
                f"one branch returns {counts[0]} values and the other {counts[1]}: return the same number from both"
            )
        results = self._joined(asked, of_sizes, sides, shared)
        self._write(shared, inner, results[counts[0] :])
        return results[: counts[0]]

    def join(self, condition: FakeTensor, sides: Sequence[tuple[list[Node], Sequence[Leaf]]]) -> list[Leaf]:
        """Record a branch whose bodies have been recorded, each with its results, of which both have as many."""
        both = [_Side([], nodes, leaves, leaves) for nodes, leaves in sides]
        return self._joined(self.recorder.value_of(condition), self.of_sizes(condition), both)

    def _joined(
        self, asked: Value, of_sizes: Expression | None, sides: Sequence[_Side], shared: Sequence[torch.Tensor] = ()
    ) -> list[Leaf]:
        """Record a branch with these bodies. Returns the leaves of the result."""
        taken = 0 if of_sizes is None else self._taken(of_sizes)
        results: list[Leaf] = []
        made: list[FakeTensor] = []
        ends: list[tuple[FakeTensor, FakeTensor]] = []
        given: list[Leaf] = [*shared]
        for place, (original, leaves) in enumerate(
            zip(sides[0].leaves, zip(*(side.settled for side in sides), strict=True), strict=True)
        ):
            if same_leaf(*leaves):
                results.append(shared[leaves[0].place] if isinstance(leaves[0], _Shared) else original)
                continue
            if of_sizes is not None and (either := self._either(of_sizes, *leaves)) is not None:
                results.append(either)
                continue
            ends.append(self._as_tensors(sides, leaves))
            given += [side.leaves[place] for side in sides]
            layouts = [self._laid_out(side, place, end) for side, end in zip(sides, ends[-1], strict=True)]
            made.append(self._merged(ends[-1][taken], ends[-1][1 - taken], layouts, _said(of_sizes, taken)))
            results.append(self.give(made[-1]))
        self._refuse_derivative("a branch", made, given)
        if made:
            values = [[self.recorder.value_of(end[number]) for end in ends] for number in (0, 1)]
            blocks = [Block([], side.nodes, outputs) for side, outputs in zip(sides, values, strict=True)]
            self.recorder.add(IF, {"condition": asked, "then": blocks[0], "orelse": blocks[1]}, made)
        return results

    def _refuse_derivative(self, what: str, made: Sequence[FakeTensor], given: Sequence[Leaf]) -> None:
        """Refuse what autograd does not see, if the program asks for gradients through it: the results of a block are
        tensors without a history."""
        if any(each.dtype.is_floating_point or each.dtype.is_complex for each in made):
            refuse_to_differentiate(what, given)

    def _sides(
        self,
        bodies: Sequence[Callable[[Sequence[torch.Tensor]], Any]],
        inner: Sequence[Leaf],
        flatten: Callable[[Any, Any], Callable[[Any], Sequence[Leaf]]] | None,
        of_sizes: Expression | None,
    ) -> list[_Side]:
        """Record both bodies of a branch, each into its own list of nodes, and split their results into leaves."""
        ran: list[tuple[Any, list[torch.Tensor], list[Node]]] = []
        for body, holds in zip(bodies, (of_sizes, None if of_sizes is None else Not.of(of_sizes)), strict=True):
            with self.recorder.block() as nodes, self.where(holds):
                own = [self.give(tensor) for tensor in inner]
                ran.append((body(own), own, nodes))
        taken_apart = flatten(ran[0][0], ran[1][0]) if flatten is not None else list
        sides: list[_Side] = []
        for result, own, nodes in ran:
            with self.recorder.block(nodes):
                # A body may return a shared tensor itself. The result is then that tensor, and not a copy of it.
                places = {id(tensor): _Shared(place) for place, tensor in enumerate(own)}
                leaves = [places.get(id(leaf), leaf) for leaf in taken_apart(result)] + own
                sides.append(_Side(own, nodes, leaves, self.settled(leaves)))
        return sides

    @contextmanager
    def where(self, condition: Expression | None) -> Iterator[None]:
        """A side of a branch, where a condition on sizes holds. Without a condition, nothing is known."""
        symbols = self.recorder.fakes.symbols
        if symbols is None:
            yield
        elif condition is None:
            with symbols.apart():
                yield
        else:
            with symbols.apart(), self.recorder.memo.separate(), symbols.where(condition):
                yield

    def _taken(self, condition: Expression) -> int:
        """The number of the branch that the example takes, for a condition on sizes."""
        symbols = self.recorder.fakes.symbols
        return 0 if symbols is None or symbols.holds_in_example(condition) else 1

    def _either(self, condition: Expression, one: Leaf, other: Leaf) -> Leaf:
        """A condition on sizes, or a number that is computed from them, that is one where another condition holds, and
        else the other. None if they are something else."""
        symbols = self.recorder.fakes.symbols
        if symbols is not None and all(type(each) in (int, torch.SymInt) for each in (one, other)):
            made = symbols.size_of(self._chosen(condition, one, other))
            return made if symbols.is_of_inputs(expression_of_size(made)) else None
        then, orelse = self.of_sizes(one), self.of_sizes(other)
        if then is None or orelse is None:
            return None
        return self.over_sizes(Or.of(And.of(condition, then), And.of(Not.of(condition), orelse)))

    def _as_tensors(self, sides: Sequence[_Side], leaves: tuple[Leaf, Leaf]) -> tuple[FakeTensor, FakeTensor]:
        """The leaves of the two branches as tensors. The nodes that convert them are recorded into the branches."""
        one, other = (
            self.take(side.own[leaf.place]) if isinstance(leaf, _Shared) else leaf
            for leaf, side in zip(leaves, sides, strict=True)
        )
        with self.recorder.block(sides[0].nodes):
            first = self.tensor(one, other)
        with self.recorder.block(sides[1].nodes):
            return first, self.tensor(other, first)

    def _write(self, tensors: Sequence[torch.Tensor], before: Sequence[Leaf], after: Sequence[Leaf]) -> None:
        """Copy the writes of a block back from its copies to the shared tensors."""
        for tensor, old, new in zip(tensors, before, after, strict=True):
            if self.take(new) is not old:
                if any(other is not tensor and share_memory(tensor, other) for other in tensors):
                    raise self.error(SEEN_TWICE)
                tensor.copy_(new)

    def _laid_out(self, side: _Side, place: int, end: FakeTensor) -> torch.Tensor:
        """A tensor whose strides are those of a result of a body, which the recorder's need not have."""
        leaf = side.leaves[place]
        leaf = side.own[leaf.place] if isinstance(leaf, _Shared) else leaf
        return leaf if isinstance(leaf, torch.Tensor) else end

    def _merged(
        self, one: FakeTensor, other: FakeTensor, layouts: Sequence[torch.Tensor], of_sizes: Expression | None
    ) -> FakeTensor:
        """A fake tensor for the result of two branches, `one` that of the example if that is known, and where a
        condition on sizes holds, if it is about these. Sizes that differ between them are unknown."""
        if one.dtype is not other.dtype:
            raise self.error(f"one branch returns {one.dtype} and the other {other.dtype}: cast one of them")
        holds = self._holds_what(one)
        if one.ndim != other.ndim or holds.has_any_rank or self._holds_what(other).has_any_rank:
            if self.recorder.fakes.symbols is None:
                raise Reconsider(Decision.SYMBOLS)
            own: Sequence[Size] = one.shape
            open_sizes = [size if isinstance(size, int) else self.new_size(size) for size in own]
            of_any_rank = Holds.LIST_OF_ANY_RANK if holds.is_list else Holds.ANY_RANK
            return self.recorder.stand_in(one.dtype, open_sizes, one.device, of_any_rank)
        pairs = zip(one.shape, other.shape, strict=True)
        shape = [size if same_size(size, peer) else self._of_both(size, peer, of_sizes) for size, peer in pairs]
        return self.stand_in(one.dtype, shape, holds, layouts)

    def _of_both(self, one: Size, other: Size, of_sizes: Expression | None) -> Size:
        """The size of an axis that is `one` where a condition on sizes holds, and else the other. If the other is the
        same there, as the height of an image is 16 where that was the condition, it is the other everywhere."""
        symbols = self.recorder.fakes.symbols
        if of_sizes is None or symbols is None:
            return self.new_size(one)
        chosen = self._chosen(of_sizes, one, other)
        return self.new_size(one) if isinstance(chosen, Choice) else symbols.size_of(chosen)

    def _chosen(self, condition: Expression, one: Size, other: Size) -> Expression:
        symbols = self.recorder.fakes.symbols
        assert symbols is not None
        sides = expression_of_size(one), expression_of_size(other)
        filled = _filled_up(condition, *sides) or _filled_up(Not.of(condition), *sides[::-1])
        if filled is not None:
            return filled
        is_least, is_greatest = True, True
        for holds, (taken, another) in ((condition, sides), (Not.of(condition), sides[::-1])):
            with symbols.where(holds):
                if symbols.holds_here(Equal.of(taken, another)):
                    return another
                is_least = is_least and symbols.holds_here(LessOrEqual.of(taken, another))
                is_greatest = is_greatest and symbols.holds_here(LessOrEqual.of(another, taken))
        # So are the rows of what is cut off above a number of them, or padded up to it.
        return Min.of(*sides) if is_least else Max.of(*sides) if is_greatest else Choice.of(condition, *sides)

    def _holds_what(self, tensor: FakeTensor) -> Holds:
        return self.recorder.value_of(tensor).holds


def _filled_up(condition: Expression, size: Expression, other: Expression) -> Expression | None:
    """A size written for all sizes that is filled up to a multiple where a condition does not hold: where `n % 4 == 0`
    does not, `n + 4 - n % 4`."""
    divisor, terms = (other - size).terms()
    if len(terms) != 1:
        return None
    ((rest, coefficient),) = terms
    is_filled = coefficient == -1 and isinstance(rest, Mod) and rest.args[1] == Number(divisor)
    if not is_filled or condition != Equal.of(rest, Number(0)):
        return None
    return size + Mod.of(-rest, Number(divisor))


def _said(of_sizes: Expression | None, taken: int) -> Expression | None:
    """The condition that holds in the branch that is taken."""
    return of_sizes if of_sizes is None or not taken else Not.of(of_sizes)

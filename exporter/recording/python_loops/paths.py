"""The paths on which the body of a loop runs: it is recorded once for each combination of answers to what it asks.

A condition on the number of an iteration, or on a value that changes from one iteration to the next, has one answer in
some iterations and the other in others. The program runs the body with the first answer, and then again with the other
one: what follows the condition are the two bodies of a branch. A condition by which the program leaves the loop is
answered so that it stays. The other body of its branch are the values that there are where it asks, and that no
iteration follows.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.expressions.conditions import Not
from onnx_parity.exporter.expressions.expression import Expression
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import Node, Value
from onnx_parity.exporter.recording.blocks import Blocks, Iteration
from onnx_parity.exporter.recording.leaves import Leaf, is_number
from onnx_parity.exporter.recording.python_loops.carried_values import CarriedValues, OtherForms
from onnx_parity.exporter.recording.python_loops.steps_before import draws_numbers, replaced_by
from onnx_parity.exporter.torch_inside.bytecode import is_guard, tells_flags_apart
from onnx_parity.exporter.torch_inside.fake_tensors import FakeTensor
from onnx_parity.exporter.torch_inside.frames import FrameType
from onnx_parity.exporter.torch_inside.loops.loops_of_python import LoopTest, test_of_loop
from onnx_parity.exporter.torch_inside.loops.structured_code import function_of

__all__ = ["LEAVES", "BodyPaths", "left_otherwise"]

#: The most paths of one body.
_MOST = 32
_DRAWN_TWICE = (
    "random numbers are drawn between two branches that the same statements have paths for, and would be drawn anew on "
    "each: draw them before both"
)
LEAVES = (
    "the program leaves a loop over a dynamic size before its end, with a return, an error that it catches, or a break "
    "after which it does something else than at the end of the loop: the number of iterations would depend on values. "
    "Run all of them, and note in a variable which it is, as `if not found and row.sum() > 2: found, last = True, i`"
)


def left_otherwise(blocks: Blocks, frames: Sequence[FrameType]) -> CaptureError:
    """The error for a loop that is left otherwise than at its end. The function of the outermost of its frames is
    written down otherwise, unless it was."""
    key, error, structured = function_of(frames[-1]), blocks.error(LEAVES), blocks.recorder.reader.structured
    if structured is None or key in structured:
        return error
    return Reconsider(Decision.PATHS, refusal=error, structured=[key])


class _End(msgspec.Struct):
    """What there is at the end of a path, or where it leaves the loop."""

    leaves: list[Leaf]
    #: For each leaf, whether the program has still the tensor that it was given for it.
    kept: list[bool]
    #: What was added to lists, by the places of these.
    added: dict[int, list[FakeTensor]]
    going: Leaf
    #: For each of them whether something was added.
    has_added: dict[int, Leaf]
    #: For each leaf, whether it is a number on each of the paths.
    numbers: list[bool]
    #: For each leaf, the tensor that the program was given for it, as it is now.
    given: list[Leaf]
    #: For each leaf, whether it is True or False on each of the paths.
    flags: list[bool]


class _Asked(msgspec.Struct):
    """A question, with the answer on the path; where the other answer leaves the loop, also what there is then."""

    condition: FakeTensor
    answer: bool
    #: How many nodes of the path were recorded before it.
    place: int
    left: _End | None = None
    #: The condition on sizes that holds where it has the answer on the path.
    holding: Expression | None = None


class _Path(msgspec.Struct):
    #: The first answers.
    answers: Sequence[bool]
    nodes: list[Node]
    asked: list[_Asked] = []
    #: The answers by the questions, which are conditions on numbers, or values.
    known: dict[Expression | Value, bool] = {}
    #: What there is where it leaves the loop, unless it does so at its end, and how many nodes there are.
    left: _End | None = None
    left_at: int = 0
    #: Whether the example takes it, as far as it has run.
    is_of_example: bool = False
    #: What was recorded on the path that it goes off from, up to the question where it does.
    before: Sequence[Node] = ()
    #: Whether it goes on with what that has computed.
    is_shared: bool = False
    #: What holds on it, of the sizes of inputs.
    holding: ExitStack = msgspec.field(default_factory=ExitStack)


class BodyPaths:
    """The paths on which frames run the body of a loop, or statements of a function."""

    def __init__(
        self, blocks: Blocks, carried: CarriedValues, frames: Sequence[FrameType], head: LoopTest | None
    ) -> None:
        self._blocks, self._carried, self._frames, self._head = blocks, carried, frames, head
        #: The loops that ask for the next iteration.
        self._heads = {frame: test.loop for frame in frames if (test := test_of_loop(frame)) is not None}
        #: Whether these are statements of a function, and no loop.
        self.is_of_function = False
        #: Whether they have asked something that has two answers.
        self.has_asked = False
        #: The tensors, by identity, that were written to.
        self.written: set[int] = set()
        #: Whether the body asks anything. The program is then given new tensors for each path.
        self.branches = False
        #: Whether it may leave the loop.
        self.leaves = False
        self._begins_again = False
        self._given: list[Leaf] = []
        self._path: _Path | None = None
        self._count = 0

    def iteration(self, number: Any, leaves: Sequence[Leaf]) -> Generator[Any, Leaf, Iteration]:
        """Each time that the program is to run the body, the number of the iteration; whether it wants another one is
        sent back."""
        self._given, self._count = self._blocks.settled(leaves), 0
        self._carried.begin()
        if not self.branches:
            path = _Path((), self._blocks.recorder.nodes)
            end = yield from self._run(path, number, leaves)
            if self.branches:
                raise OtherForms
            return Iteration(end.going, self._carried.left, self._carried.collected(end.added, end.has_added))
        nodes, end = yield from self._explored((), number, leaves)
        self._blocks.recorder.nodes += nodes
        back = self._given_back(end, leaves)
        if self.is_of_function:
            self._refuse_flags(end)
            are_numbers = zip(back, end.numbers, strict=True)
            back = [self._blocks.number(leaf) if is_one else leaf for leaf, is_one in are_numbers]
        added = {number: [*map(self._blocks.give, tensors)] for number, tensors in end.added.items()}
        has_added = {number: self._blocks.give(has) for number, has in end.has_added.items()}
        return Iteration(end.going, back, self._carried.collected(added, has_added))

    def of_function(self, leaves: Sequence[Leaf]) -> Generator[None, None, Iteration]:
        """The same for statements of a function, which are run once."""
        self.is_of_function = self.branches = True
        return (yield from self.iteration(None, leaves))

    def _run(self, path: _Path, number: Any, leaves: Sequence[Leaf]) -> Generator[Any, Leaf, _End]:
        running = self._blocks.recorder.reader.bodies
        self._path, self._begins_again = path, False
        running.append(self)
        path.holding.enter_context(self._blocks.where(None))
        try:
            self._carried.give(leaves)
            more = yield number
        except GeneratorExit:
            self._blocks.recorder.reader.left_a_branch |= self.branches
            raise
        finally:
            running.remove(self)
            path.holding.close()
        if self._begins_again:
            raise OtherForms
        if path.left is None:
            end = self._end(more)
        else:
            end = path.left
            del path.nodes[path.left_at :]  # Those of the condition of a `while`, which is not asked any more.
        if self.branches:
            self._carried.refuse_kept()
        return end

    def _end(self, more: Leaf) -> _End:
        leaves, added = self._carried.take()
        kept = [left is given for left, given in zip(leaves, self._carried.given, strict=True)]
        (going,) = self._blocks.settled([more])
        taken = {place: [self._blocks.take(each) for each in tensors] for place, tensors in added.items()}
        numbers = [is_number(leaf) and type(leaf) is not bool for leaf in leaves]
        given = self._blocks.settled(self._carried.given)
        flags = [type(leaf) is bool for leaf in leaves]
        has_added = dict.fromkeys(taken, True)
        return _End(self._blocks.settled(leaves), kept, taken, going, has_added, numbers, given, flags)

    def _explored(
        self, answers: Sequence[bool], number: Any, leaves: Sequence[Leaf], before: Sequence[Node] = ()
    ) -> Generator[Any, Leaf, tuple[list[Node], _End]]:
        """Run the paths that begin with these answers, and compute what was recorded `before` the last of them on the
        first path. Returns the nodes and the end of all of them together."""
        blocks = self._blocks
        self._count += 1
        if self._count > _MOST:
            raise self._too_many()
        again = {id(leaf): blocks.give(given) for leaf, given in zip(leaves, self._given, strict=True)}
        with blocks.recorder.block() as nodes:
            path = _Path(answers, nodes, is_of_example=not answers and self._is_of_example_around())
            path.before = before
            end = yield from self._run(path, number, [again[id(leaf)] for leaf in leaves])
        for place in reversed(range(len(answers), len(path.asked))):
            asked = path.asked[place]
            others: list[Node] = []
            if asked.left is not None:
                other = asked.left
            else:
                first = [each.answer for each in path.asked[:place]]
                until = [*(path.before if path.is_shared else ()), *nodes[: asked.place]]
                others, other = yield from self._explored([*first, not asked.answer], number, leaves, until)
            behind = nodes[asked.place :]
            del nodes[asked.place :]
            with blocks.recorder.block(nodes), ExitStack() as around:
                for before_it in path.asked[:place]:
                    around.enter_context(blocks.where(before_it.holding))
                end = self._joined(asked, (behind, end), (others, other))
        return nodes, end

    def _too_many(self) -> CaptureError:
        return self._blocks.error(
            f"the body of a loop over a dynamic size runs on more than {_MOST} paths, by the conditions in it on "
            "what changes from one iteration to the next: choose with torch.where, or script the function"
        )

    def _joined(self, asked: _Asked, one: tuple[list[Node], _End], other: tuple[list[Node], _End]) -> _End:
        """Record the branch at a question, of the path with the answer and that with the other one."""
        blocks = self._blocks
        both = one, other
        for nodes, end in both:
            for place, tensors in {**one[1].added, **other[1].added}.items():
                if place not in end.added:
                    with blocks.recorder.block(nodes), blocks.innermost():
                        end.added[place] = [torch.zeros(each.shape, dtype=each.dtype) for each in tensors]  # type: ignore[misc]
                    end.has_added[place] = False
        places = sorted(one[1].added)
        kept = [self._is_kept(place, both) for place in range(len(one[1].leaves))]
        sides = []
        for nodes, end in both:
            added = [tensor for place in places for tensor in end.added[place]]
            given = [each for each, is_left in zip(end.given, kept, strict=True) if not is_left]
            sides.append((nodes, [*end.leaves, *given, *added, *(end.has_added[at] for at in places), end.going]))
        *joined, going = blocks.settled(blocks.join(asked.condition, sides if asked.answer else sides[::-1]))
        rest = iter(joined)
        leaves = [next(rest) for _ in one[1].leaves]
        given = [leaf if is_left else next(rest) for leaf, is_left in zip(leaves, kept, strict=True)]
        made = {place: [next(rest) for _ in one[1].added[place]] for place in places}
        numbers = [each and another for each, another in zip(one[1].numbers, other[1].numbers, strict=True)]
        flags = [each and another for each, another in zip(one[1].flags, other[1].flags, strict=True)]
        return _End(leaves, kept, made, going, {place: next(rest) for place in places}, numbers, given, flags)

    def _refuse_flags(self, end: _End) -> None:
        """Refuse a flag that differs between the paths, which becomes a tensor, if the function tells flags from other
        objects."""
        is_other = any(is_flag and type(leaf) is not bool for leaf, is_flag in zip(end.leaves, end.flags, strict=True))
        if is_other and any(map(tells_flags_apart, self._frames)):
            raise self._blocks.error("a variable is True or False by a branch, and the function asks if it is a bool")

    def _is_kept(self, place: int, both: Sequence[tuple[list[Node], _End]]) -> bool:
        """Whether a leaf is the given tensor on both paths, where they may have written to it."""
        kept, given = [end.kept[place] for _, end in both], self._given[place]
        is_written = [
            end.kept[place] and isinstance(end.leaves[place], torch.Tensor) and end.leaves[place] is not given
            for _, end in both
        ]
        if any(is_written) and not all(kept):
            raise self._blocks.error(
                "a loop over a dynamic size writes in place to a tensor in some iterations, and assigns another one to "
                "its variable in others: do one of both"
            )
        return all(kept)

    def _given_back(self, end: _End, leaves: Sequence[Leaf]) -> list[Leaf]:
        """The leaves at the end of all paths, as if the program had run the body once."""
        back: list[Leaf] = []
        self.written.clear()
        ends = zip(leaves, self._given, end.kept, end.leaves, end.given, strict=True)
        for leaf, given, kept, left, now in ends:
            if now is not given and isinstance(now, FakeTensor) and id(leaf) not in self.written:
                leaf.copy_(self._blocks.give(now))
                self.written.add(id(leaf))
            back.append(leaf if left is given or (kept and isinstance(left, FakeTensor)) else self._blocks.give(left))
        self._carried.settle(leaves, back)
        return back

    # --- questions ------------------------------------------------------------------------------------------------

    def decide(
        self, frame: FrameType | None, question: Expression | torch.Tensor, of_sizes: Expression | None = None
    ) -> bool:
        """The answer to a question of a frame on the path that the program runs on now; `of_sizes` is the condition on
        sizes that a tensor is."""
        path, blocks = self._path, self._blocks
        assert path is not None
        of_sizes = question if isinstance(question, Expression) else of_sizes
        key = of_sizes if of_sizes is not None else blocks.recorder.value_of(question)  # type: ignore[arg-type]
        if (known := path.known.get(key)) is not None:
            return known
        reader = blocks.recorder.reader
        outermost = reader.outermost
        if frame is not None and outermost is not None:
            for answer in (True, False):
                if is_guard(frame, answer, outermost):
                    return answer
        condition = blocks.over_sizes(question) if isinstance(question, Expression) else question
        if not isinstance(condition, torch.Tensor):
            return bool(condition)
        self.branches = True
        test = None if frame is None or frame not in self._frames else test_of_loop(frame)
        left: _End | None = None
        head = self._head
        if test is not None and head is not None and test.loop == head.loop and frame is self._frames[0]:
            if test.leaves_for != head.leaves_for or len(self._frames) > 1:
                raise left_otherwise(blocks, self._frames)
            answer, self.leaves = test.stays, True
            left = self._end_here()
        else:
            answer = path.answers[len(path.asked)] if len(path.asked) < len(path.answers) else self._first(condition)
            self.has_asked = True
            if self.is_of_function and len(path.asked) >= _MOST:
                raise self._too_many()  # A loop that ends by values may go on on this path.
        asked = blocks.take(condition)
        if asked.ndim:
            # The recorder, which asks for the value of a tensor, records nothing until it has it.
            with blocks.innermost(), blocks.recorder:
                asked = blocks.take(asked.reshape(()))
        if len(path.asked) == len(path.answers) - 1:
            self._go_off(path)
        elif len(path.asked) >= len(path.answers) and self.runs_for_all:
            reader.conditions.append(blocks.recorder.value_of(asked))
        path.asked.append(_Asked(asked, answer, len(path.nodes), left))
        path.known[key] = answer
        if of_sizes is not None and self.is_of_function and blocks.of_sizes(condition) is not None:
            path.asked[-1].holding = of_sizes if answer else Not.of(of_sizes)
            path.holding.enter_context(blocks.where(path.asked[-1].holding))
        if of_sizes is not None:
            path.known[Not.of(of_sizes)] = not answer
        return answer

    def _go_off(self, path: _Path) -> None:
        """Take what the path has computed up to the question where it goes off from another one for what that has: the
        same is not computed twice, and no other random numbers are drawn."""
        nodes = path.nodes
        replaced = replaced_by(path.before, nodes, self._blocks.recorder)
        if replaced is not None:
            known = path.known.items()
            path.known = {replaced.get(key, key) if isinstance(key, Value) else key: each for key, each in known}
            path.is_shared = True
            nodes.clear()
        elif any(map(draws_numbers, nodes)):
            raise self._blocks.error(_DRAWN_TWICE)

    def _first(self, condition: torch.Tensor) -> bool:
        """The answer with which a path goes on first: that of the example on its path, for its sizes are known."""
        path, reader = self._path, self._blocks.recorder.reader
        assert path is not None
        if not path.is_of_example or not reader.joined_at:
            return True
        value = self._blocks.recorder.value_of(self._blocks.take(condition))
        return reader.holds_in_example(value)

    def _is_of_example_around(self) -> bool:
        """Whether the example comes to where the program now begins."""
        bodies = self._blocks.recorder.reader.bodies
        return all(isinstance(each, BodyPaths) and each.runs_as_example for each in bodies)

    @property
    def runs_for_all(self) -> bool:
        """Whether these are no statements within a loop of the model."""
        return all(each.is_of_function for each in self._blocks.recorder.reader.bodies)

    @property
    def runs_as_example(self) -> bool:
        return self.is_of_function and self._path is not None and self._path.is_of_example

    def is_left_at(self, frame: FrameType) -> bool:
        """Whether a frame asks at the end of the body whether the loop is left."""
        return (test := test_of_loop(frame)) is not None and self._heads.get(frame) == test.loop

    def leave(self) -> None:
        """Take what there is now for what there is after the loop, on the path that the program runs on now."""
        assert self._path is not None
        self.leaves = True
        self._path.left_at = len(self._path.nodes)
        try:
            self._path.left = self._end(False)
        except OtherForms:
            self._begins_again = True

    def _end_here(self) -> _End | None:
        """What there is if the program leaves the loop now."""
        try:
            with self._carried.looked_at():
                return self._end(False)
        except OtherForms:
            # The program asks, so that it cannot be ended here.
            self._begins_again = True
            return None

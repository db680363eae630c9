"""Records a loop of Python over a dynamic size as one loop of the model.

Python asks the iterator of a `for` for one item after the other. The first one that it gets is that at a place which is
a symbol, and what the program does until it asks again is the body of the loop. The body is recorded as often as
`Blocks.loop_in_steps` wants it to be: each time, the variables of the program are given the values with which an
iteration begins, and what they have become is taken out of them when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.expressions.conditions import Not
from onnx_parity.exporter.expressions.expression import Expression
from onnx_parity.exporter.graph.decisions import ENDS, Decision, Reconsider
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.recording.blocks import Blocks, UnlikeItems
from onnx_parity.exporter.recording.leaves import Leaf
from onnx_parity.exporter.recording.python_loops.carried_values import CarriedValues, OtherForms
from onnx_parity.exporter.recording.python_loops.grown_list import GrownList, Stacked
from onnx_parity.exporter.recording.python_loops.paths import BodyPaths, left_otherwise
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.sizes.looped import Items, Parts, behind_first
from onnx_parity.exporter.sizes.size_node import expression_of_size
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.code_objects import code_of
from onnx_parity.exporter.torch_inside.frames import (
    FrameType,
    asked_for_caller,
    asks_for_its_caller,
    code_and_module,
    current_frame,
)
from onnx_parity.exporter.torch_inside.loops.loops_of_python import (
    LoopTest,
    frames_of_loop,
    is_at_loop,
    is_in_comprehension,
    is_in_for,
    place_in,
    test_of_loop,
)
from onnx_parity.exporter.torch_inside.loops.structured_code import comprehensions_of
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__ = ["LoopsAsked", "PythonLoop", "comprehended"]

asks_for_its_caller(__file__)


_TAKEN_ELSEWHERE = (
    "the program takes items of an iterator over a dynamic size at several places, or goes on with it after a loop: go "
    "over the tensor or the range itself, or a part of it, as x[1:], and take single items by their places, as x[0]"
)


_IN_COMPREHENSION = (
    "a comprehension goes over a dynamic size in a way that cannot be followed, as where its file is not known, or it "
    "makes a set or a dict, or assigns to a variable by `:=`: write it as a `for` that appends to a list"
)


class PythonLoop:
    """The iterator of a loop over items of which there are as many as a dynamic size says."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._given: Iterator[Any] | None = None
        #: Whether a loop may ask it itself, and not through an iterator of Python's that counts or joins.
        self._is_asked_itself = is_at_loop(current_frame(2), _OWN_LOOPS)
        #: The frame and the place of the loop that asks it; None once that has ended.
        self._asker: tuple[int, int] | None = None

    def __iter__(self) -> PythonLoop:
        return self

    def __next__(self) -> Any:
        frame = current_frame(1)
        if self._given is None:
            frames = frames_of_loop(frame) if self._is_asked_itself and is_in_for(frame) else []
            if filling := [each for each in frames if is_in_comprehension(each)]:
                raise Reconsider(
                    Decision.OWN_COMPREHENSIONS,
                    refusal=refused_here(_IN_COMPREHENSION),
                    structured=[comprehensions_of(each) for each in filling],
                )
            codes = [code_and_module(each)[0] for each in frames]
            is_loop = bool(codes) and all(code in _OWN_LOOPS or not asked_for_caller(code) for code in codes)
            self._given = _as_loop(self._items, frames) if is_loop else self._items.as_in_example()
            self._is_asked_itself = is_loop
            self._asker = place_in(frame)
        elif self._is_asked_itself and self._asker != place_in(frame):
            raise refused_here(_TAKEN_ELSEWHERE)
        try:
            return next(self._given)
        except StopIteration:
            self._asker = None
            raise

    @classmethod
    def asked_itself(cls, items: Items) -> PythonLoop:
        """What Python's `iter` makes of items."""
        made = cls(items)
        made._is_asked_itself = True
        return made

    def take(self, *default: Any) -> Any:
        """The next item, as Python's `next` takes it before a loop goes over the others."""
        if self._given is not None:
            raise refused_here(_TAKEN_ELSEWHERE)
        if not self._items.length > 0:
            return next(iter(()), *default)
        first = self._items.item(0)
        self._items = behind_first(self._items)
        return first


def _as_loop(items: Items, frames: Sequence[FrameType]) -> Iterator[Any]:
    """The items, each time that frames are to run the body of a loop over them. It does not refer to the iterator, so
    that it is closed where a loop is left."""
    recorder = recorder_here()
    length = items.length
    first, last = 0, Decision.LAST_ITERATIONS in recorder.decisions
    if Decision.FIRST_ITERATIONS in recorder.decisions:
        # It differs from the others, as where a variable is None before the loop.
        if not length > 0:
            return
        yield items.item(0)
        first = 1
    if last and not length > first:
        return
    blocks = Blocks(recorder)
    for number in _recorded(blocks, frames, items, length - first - last):
        yield items.item(number + first)
    if last:
        yield items.item(length - 1)


def _recorded(blocks: Blocks, frames: Sequence[FrameType], items: Items, length: Any) -> Iterator[Any]:
    """The numbers of iterations over so many of the items, each time that frames are to run the body of a loop."""
    symbols = blocks.recorder.fakes.symbols
    assert symbols is not None
    turns = _turns(blocks, frames, length, True, items.parts)
    number = next(turns, None)
    while number is not None:
        place, rest = blocks.number(number), symbols.create_unbacked_symint()
        symbols.constrain(place)
        symbols.constrain(rest)
        symbols.iterations.add(place.node.expr, expression_of_size(length), rest.node.expr)
        yield place
        try:
            number = turns.send(True)
        except StopIteration:
            return


def _turns(
    blocks: Blocks,
    frames: Sequence[FrameType],
    trips: Any,
    going: Leaf,
    parts: Sequence[Parts] = (),
    test: LoopTest | None = None,
) -> Generator[torch.Tensor, Leaf, None]:
    """The numbers of iterations, each time that frames are to run the body of a loop. Whether there is to be another
    iteration is sent back. After the last one, the variables of the frames are those after the loop."""
    recorder = blocks.recorder
    recorder.reader.has_loops = True
    before = recorder.checkpoint()
    carried = CarriedValues(blocks, frames, parts)
    paths = BodyPaths(blocks, carried, frames, test or test_of_loop(frames[0]))
    try:
        while True:
            steps = blocks.loop_in_steps(trips, going, carried.leaves, twice=True)
            try:
                number, leaves, _ = next(steps)
                while True:
                    done = yield from paths.iteration(number, leaves)
                    try:
                        number, leaves, _ = steps.send(done)
                    except StopIteration as end:
                        if paths.leaves and trips is not None and Decision.LAST_ITERATIONS in recorder.decisions:
                            # The last iteration, which follows by itself, is not for a loop that was left.
                            raise left_otherwise(blocks, frames) from None
                        results, stacks = end.value
                        return carried.finish(results, stacks, None if paths.leaves else trips)
            except (OtherForms, UnlikeItems) as other:
                steps.close()
                if isinstance(other, UnlikeItems):
                    carried.carry_as_list(other.place)
                recorder.restore(before)
                before = recorder.checkpoint()
                carried.start_again()
            finally:
                steps.close()
    except Reconsider:
        raise
    except CaptureError as error:
        raise Reconsider(*ENDS, Decision.PARTS_OF_EXAMPLE, refusal=error) from error
    except GeneratorExit:
        recorder.at_end.append(_refuse_end(left_otherwise(blocks, frames)))
        raise


class LoopsAsked:
    """The loops of a recording that are asked a condition: `while` loops over dynamic sizes, which begin so, and those
    whose bodies branch."""

    def __init__(self, recorder: Recorder) -> None:
        self._blocks = Blocks(recorder)
        recorder.at_end.append(self._refuse_running)
        #: The `while` loops that run, by their frames and places, each with the test that it asks first.
        self._running: dict[tuple[FrameType, int], tuple[int, Generator[torch.Tensor, Leaf, None], CaptureError]] = {}
        recorder.at_end.append(self._refuse_running)

    def stays(self, frame: FrameType, test: LoopTest, question: Expression | torch.Tensor) -> bool | None:
        """The answer to a condition that a frame asks at a test by which it leaves a `while`, if it is the first one of
        an iteration; None if it asks something else."""
        running = self._running.get((frame, test.loop))
        if running is not None and running[0] != test.test:
            return None
        going = self._going(question, test.stays)
        try:
            if running is not None:
                running[1].send(going)
            elif isinstance(going, bool) or not test.is_head or not (frames := frames_of_loop(frame)):
                return None
            else:
                turns = _turns(self._blocks, frames, None, going, test=test)
                self._running[frame, test.loop] = test.test, turns, left_otherwise(self._blocks, frames)
                next(turns)
        except StopIteration:
            del self._running[frame, test.loop]
            return not test.stays
        return test.stays

    def _going(self, question: Expression | torch.Tensor, stays: bool) -> Leaf:
        """Whether there is an iteration, by the question of which this answer stays in the loop."""
        if isinstance(question, Expression):
            return self._blocks.over_sizes(question if stays else Not.of(question))
        if not self._blocks.depends_on_input(question):
            return bool(question) == stays
        asked = self._blocks.truth(question.reshape(()))
        return asked if stays else torch.logical_not(asked)

    def _refuse_running(self, program: object) -> Mapping[str, Any]:
        """Refuse a program that has returned from within a `while`."""
        for _, _, error in self._running.values():
            raise error
        return {}


def _refuse_end(error: CaptureError) -> Any:
    def refuse(program: object) -> Mapping[str, Any]:
        raise error

    return refuse


def _as_list(items: Iterable[Any]) -> list[Any]:
    if isinstance(items, Stacked):
        return GrownList(items)
    made = []
    for item in items:
        made.append(item)
    return made


def _total(items: Iterable[Any], start: Any) -> Any:
    total = start
    for item in items:
        total = total + item
    return total


def _most(items: Iterable[Any], is_beyond: Callable[[Any, Any], Any], of: Callable[[Any], Any]) -> Any:
    most = most_of = None
    for item in items:
        number = of(item)
        if most_of is None or is_beyond(number, most_of):
            most, most_of = item, number
    return most


def _has_true(items: Iterable[Any]) -> Any:
    found = False
    for item in items:
        if item:
            found = True
    return found


def _are_true(items: Iterable[Any]) -> Any:
    are_true = True
    for item in items:
        if not item:
            are_true = False
    return are_true


def _folded(function: Callable[[Any, Any], Any], items: Iterable[Any], value: Any) -> Any:
    for item in items:
        value = function(value, item)
    return value


def _accumulated(function: Callable[[Any, Any], Any], items: Iterable[Any], value: Any) -> list[Any]:
    made = [value]
    for item in items:
        value = function(value, item)
        made.append(value)
    return made


class _Part(NamedTuple):
    """As many items as a dynamic size says, of one item of the loop around theirs."""

    items: torch.Tensor


def comprehended(items: Iterable[Any], comprehension: Callable[[Any], Any]) -> list[Any]:
    """What a comprehension makes of the items, each of which is given to it alone."""
    made: list[Any] = []
    for item in items:
        part = comprehension(iter([item]))
        if isinstance(part, GrownList):
            made.append(_Part(part.items_of_loop.only))
        else:
            made.extend(part)
    return _flat(made)


def _flat(made: list[Any]) -> list[Any]:
    """A list with the items of its parts in the place of these."""
    if not isinstance(made, GrownList):
        if not any(isinstance(each, _Part) for each in made):
            return made
        parts = [each.items if isinstance(each, _Part) else each.unsqueeze(0) for each in made]
        return GrownList(Stacked.of_tensors(torch.cat(parts)))
    stacked = made.items_of_loop
    is_of_parts = isinstance(pytree.tree_unflatten(stacked.stacks, stacked.spec), _Part)
    return GrownList(Stacked.of_tensors(stacked.stacks[0].flatten(0, 1))) if is_of_parts else made


_LOOPS: dict[str, Callable[..., Any]] = {
    "as_list": _as_list,
    "total": _total,
    "most": _most,
    "has_true": _has_true,
    "are_true": _are_true,
    "comprehended": comprehended,
    "folded": _folded,
    "accumulated": _accumulated,
}
_OWN_LOOPS = frozenset(map(code_of, _LOOPS.values()))
Items.known = Stacked.of_list
for _name, _function in _LOOPS.items():
    setattr(Items, _name, staticmethod(_function))

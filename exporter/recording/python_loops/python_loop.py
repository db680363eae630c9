"""Records a loop of Python over a dynamic size as one loop of the model.

Python asks the iterator of a `for` for one item after the other. The first one that it gets is that at a place which is
a symbol, and what the program does until it asks again is the body of the loop. The body is recorded as often as
`Blocks.loop_in_steps` wants it to be: each time, the variables of the program are given the values with which an
iteration begins, and what they have become is taken out of them when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.recording.blocks import Blocks, Iteration, UnlikeItems
from onnx_parity.exporter.recording.python_loops.carried_values import CarriedValues, OtherForms
from onnx_parity.exporter.sizes.looped import Items
from onnx_parity.exporter.torch_inside.code_objects import code_of
from onnx_parity.exporter.torch_inside.frames import FrameType, asked_for_caller, asks_for_its_caller, current_frame
from onnx_parity.exporter.torch_inside.loops_of_python import is_in_for
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__ = ["PythonLoop"]

asks_for_its_caller(__file__)


class PythonLoop:
    """The iterator of a loop over items of which there are as many as a dynamic size says."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._given: Iterator[Any] | None = None

    def __iter__(self) -> PythonLoop:
        return self

    def __next__(self) -> Any:
        if self._given is None:
            frame = current_frame(1)
            is_loop = is_in_for(frame) and (frame.f_code in _OWN_LOOPS or not asked_for_caller(frame.f_code))
            self._given = self._as_loop(frame) if is_loop else self._as_in_example()
        return next(self._given)

    def _as_in_example(self) -> Iterator[Any]:
        """As many items as in the example, where they are not asked for by a loop."""
        for place in range(int(self._items.length)):
            yield self._items.item(place)

    def _as_loop(self, frame: FrameType) -> Iterator[Any]:
        recorder = recorder_here()
        blocks = Blocks(recorder)
        first = 0
        if Decision.FIRST_ITERATIONS in recorder.decisions:
            # It differs from the others, as where a variable is None before the loop.
            if not self._items.length > 0:
                return
            yield self._items.item(0)
            first = 1
        before = recorder.checkpoint()
        carried = CarriedValues(blocks, frame)
        has_ended = False
        try:
            while not has_ended:
                try:
                    yield from self._recorded(blocks, carried, first)
                    has_ended = True
                except OtherForms:
                    recorder.restore(before)
                    before = recorder.checkpoint()
                    carried.start_again()
        except UnlikeItems as error:
            raise blocks.error(
                "a loop over a dynamic size adds tensors to a list whose sizes differ from one iteration to the next, "
                "or cannot be shown not to: write to slices of one tensor, or script the function with the loop"
            ) from error
        except Reconsider:
            raise
        except CaptureError as error:
            raise Reconsider(Decision.FIRST_ITERATIONS, refusal=error) from error
        except GeneratorExit:
            recorder.at_end.append(_refuse_end(blocks))
            raise

    def _recorded(self, blocks: Blocks, carried: CarriedValues, first: int) -> Iterator[Any]:
        steps = blocks.loop_in_steps(self._items.length - first, True, carried.leaves, twice=True)
        try:
            number, leaves, _ = next(steps)
            while True:
                carried.give(leaves)
                yield self._items.item(self._place(blocks, number, first))
                try:
                    number, leaves, _ = steps.send(Iteration(True, *carried.take()))
                except StopIteration as end:
                    carried.finish(*end.value)
                    return
        finally:
            steps.close()

    def _place(self, blocks: Blocks, number: torch.Tensor, first: int) -> Any:
        """The place of the item of an iteration, which is less than the number of items."""
        symbols = blocks.recorder.fakes.symbols
        assert symbols is not None
        place = blocks.number(number)
        symbols.count_to(place, self._items.length - first)
        return place + first


def _refuse_end(blocks: Blocks) -> Any:
    error = blocks.error(
        "the program leaves a loop over a dynamic size before its end, with break, return or an error that it catches: "
        "the number of iterations would depend on values. Compute all of them, and choose with torch.where"
    )

    def refuse(program: object) -> Mapping[str, Any]:
        raise error

    return refuse


def _as_list(items: Items) -> list[Any]:
    made = []
    for item in items:
        made.append(item)  # noqa: PERF402 - it is recorded as a loop.
    return made


def _total(items: Items, start: Any) -> Any:
    total = start
    for item in items:
        total = total + item
    return total


def _comprehended(loop: PythonLoop, comprehension: Callable[[Any], Any]) -> list[Any]:
    """What a comprehension makes of the items, each of which is given to it alone."""
    made: list[Any] = []
    for item in loop:
        made.extend(comprehension(iter([item])))
    return made


_OWN_LOOPS = frozenset(map(code_of, (_as_list, _total, _comprehended)))
Items.loop = PythonLoop
Items.as_list, Items.total, Items.comprehended = map(staticmethod, (_as_list, _total, _comprehended))

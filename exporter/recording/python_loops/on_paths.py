"""Statements of a program that are run on each of their paths, as those behind a loop that branch on what it has found.

    for _ in paths():
        if found: ...

They ask about a value that a loop of the model computes. `torch_inside/loops/structured_code.py` writes the code of the
function down so. Each path is recorded, and what the variables have become on them is joined by a branch of the model.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.expressions.expression import Expression
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.recording.blocks import SEEN_TWICE, Blocks
from onnx_parity.exporter.recording.python_loops.carried_values import CarriedValues, OtherForms
from onnx_parity.exporter.recording.python_loops.paths import BodyPaths
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.torch_inside.frames import FrameType, asks_for_its_caller, current_frame
from onnx_parity.exporter.torch_inside.loops.structured_code import place_in_function, read_at_the_end, to_the_end_of
from onnx_parity.exporter.torch_inside.this_thread import recorder_here, records_here

__all__ = ["Leaving", "Paths"]

asks_for_its_caller(__file__)


class Paths:
    """What a loop over `paths()` goes over: an item for each path through its body."""

    def __init__(self, to_the_end: bool, is_asked: bool = False) -> None:
        """`is_asked` says that the statements are known to ask."""
        self._to_the_end, self._is_asked = to_the_end, is_asked
        self._given: Iterator[None] | None = None

    def __iter__(self) -> Paths:
        return self

    def __next__(self) -> None:
        if self._given is None:
            self._given = _given_to(current_frame(1), self._to_the_end, self._is_asked)
        return next(self._given)


class Leaving:
    """Whether a loop of the program is left after an iteration, as a variable of it says."""

    def __init__(self, says: Any) -> None:
        self._says = says

    def __bool__(self) -> bool:
        bodies = recorder_here().reader.bodies if records_here() else ()
        if bodies and bodies[-1].is_left_at(current_frame(1)):
            if self._says:
                bodies[-1].leave()
            return False
        return bool(self._says)


def _given_to(frame: FrameType, to_the_end: bool, is_asked: bool) -> Iterator[None]:
    recorder = recorder_here() if records_here() else None
    if recorder is None or not all(each.is_of_function for each in recorder.reader.bodies):
        return iter([None])  # The body of a loop has its own paths.
    place, structured = place_in_function(frame), recorder.reader.structured or frozenset()
    if _of_paths_around(place) in structured:
        return iter([None])
    is_known = is_asked or place in structured
    return _joined_at_the_end(recorder, frame, to_the_end) if is_known else _unless_asked(recorder, place)


def _left_by_an_error(blocks: Blocks, place: str) -> CaptureError:
    """The error for statements that an error leaves on one of their paths. What catches it may be in others, which have
    paths then."""
    error = blocks.error("an error that the program catches leaves one side of a branch: branch without raising it")
    key, structured = _of_paths_around(place), blocks.recorder.reader.structured
    if structured is None or key in structured:
        return error
    return Reconsider(Decision.PATHS, refusal=error, structured=[key])


def _of_paths_around(place: str) -> str:
    """A key for statements whose paths are those of the statements that they are in."""
    return f"{place}:around"


def _joined_at_the_end(recorder: Recorder, frame: FrameType, to_the_end: bool) -> Generator[None, None, None]:
    """Have statements run on each of their paths. Where these cannot be joined behind them, as where a variable is None
    on one path, they go on to the end of the function."""
    try:
        yield from _on_paths(recorder, frame, to_the_end)
    except Reconsider:
        raise
    except CaptureError as error:
        key, structured = to_the_end_of(frame), recorder.reader.structured
        if recorder.reader.bodies or (recorder.reader.joined_at and structured is not None and key in structured):
            # They may be joined behind the statements around these, or behind the call of the function.
            key = _of_paths_around(place_in_function(frame))
        if structured is None or key in structured:
            raise
        recorder.reader.refusal = Reconsider(Decision.PATHS, refusal=error, structured=[key])
        raise recorder.reader.refusal from None


def _unless_asked(recorder: Recorder, place: str) -> Iterator[None]:
    """Have the statements at a place run once, if they ask nothing."""
    probe = _Probe(recorder, place)
    recorder.reader.bodies.append(probe)
    try:
        yield
    finally:
        recorder.reader.bodies.remove(probe)


class _Probe:
    """Stands among the bodies that decide, where the paths of statements are not known to be several."""

    is_of_function = True

    def __init__(self, recorder: Recorder, place: str) -> None:
        self._reader, self._place = recorder.reader, place

    def is_left_at(self, frame: FrameType) -> bool:
        return False

    def decide(
        self, frame: FrameType | None, question: Expression | torch.Tensor, of_sizes: Expression | None = None
    ) -> bool:
        self._reader.refusal = Reconsider(Decision.PATHS, structured=[self._place])
        raise self._reader.refusal


def _on_paths(recorder: Recorder, frame: FrameType, to_the_end: bool) -> Generator[None, None, None]:
    blocks = Blocks(recorder)
    before = recorder.checkpoint()
    read_later = read_at_the_end(frame) if to_the_end else None
    carried = CarriedValues(blocks, [frame], (), read_later, is_of_function=True)
    paths = BodyPaths(blocks, carried, [frame], None)
    reader, place = recorder.reader, place_in_function(frame)
    while True:
        starts = carried.leaves
        try:
            done = yield from paths.of_function(starts)
        except GeneratorExit:
            if reader.refusal is None and paths.has_asked:
                reader.refusal = _left_by_an_error(blocks, place)
            raise
        except OtherForms:
            recorder.restore(before)
            before = recorder.checkpoint()
            carried.start_again()
            continue
        for start in starts:
            if isinstance(start, torch.Tensor) and id(start) in paths.written and carried.has_another_name(start):
                raise blocks.error(SEEN_TWICE)
        carried.finish(done.carried, [each.unsqueeze(0) for each in done.collected])
        return

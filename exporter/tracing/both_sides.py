"""How a program is recorded again so that the model has both sides of what it branches on: dynamic sizes, and values.

One mechanism does both. `structured` names the functions that ask, whose code is written down so that the statements
that ask are run on each of their paths (`recording/python_loops/on_paths.py`). `joined` are questions on sizes, which
are the same wherever they are asked. A question on values is known by the place in the program that asks it, one of
`joined_at`: the value is another one each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from onnx_parity.exporter.graph.decisions import Decision
from onnx_parity.exporter.recording.reads import Read
from onnx_parity.exporter.tracing.capture_errors import is_branch
from onnx_parity.exporter.tracing.to_record import Attempt, ToRecord

if TYPE_CHECKING:
    from onnx_parity.exporter.sizes.answers import Answer
    from onnx_parity.exporter.tracing.traced import Traced

__all__ = ["Place", "asked_at", "joining_sizes", "joining_values", "keeps_shapes", "lines_alone"]

#: A file and a line.
Place = tuple[str, int]

#: The most questions of which both sides are recorded.
_MOST_JOINED = 12
#: Of so many places each is tried alone where all together fail.
_MOST_ALONE = 4


def joining_sizes(attempt: Attempt, answers: Collection[Answer], functions: Sequence[FunctionType]) -> Attempt | None:
    """The attempt with both sides of these questions too; None if there were too many, or that was tried."""
    joined = attempt.joined | {known.expression for known in answers}
    is_tried = joined == attempt.joined or attempt.has(Decision.AS_WRITTEN)
    has_paths = attempt.has(Decision.PATHS) > attempt.has_both_sides
    if is_tried or len(joined) > _MOST_JOINED or has_paths:
        return None
    from onnx_parity.exporter.torch_inside.loops.structured_code import functions_at

    structured = attempt.structured | functions_at(functions, {*map(_place, answers)})
    return replace(attempt.deciding(Decision.PATHS), structured=structured, joined=joined)


def lines_alone(answers: Sequence[Answer]) -> list[Place]:
    """The lines whose branches are joined one after the other where all together cannot be, if they are few."""
    branches = [each for each in answers if is_branch(each)]
    lines = dict.fromkeys(map(_place, branches))
    return [*lines] if 1 < len(lines) <= len(branches) <= _MOST_ALONE else []


def asked_at(place: Place | None, answers: Sequence[Answer]) -> list[Answer]:
    """The branches of a line, or all."""
    return [each for each in answers if is_branch(each) and place in (None, _place(each))]


def _place(answer: Answer) -> Place:
    return answer.origin.file, answer.origin.line


def joining_values(attempt: Attempt, reads: Sequence[Read], functions: Sequence[FunctionType]) -> Iterator[Attempt]:
    """The attempts with both sides of what was decided by these reads too, the likeliest first: with as little as
    possible on the paths of each question; with all that follows in its function, so that a number of Python remains
    one; and the same for one place after the other."""
    asked = (each.asked_at for each in reads if each.answer is not None and not each.is_random)
    places = [each for each in dict.fromkeys(asked) if each is not None and each not in attempt.joined_at]
    if not places or attempt.has(Decision.AS_WRITTEN) or len(places) + len(attempt.joined_at) > _MOST_JOINED:
        return
    from onnx_parity.exporter.torch_inside.loops.structured_code import asked_in, to_the_end_in

    deciding = attempt.deciding(Decision.SYMBOLS).deciding(Decision.PATHS)
    alone = [[each] for each in places] if 1 < len(places) <= _MOST_ALONE else []
    for some in ([*places], *alone):
        structured, joined_at = attempt.structured | asked_in(functions, {*some}), attempt.joined_at.union(some)
        yield replace(deciding, structured=structured, joined_at=joined_at)
        to_the_end = structured | to_the_end_in(functions, {*some})
        yield replace(deciding, structured=to_the_end, joined_at=joined_at)


def keeps_shapes(traced: Traced, attempt: Attempt, wanted: ToRecord) -> bool:
    """Whether both sides of branches return the same shapes, if the opset wants these."""
    if not (wanted.options.same_shapes and (attempt.joined or attempt.joined_at)):
        return True
    from onnx_parity.exporter.tracing.branches_on_sizes import returns_other_shapes

    return not returns_other_shapes(traced.graph)

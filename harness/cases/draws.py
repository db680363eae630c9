"""Drawn cells of the full tier: sizes, memory layouts and attributes of a declaration are chosen at random.

A cell `elu[drawn]-float32-opset9-...` represents a few dozen draws, which depend on its name alone. The first that
fails is shrunk, and the result is printed as a declaration, ready to be pasted into the family's file:

    elu = op(torch.nn.functional.elu, floats(0), alpha=0.5)

Sizes that are equal in the declaration stay equal in a draw, so that matrices can still be multiplied. Sizes of inputs
with fixed values stay unchanged. Draws that torch itself refuses, when it runs or records the program, and draws that
the exporter refuses with a reason, are not counted.
"""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.harness.axes import Shapes
from onnx_parity.harness.case import Case, Declaration, spell
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.inputs import Given, Layout, Maker
from onnx_parity.harness.record import Kind, Stage, Status

if TYPE_CHECKING:
    from onnx_parity.harness.judging.outcome import Outcome
    from onnx_parity.harness.matrix.cells import Cell

__all__ = ["ATTEMPTS", "DrawnCase", "can_be_drawn", "search"]

#: The number of draws of a cell: some thousand programs for all declarations together.
EXAMPLES = 25
#: The maximum number of draws of a cell, including refused ones. torch refuses some programs at nearly every size.
ATTEMPTS = 3 * EXAMPLES
#: How inputs lie in memory; None for contiguous ones.
_LAYOUTS = [None, Layout.TRANSPOSED, Layout.SLICED]
#: The largest size that is drawn. Larger ones find no other failures, and shrink to these.
LARGEST = 6


@dataclass(frozen=True, slots=True, eq=False)
class DrawnCase(Case):
    """The case that represents all draws of a declaration."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One choice: a case, a size in place of each of the declared ones, and a layout for all inputs."""

    number: int
    sizes: Mapping[int, int]
    layout: Layout | None


def can_be_drawn(declaration: Declaration) -> bool:
    """Whether there is anything to draw, and may be: an operator with an input whose values are not fixed."""
    return (
        type(declaration) is Declaration
        and declaration.kind is Kind.OPERATOR
        and not declaration.without_draws
        and any(not isinstance(maker, Given) and maker.shape for maker in _makers(declaration.inputs))
    )


def search(cell: Cell, run: Callable[[Cell], Outcome]) -> Outcome:
    """Run draws of a cell until one fails, then the smallest that still fails. Returns the outcome of that draw."""
    cases = list(cell.case.declaration.cases(cell.case.name))
    #: The seconds of all draws together, by stage.
    seconds: defaultdict[str, float] = defaultdict(float)

    def timed(case: Case) -> Outcome:
        outcome = run(dataclasses.replace(cell, case=case))
        for stage, taken in outcome.seconds.items():
            seconds[stage] += taken
        return outcome

    def outcome_of(draw: Draw) -> Outcome | None:
        case = _draw_program(cases[draw.number], draw)
        outcome = timed(case)
        if _says_nothing(outcome):
            return None
        outcome.details.insert(0, f"drawn: {_as_declaration(case, draw)}")
        return outcome

    last: Outcome | None = None
    told = 0
    for draw in _draws(len(cases), _draw_sizes(cases), random.Random(stable_seed(0, cell.id))):
        outcome = outcome_of(draw)
        if outcome is None:
            continue
        last, told = outcome, told + 1
        if outcome.status is not Status.PASSED:
            last = _shrunk(draw, outcome, outcome_of)
            break
        if told == EXAMPLES:
            break
    # If every draw was refused, the outcome of the declaration's first case describes why.
    last = last or timed(cases[0])
    last.seconds = dict(seconds)
    return last


def _draws(cases: int, sizes: Sequence[int], choices: random.Random) -> Iterator[Draw]:
    """So many draws as a cell may have, none of them twice. The smallest comes first."""
    drawn: set[object] = set()
    for attempt in range(ATTEMPTS):
        chosen = {size: choices.randint(0, LARGEST) if attempt else 0 for size in sizes}
        draw = Draw(choices.randrange(cases) if attempt else 0, chosen, choices.choice(_LAYOUTS) if attempt else None)
        key = (draw.number, *chosen.values(), draw.layout)
        if key not in drawn:
            drawn.add(key)
            yield draw


def _shrunk(draw: Draw, outcome: Outcome, outcome_of: Callable[[Draw], Outcome | None]) -> Outcome:
    """The outcome of the smallest draw that is found to fail like this one."""

    def failure_of(draw: Draw) -> Outcome | None:
        found = outcome_of(draw)
        return None if found is None or found.status is Status.PASSED else found

    # A smaller draw that fails is shrunk in turn: each has fewer smaller ones, so that this ends.
    for smaller in _smaller(draw):
        if failure := failure_of(smaller):
            return _shrunk(smaller, failure, outcome_of)
    if failure_of(draw) is None:
        outcome.details.insert(1, "the same draw had another outcome when it was run again")
    return outcome


def _smaller(draw: Draw) -> Iterator[Draw]:
    """The draws in which one thing is simpler, the simplest first."""
    for number in range(draw.number):
        yield dataclasses.replace(draw, number=number)
    if draw.layout is not None:
        yield dataclasses.replace(draw, layout=None)
    for size, chosen in draw.sizes.items():
        for less in range(chosen):
            yield dataclasses.replace(draw, sizes={**draw.sizes, size: less})


def _draw_sizes(cases: Sequence[Case]) -> list[int]:
    """The declared sizes that a draw replaces: all but those of inputs with fixed values."""
    makers = [maker for case in cases for maker in _makers((*case.declaration.inputs, *case.arguments.values()))]
    given = {size for maker in makers if isinstance(maker, Given) for size in maker.shape}
    return sorted({size for maker in makers for size in maker.shape if size > 1} - given)


def _says_nothing(outcome: Outcome) -> bool:
    if outcome.status is Status.UNSUPPORTED or outcome.stage in (Stage.BUILD, Stage.REFERENCE):
        return True
    return outcome.stage is Stage.EXPORT and outcome.raised is not None and issubclass(outcome.raised, CaptureError)


def _draw_program(case: Case, draw: Draw) -> Case:
    """The case with the sizes and layouts of a draw."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(changed(each) for each in value)
        if not isinstance(value, Maker) or isinstance(value, Given):
            return value
        shape = tuple(draw.sizes.get(size, size) for size in value.shape)
        return dataclasses.replace(value, shape=shape, layout=draw.layout)

    # What is said of the number of nodes holds for the declared sizes: an axis of size 1 may take more.
    inputs = changed(case.declaration.inputs)
    marked = case.declaration.asked(Shapes.STATIC)
    declaration = dataclasses.replace(case.declaration, inputs=inputs, dynamic=marked, sizes={}, nodes={})
    arguments = {name: changed(value) for name, value in case.arguments.items()}
    return Case(declaration, case.name, f"{case.name}[drawn]", arguments)


def _as_declaration(case: Case, draw: Draw) -> str:
    program = case.declaration.program
    module, name = getattr(program, "__module__", ""), getattr(program, "__qualname__", repr(program))
    called = torch.overrides.resolve_name(program) or f"{module}.{name}"
    if "<lambda>" in called:
        called = f"<the lambda of {case.declaration.place}>"
    keywords = [f"{name}={spell(value)}" for name, value in case.arguments.items()]
    makers = [str(maker) for maker in case.declaration.inputs]
    spelled = f"{case.name} = op({', '.join([called, *makers, *keywords])})"
    # Names of cases have the shorter form.
    return spelled.replace(f").{draw.layout}", f').laid("{draw.layout}")')


def _makers(given: object) -> Iterator[Maker]:
    """The makers among inputs and arguments."""
    if isinstance(given, Maker):
        yield given
    elif isinstance(given, tuple):
        for each in given:
            yield from _makers(each)

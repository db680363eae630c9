"""Drawn cells of the full tier: Hypothesis chooses sizes, memory layouts and attributes of a declaration.

A cell `elu[drawn]-float32-opset9-...` stands for a few dozen draws. The first that fails is shrunk, and what is left
is printed as a declaration, ready to be pasted into the family's file:

    elu = op(torch.nn.functional.elu, floats(0), alpha=0.5)

Sizes that are equal in the declaration stay equal in a draw, so that a product of matrices stays one. Draws that torch
itself refuses, and those that the exporter refuses with a reason, say nothing.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import torch

from harness.axes import Dtype
from harness.case import Case, Declaration, Input, spelled
from harness.cases.seeds import stable_seed
from harness.inputs import Given, Maker
from harness.record import Kind, Stage, Status

if TYPE_CHECKING:
    from harness.judging.outcome import Outcome
    from harness.selecting.cells import Cell

__all__ = ["DRAWN_OPSETS", "DrawnCase", "can_be_drawn", "search"]

#: The oldest form that most runtimes know, and the newest that torch's own exporters write.
DRAWN_OPSETS = (9, 18)
#: Draws a cell. Over all declarations that is some thousand programs.
EXAMPLES = 25
#: Sizes are drawn from 0 to this. Larger ones find nothing that these do not, and shrink to these.
LARGEST = 6


class Layout(StrEnum):
    """How an input lies in memory."""

    CONTIGUOUS = "contiguous"
    TRANSPOSED = "transposed"
    EVERY_OTHER = "every other"


@dataclass(frozen=True, slots=True, eq=False)
class DrawnCase(Case):
    """Stands for all draws of a declaration."""


@dataclass(frozen=True, slots=True)
class _Laid(Maker):
    """An input of the same values, laid out otherwise."""

    maker: Maker = dataclasses.field(kw_only=True)
    layout: Layout = dataclasses.field(kw_only=True)

    def draw(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        return self.maker.draw(generator, dtype)

    def make(self, seed: int, cell_dtype: Dtype) -> torch.Tensor:
        tensor = self.maker.make(seed, cell_dtype)
        if tensor.ndim == 0 or self.layout is Layout.CONTIGUOUS:
            return tensor
        if self.layout is Layout.TRANSPOSED:
            return tensor.transpose(0, -1).contiguous().transpose(0, -1)
        roomy = tensor.new_zeros((*tensor.shape[:-1], 2 * tensor.shape[-1]))
        roomy[..., ::2] = tensor
        return roomy[..., ::2]

    def __str__(self) -> str:
        return str(self.maker)


@dataclass(frozen=True, slots=True)
class Draw:
    """One choice: a case, the size that stands for each of the declared ones, and a layout for all inputs."""

    number: int
    sizes: Mapping[int, int]
    layout: Layout


def can_be_drawn(declaration: Declaration) -> bool:
    """Whether there is anything to draw: operators with inputs whose sizes are not given value by value."""
    return (
        type(declaration) is Declaration
        and declaration.kind is Kind.OPERATOR
        and any(not isinstance(maker, Given) and maker.shape for maker in _makers(declaration.inputs))
    )


def search(cell: Cell, run: Callable[[Cell], Outcome]) -> Outcome:
    """Run draws of a cell until one fails, then the smallest that still does. The outcome is that draw's, or a pass."""
    import hypothesis
    from hypothesis import strategies as st

    declaration = cell.case.declaration
    cases = list(declaration.cases(cell.case.name))
    declared = sorted({size for maker in _makers(declaration.inputs) for size in maker.shape if size > 1})
    draws = st.builds(
        Draw,
        number=st.integers(0, len(cases) - 1),
        sizes=st.fixed_dictionaries({size: st.integers(0, LARGEST) for size in declared}),
        layout=st.sampled_from(list(Layout)),
    )
    outcomes: list[Outcome] = []
    #: Of all draws, of which one is kept.
    seconds: defaultdict[str, float] = defaultdict(float)

    def timed(case: Case) -> Outcome:
        outcome = run(dataclasses.replace(cell, case=case))
        for stage, taken in outcome.seconds.items():
            seconds[stage] += taken
        return outcome

    @hypothesis.seed(stable_seed(0, cell.id))
    @hypothesis.settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
    )
    @hypothesis.given(draws)
    def holds(draw: Draw) -> None:
        case = _drawn(cases[draw.number], draw)
        outcome = timed(case)
        if outcome.status is Status.UNSUPPORTED or outcome.stage in (Stage.BUILD, Stage.REFERENCE):
            hypothesis.reject()
        outcome.details.insert(0, f"drawn: {_as_declaration(case, draw)}")
        outcomes.append(outcome)
        if outcome.status is not Status.PASSED:
            raise _FoundError(outcome)

    try:
        holds()
        outcome = outcomes[-1]
    except _FoundError as found:
        outcome = found.outcome
    except hypothesis.errors.Unsatisfiable:
        # Nothing but refusals: the last one tells why.
        outcome = timed(cases[0])
    outcome.seconds = dict(seconds)
    return outcome


class _FoundError(Exception):
    """A draw that does not hold."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


def _drawn(case: Case, draw: Draw) -> Case:
    """The case with the sizes and layouts of a draw."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(changed(each) for each in value)
        if not isinstance(value, Maker) or isinstance(value, Given):
            return value
        shape = tuple(draw.sizes.get(size, size) for size in value.shape)
        resized = dataclasses.replace(value, shape=shape)
        return _Laid(shape, dtype=value.dtype, constant=value.constant, maker=resized, layout=draw.layout)

    declaration = dataclasses.replace(case.declaration, inputs=changed(case.declaration.inputs), dynamic={}, sizes={})
    arguments = {name: changed(value) for name, value in case.arguments.items()}
    return Case(declaration, case.name, f"{case.name}[drawn]", arguments)


def _as_declaration(case: Case, draw: Draw) -> str:
    program = case.declaration.program
    module, name = getattr(program, "__module__", ""), getattr(program, "__qualname__", repr(program))
    called = torch.overrides.resolve_name(program) or f"{module}.{name}"
    if "<lambda>" in called:
        called = f"<the lambda of {case.declaration.place}>"
    keywords = [f"{name}={spelled(value)}" for name, value in case.arguments.items()]
    makers = [str(maker) for maker in case.declaration.inputs]
    layout = "" if draw.layout is Layout.CONTIGUOUS else f"  # inputs {draw.layout} in memory"
    return f"{case.name} = op({', '.join([called, *makers, *keywords])}){layout}"


def _makers(inputs: Input) -> Iterator[Maker]:
    if isinstance(inputs, Maker):
        yield inputs
        return
    for each in inputs:
        yield from _makers(each)

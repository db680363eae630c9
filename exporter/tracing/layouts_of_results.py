"""How tensors lie in memory that a program makes, and with which sizes that decides something else than in the example.

Whether `contiguous` or `reshape` makes a copy, and what a program is told about strides, follows from how torch's
kernels lay their results. That depends on which axes have one element or none, and on which are longer than others.
Where it makes a difference to what is recorded, the program is recorded without symbols at the sizes that may tell, and
torch decides. Where it decides otherwise than in the recording, a condition is assumed that excludes these sizes: the
one that excludes the fewest of the others, of those that say that a size is not 0 or 1, or that compare two sizes.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.expressions.conditions import Equal, GreaterOrEqual, Less, LessOrEqual, Not, Or, Unequal
from onnx_parity.exporter.expressions.expression import UNDEFINED, Expression, Number, Symbol
from onnx_parity.exporter.expressions.integers_and_reals import Mod
from onnx_parity.exporter.request.size_expressions import is_expression
from onnx_parity.exporter.sizes.answers import Answer
from onnx_parity.exporter.tracing.attempt import FailedThere
from onnx_parity.exporter.tracing.branches_on_sizes import NotRecorded, Recording, are_the_same

if TYPE_CHECKING:
    from onnx_parity.exporter.tracing.assumptions import DeclaredSize
    from onnx_parity.exporter.tracing.traced import ByLayout, Traced

__all__ = ["conditions_for_layouts", "layouts_that_decide"]

_Sizes = Mapping[str, int]
_Values = Mapping[Symbol, int]
#: The sizes of an axis that are tried beside the example's, and up to which others are looked for.
_TRIED, _ALSO_TRIED, _MOST_SIZE = (0, 1, 2, 3, 5), (4, 6, 7), 64
#: With more recordings, only sizes are tried of which at most two axes differ from the example, or are 1.
_MOST_RECORDINGS = 250
#: How many sizes of tensors are compared with each other.
_MOST_COMPARED = 8
#: With more conditions than these, the sizes that were tried do not tell what decides.
_MOST_CONDITIONS = 5


def layouts_that_decide(recorded: Traced, again: Recording) -> list[ByLayout]:
    """What was decided by how torch's kernels lay tensors, and makes a difference to what is recorded."""
    return [
        each for each in recorded.layouts if each.may_matter and each.is_open and not _is_idle(each, recorded, again)
    ]


def _is_idle(decided: ByLayout, recorded: Traced, again: Recording) -> bool:
    """Whether the same is recorded where this is decided otherwise."""
    if type(decided.outcome) is not bool or (decided.is_made and not decided.outcome):
        return False  # Of strides there are many others; of what is a copy it is known that a write would be lost.
    try:
        other = again(turned=frozenset([decided.number]))
    except FailedThere:
        return False
    except NotRecorded:
        return False
    return other is not None and are_the_same(recorded, other)


class _At(msgspec.Struct, frozen=True):
    """The sizes of axes, and whether torch decides there as in the recording."""

    sizes: _Values
    is_same: bool


def conditions_for_layouts(
    recorded: Traced,
    deciding: Sequence[ByLayout],
    known: Sequence[Answer],
    declared: Sequence[DeclaredSize],
    at: Callable[[_Sizes], Traced | None],
) -> list[Answer]:
    """The conditions on sizes with which torch decides as in the recording. `known` are others, of which nothing needs
    to be said where they do not hold; `at` records the program with other sizes, None if it fails there."""
    names = {each.name for each in declared}
    axes = [each for each in declared if not is_expression(each.name, names)]
    example = {each.name: each.example for each in axes}
    symbols = {name: symbol for symbol, name in recorded.graph.axis_names.items()}
    of_recording = {str(symbol): size for symbol, size in recorded.sizes.items()}
    usual = {name: of_recording.get(symbols.get(name, ""), size) for name, size in example.items()}
    tried: dict[int, list[_At]] = defaultdict(list)

    def look_at(sizes: _Sizes) -> None:
        values = {Symbol(symbols[name]): size for name, size in sizes.items() if name in symbols}
        if any(_holds(each.holding, values) is False for each in known) or (there := at(sizes)) is None:
            return
        for each in deciding:
            tried[each.number].append(_At(values, _decides_alike(each, recorded, there, values)))

    seen = [*_sizes_to_try(axes, deciding, recorded, _TRIED)]
    for sizes in seen:
        look_at(sizes)
    if not all(each.is_same for found in tried.values() for each in found):
        # What is found out about some sizes has to hold for others too.
        for sizes in _sizes_to_try(axes, deciding, recorded, (*_TRIED, *_ALSO_TRIED)):
            if sizes not in seen:
                look_at(sizes)
    here = {Symbol(symbols[name]): size for name, size in usual.items() if name in symbols}
    in_example = {Symbol(symbols[name]): size for name, size in example.items() if name in symbols}
    found = []
    for each in deciding:
        if tried[each.number] or each.condition is None:
            found += _conditions(each, tried[each.number], here, in_example)
        else:
            found.append(_answer(each, Not.of(each.condition), in_example))
    return found


def _holds(condition: Expression, values: Mapping[Symbol, int]) -> bool | None:
    if not condition.free_symbols <= values.keys():
        return None
    try:
        return bool(condition.at(values))
    except UNDEFINED:
        return False


def _sizes_to_try(
    axes: Sequence[DeclaredSize], deciding: Sequence[ByLayout], recorded: Traced, usual: Sequence[int]
) -> Iterator[dict[str, int]]:
    example = {each.name: each.example for each in axes}
    of_axis = {name: symbol for symbol, name in recorded.graph.axis_names.items()}
    computed = {size for each in deciding for size in each.sizes if not size.is_Symbol}
    choices = []
    for axis in axes:
        possible = {axis.example, *usual}
        for size in computed:
            possible |= _special({str(each) for each in size.free_symbols}, size, of_axis.get(axis.name))
        choices.append([each for each in sorted(possible) if axis.least <= each <= axis.greatest])
    yield example
    for chosen in itertools.product(*choices):
        sizes = dict(zip(example, chosen, strict=True))
        others = [size for name, size in sizes.items() if size != example[name]]
        if others and (math.prod(map(len, choices)) <= _MOST_RECORDINGS or len(others) <= 2 or {*others} == {1}):
            yield sizes


def _special(symbols: set[str], size: Expression, symbol: str | None) -> set[int]:
    """The least and the greatest sizes of an axis with which a size that is computed from it alone is 0 or 1."""
    if symbols != {symbol} or symbol is None:
        return set()
    found: set[int] = set()
    for wanted in (0, 1):
        is_so = Equal.of(size, Number(wanted))
        fitting = [each for each in range(_MOST_SIZE) if _holds(is_so, {Symbol(symbol): each})]
        found.update(fitting[:1], fitting[-1:])
    return found


def _decides_alike(decided: ByLayout, recorded: Traced, there: Traced, values: Mapping[Symbol, int]) -> bool:
    """Whether torch decides with other sizes as in the recording. The line may run more often there, or not at all."""
    here = [each for each in recorded.layouts if each.origin == decided.origin and each.is_made == decided.is_made]
    others = [each for each in there.layouts if each.origin == decided.origin and each.is_made == decided.is_made]
    if len(here) == len(others):
        place = next(number for number, each in enumerate(here) if each.number == decided.number)
        others = [others[place]]
    expected = _with_sizes(decided.outcome, values)
    return all((each.is_empty and each.is_made) or each.outcome == expected for each in others)


def _with_sizes(outcome: Any, values: Mapping[Symbol, int]) -> Any:
    """Strides, or the condition that a script asks for, with the sizes of axes; those that depend on values of tensors
    stay what they are."""
    if isinstance(outcome, tuple):
        return tuple(_with_sizes(each, values) for each in outcome)
    is_known = isinstance(outcome, Expression) and outcome.free_symbols <= values.keys()
    return outcome.at(values) if is_known else outcome


def _conditions(decided: ByLayout, tried: Sequence[_At], here: _Values, in_example: _Values) -> list[Answer]:
    """Conditions that hold for the sizes of the recording and for none of those where torch decides otherwise."""
    if all(each.is_same for each in tried):
        return []
    possible = [each for each in _possible(decided, [*in_example]) if _holds(each, here)]
    of_strides = (
        [] if decided.condition is None else [each for each in possible[:1] if each == Not.of(decided.condition)]
    )
    if of_strides and all(each.is_same or not _holds(of_strides[0], each.sizes) for each in tried):
        return [_answer(decided, of_strides[0], in_example)]
    found: list[Answer] = []
    while not all(each.is_same for each in tried):
        best = min(possible, key=partial(_cost, tried=tried), default=None)
        if best is None or math.isinf(_cost(best, tried)[0]) or len(found) == _MOST_CONDITIONS:
            raise CaptureError(
                "what a write in place changes, or what the program is told, depends on how PyTorch lays a tensor of "
                "dynamic sizes in memory, and no condition on these sizes was found with which that is as in the "
                "example: use clone(memory_format=torch.contiguous_format) before it, or leave these axes out of "
                f"dynamic_axes{decided.origin.in_brackets}"
            )
        tried = [each for each in tried if _holds(best, each.sizes)]
        found.append(_answer(decided, best, in_example))
    return found


def _answer(decided: ByLayout, condition: Expression, in_example: _Values) -> Answer:
    """What is assumed. A condition that says when there is no copy is denied: the recording has one."""
    is_denied = decided.is_made and not decided.outcome
    question, is_other = Not.of(condition) if is_denied else condition, not _holds(condition, in_example)
    return Answer(question, not is_denied, decided.origin, True, is_other, is_about_copy=decided.is_made)


def _cost(condition: Expression, tried: Sequence[_At]) -> tuple[float, int]:
    """How many of the sizes where torch decides as in the recording a condition excludes, for each one where not."""
    excluded = [each.is_same for each in tried if not _holds(condition, each.sizes)]
    wrong = excluded.count(False)
    return excluded.count(True) / wrong if wrong else math.inf, -wrong


def _possible(decided: ByLayout, axes: Sequence[Symbol]) -> Iterator[Expression]:
    """Conditions, that of the strides of the recording first, and then the simplest."""
    if decided.condition is not None and decided.condition.free_symbols <= {*axes}:
        yield Not.of(decided.condition)
    computed = [each for each in decided.sizes if each not in axes and each.free_symbols <= {*axes}]
    sizes = [*axes, *sorted(computed, key=lambda each: len(str(each)))[:_MOST_COMPARED]]
    for kind, number in ((Unequal, 1), (GreaterOrEqual, 1), (GreaterOrEqual, 2)):
        yield from (kind.of(each, Number(number)) for each in sizes)
    for divisor, rest in ((2, 0), (2, 1), (3, 0), (4, 0)):
        yield from (Equal.of(Mod.of(each, Number(divisor)), Number(rest)) for each in axes)
    for one, other in itertools.permutations(sizes, 2):
        is_not_one = Unequal.of(one, Number(1))
        yield Or.of(is_not_one, Unequal.of(other, Number(1)))
        yield Or.of(is_not_one, LessOrEqual.of(other, Number(1)))
        yield from (kind.of(one, other) for kind in (Unequal, LessOrEqual, Less))

"""Calls of operators that the declarations and torch's operator database know, and the programs of declared cases, as
lines of a program, and decks of both.

A call has arguments that are valid for each other. A value of the program takes the place of a tensor of floats if it
can be brought to its dtype, shape and range; indices, masks and all other arguments stay those of the sample.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves, tree_unflatten

from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.case import Case, Declaration
from onnx_parity.harness.cases.declarations import declared_under
from onnx_parity.harness.cases.opinfo_entries import (
    EXCLUDED,
    Database,
    Usable,
    first_dtype,
    read_survey,
    spread,
    survey_path,
)
from onnx_parity.harness.cases.opinfo_samples import Sample, TensorPlace, draw_samples
from onnx_parity.harness.declaration_error import DeclarationError
from onnx_parity.harness.inputs import Maker, name_of
from onnx_parity.harness.record import Kind
from onnx_parity.harness.search.draft import Draft, RefusedError, Value
from onnx_parity.harness.search.fixed import Fixed, fix_values
from onnx_parity.harness.search.generated import NAMES
from onnx_parity.harness.search.parts import Part, is_part, known_failures, parts_of

#: How many cards of the catalogue a program is dealt.
HAND = 4
#: Calls that are kept of one entry of the database.
OF_AN_ENTRY = 6
#: Inputs of more elements than this are left out: they take time and find nothing else.
MOST_ELEMENTS = 600
#: Entries whose tensors have a structure that other values lack: they are sorted, regular, or all different.
STRUCTURED = (
    "searchsorted", "bucketize", "linalg", "cholesky", "lu", "inverse", "logdet", "det", "ormqr", "geqrf", "triangular",
    "pinverse", "matrix_exp", "svd", "histogram", "multinomial", "packed", "ctc", "segment",
    "topk", "sort", "argsort", "median", "nanmedian", "kthvalue", "mode", "argmax", "argmin", "max", "min", "aminmax",
)  # fmt: skip


class NotSpelledError(Exception):
    """An argument that has no source code."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call with places for tensors: `torch.clamp({0}, {1})`."""

    name: str
    text: str
    makers: tuple[Maker, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One of the samples of an entry of the database, which are only made when it is drawn."""

    name: str
    dtype: Dtype
    #: Which of the entry's samples are drawn; `number` says which of these this one is.
    places: tuple[int, ...]
    number: int


#: What a line of a program can be made of.
Card = Part | Call | Entry


class Catalogue:
    """The calls and programs that are known, as decks of cards: programs that follow each other are dealt different
    ones until every card had its turn. Then the deck is shuffled."""

    def __init__(self, declarations: Sequence[Path], survey: Mapping[str, Usable]) -> None:
        failures = known_failures(declarations)
        declared = [each for place in declarations for each in declared_under(place)]
        self._parts: list[Part] = []
        self._calls: list[Card] = []
        for name, declaration in declared:
            if is_part(declaration):
                self._parts += parts_of(name, declaration, failures)
            if _is_call(declaration):
                self._calls += _calls_of_declaration(name, declaration)
        for name, usable in survey.items():
            if name not in EXCLUDED:
                self._calls += _entries(name, usable)
        # If a part is known to fail, a wrong result of what uses it is no finding.
        self._cards = [*(each for each in self._parts if not each.failures), *self._calls]

    @classmethod
    def of_project(cls, declarations: Sequence[Path]) -> Catalogue:
        survey = read_survey(survey_path(Database.OPERATORS.value.absolute()))
        return cls([place for place in declarations if place.name != "model_zoo"], survey)

    def hand(self, seed: int, number: int) -> Hand:
        """The cards of the program of a number, in a search of this seed: two of three are parts side by side."""
        turn, place = divmod(number, 3)
        if place and self._parts:
            return Hand(_dealt(self._parts, seed, 2 * turn + place - 1), side_by_side=True)
        return Hand(_dealt(self._cards, seed, turn if self._parts else number))


@dataclass(frozen=True, slots=True)
class Hand:
    """What a program is dealt. Parts side by side are the whole program, and each is judged as its case declares."""

    cards: Sequence[Card] = ()
    side_by_side: bool = False


def _dealt(deck: Sequence[Card], seed: int, number: int) -> list[Card]:
    """The hand of a number, of a deck that is shuffled whenever it has been dealt."""
    turn, place = divmod(number, max(1, math.ceil(len(deck) / HAND)))
    order = _order(len(deck), f"{seed} {turn}")
    return [deck[each] for each in order[place * HAND : (place + 1) * HAND]]


@lru_cache(maxsize=2)
def _order(length: int, seed: str) -> list[int]:
    return random.Random(seed).sample(range(length), length)


def add_to(draft: Draft, card: Card) -> None:
    """Add a line that calls an operator, or the program of a declared case."""
    if isinstance(card, Part):
        draft.rule = card.name
        draft.call(card)
        return
    call = _call_of_entry(card) if isinstance(card, Entry) else card
    if call is None:
        return
    draft.rule = call.name
    keeps = call.name.startswith(STRUCTURED)
    own = [_given(draft, maker) if keeps or not _replaceable(maker) else None for maker in call.makers]
    operands = [each or _fitted(draft, maker) for each, maker in zip(own, call.makers, strict=True)]
    makes, text = results_of(call, operands)
    if makes:
        draft.add_all(text, *operands, makes=makes)


def _entries(name: str, usable: Usable) -> list[Entry]:
    """Some samples in the first dtype of an entry, and one in each other one."""
    first = first_dtype(usable)
    if first is None or first.startswith("complex"):
        return []
    few = spread(usable[first], OF_AN_ENTRY)
    others = [
        dtype for dtype, places in usable.items() if places and dtype != first and not dtype.startswith("complex")
    ]
    entries = [Entry(name, first, few, number) for number in range(len(few))]
    return entries + [Entry(name, dtype, spread(usable[dtype], 1), 0) for dtype in others]


def _call_of_entry(entry: Entry) -> Call | None:
    return calls_of_entry(entry.name, entry.dtype, entry.places)[entry.number]


@cache
def calls_of_entry(name: str, dtype: Dtype, places: tuple[int, ...]) -> tuple[Call | None, ...]:
    """The calls of these samples; None for one that no line of a program can be."""
    samples = draw_samples(name, dtype, 0)
    return tuple(_of_sample(name, samples[place]) if place < len(samples) else None for place in places)


def _of_sample(entry: str, sample: Sample) -> Call | None:
    function = torch.overrides.resolve_name(sample.operator)
    if function is None or not all(map(_is_usable, sample.tensors)):
        return None
    tensors = iter(range(len(sample.tensors)))
    places = [_Place(next(tensors)) if isinstance(leaf, TensorPlace) else leaf for leaf in sample.leaves]
    args, kwargs = tree_unflatten(places, sample.spec)
    makers = tuple(map(fix_values, sample.tensors))
    return _call(entry, function, args, kwargs, makers)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a tensor among the arguments of a call."""

    number: int


def _is_call(declaration: Declaration) -> bool:
    """Whether it declares calls of a function of torch."""
    return (
        type(declaration) is Declaration
        and declaration.kind is Kind.OPERATOR
        and not isinstance(declaration.program, type)
        and torch.overrides.resolve_name(declaration.program) is not None
    )


@cache
def _calls_of_declaration(name: str, declaration: Declaration) -> tuple[Call, ...]:
    return tuple(call for case in declaration.cases(name) if (call := _of_case(case)) is not None)


def _of_case(case: Case) -> Call | None:
    declaration = case.declaration
    dtype = getattr(torch, declaration.dtypes[0])
    makers: list[Fixed] = []

    def placed(value: object) -> object:
        if isinstance(value, Maker):
            tensor = value.make(0, name_of(value.dtype or dtype))
            makers.append(fix_values(tensor))
            return _Place(len(makers) - 1)
        return tuple(map(placed, value)) if isinstance(value, tuple) else value

    try:
        arguments = tuple(map(placed, declaration.inputs))
        keywords = {key: placed(value) for key, value in case.arguments.items()}
    except DeclarationError:  # An input that is a list of tensors.
        return None
    if not all(_is_usable(maker.tensor) for maker in makers):
        return None
    function = torch.overrides.resolve_name(declaration.program)
    return _call(case.name, function, arguments, keywords, tuple(makers))


def _call(
    name: str, function: str, arguments: Sequence[object], keywords: Mapping[str, object], makers: tuple[Maker, ...]
) -> Call | None:
    try:
        if not function.startswith("torch."):
            return None
        parts = [*map(spelled, arguments), *(f"{key}={spelled(value)}" for key, value in keywords.items())]
    except NotSpelledError:
        return None
    return Call(name, f"{function}({', '.join(parts)})", makers) if makers else None


def spelled(value: object) -> str:
    """An argument as source code, in which places of tensors are `{0}`."""
    if isinstance(value, _Place):
        return f"{{{value.number}}}"
    if isinstance(value, bool | int | float | str | type(None)):
        return repr(value).replace("{", "{{").replace("}", "}}")
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, tuple | list) and type(value) in (tuple, list, torch.Size):
        inner = ", ".join(map(spelled, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, slice):
        return f"slice({spelled(value.start)}, {spelled(value.stop)}, {spelled(value.step)})"
    raise NotSpelledError(repr(value))


def _is_usable(tensor: torch.Tensor) -> bool:
    """Whether it is small, and of finite real numbers: programs are to be finite, and NaN has cases of its own."""
    return tensor.numel() <= MOST_ELEMENTS and not tensor.is_complex() and bool(torch.isfinite(tensor).all())


def _replaceable(maker: Maker) -> bool:
    return isinstance(maker, Fixed) and maker.tensor.is_floating_point()


def _given(draft: Draft, maker: Maker) -> Value:
    return draft.given(maker, {})


def _fitted(draft: Draft, maker: Maker) -> Value:
    """A value of the program with the dtype and shape of a sample's tensor, and within its range; or that tensor."""
    assert isinstance(maker, Fixed)
    tensor = maker.tensor
    count = tensor.numel()
    found = [
        each
        for each in draft.values.values()
        if each.dtype == tensor.dtype and each.tensor.numel() and each.tensor.shape == each.other.shape
    ]
    if not found or not count or draft.chance(0.4):
        return _given(draft, maker)
    value = draft.random.choice(found)
    value.uses += 1
    if value.tensor.shape != tensor.shape:
        have = value.tensor.numel()
        times = math.ceil(count / have)
        repeated = f".repeat({times})" if times > 1 else ""
        part = f"[:{count}]" if have * times > count else ""
        value = draft.add(f"{{0}}.flatten(){repeated}{part}.reshape({tuple(tensor.shape)})", value)
    low, high = tensor.double().aminmax()
    return draft.within(value, low.item(), max(high.item(), low.item() + 1e-3))


def _writes(tensors: Iterable[torch.Tensor], operands: Sequence[Value]) -> bool:
    return any(not torch.equal(now, each.tensor) for now, each in zip(tensors, operands, strict=True))


def results_of(call: Call, operands: Sequence[Value]) -> tuple[int, str]:
    """How many tensors a call returns, and the text that returns just these. Complex numbers become pairs of reals."""
    given = {f"t{number}": each.tensor.clone() for number, each in enumerate(operands)}
    text = call.text.format(*(f"t{number}" for number in range(len(operands))))
    try:
        result = eval(text, {**NAMES, **given})
    except Exception as error:
        raise RefusedError(f"{text}: {error}") from error
    # A call that writes to an argument, as batch norm does, may read another that is the same value before or after.
    if len(set(map(id, operands))) < len(operands) and _writes(given.values(), operands):
        return 0, ""
    leaves = tree_leaves(result)
    is_one = isinstance(result, torch.Tensor)
    is_plain = is_one or (isinstance(result, tuple | list) and len(leaves) == len(result))
    if not is_plain or not leaves or not all(isinstance(x, torch.Tensor) and x.layout is torch.strided for x in leaves):
        return 0, ""
    if len(leaves) > 1 and not any(each.is_complex() for each in leaves):
        return len(leaves), call.text
    first = call.text if is_one else f"{call.text}[0]"
    return 1, f"torch.view_as_real({first}.resolve_conj())" if leaves[0].is_complex() else first

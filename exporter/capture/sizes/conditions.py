"""What a condition on sizes says about them, in the branch of a program that runs only where it holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.solve import try_solve
from torch.utils._sympy.value_ranges import ValueRanges

__all__ = ["narrowed", "satisfying"]

_Ranges = dict[sympy.Symbol, ValueRanges[Any]]
#: How many sizes are changed together to make a condition hold, and how many values of each are tried.
_MOST_CHANGED = 2
_MOST_TRIED = 32


def narrowed(ranges: Mapping[sympy.Symbol, ValueRanges[Any]], question: sympy.Basic) -> _Ranges:
    """The ranges of sizes where a condition holds, as far as it is about one size at a time."""
    found = dict(ranges)
    for part in question.args if isinstance(question, sympy.And) else (question,):
        symbols = part.free_symbols & found.keys()
        if not isinstance(part, sympy.Rel) or len(symbols) != 1 or symbols != part.free_symbols:
            continue
        (symbol,) = symbols
        solved = try_solve(part, symbol)
        if solved is None or not solved[1].is_Integer:
            continue
        limit = int(solved[1])
        match solved[0]:
            case sympy.Eq():
                bounds = (limit, limit)
            case sympy.Gt():
                bounds = (limit + 1, int_oo)
            case sympy.Ge():
                bounds = (limit, int_oo)
            case sympy.Lt():
                bounds = (-int_oo, limit - 1)
            case sympy.Le():
                bounds = (-int_oo, limit)
            case _:
                continue
        low, high = max(found[symbol].lower, bounds[0]), min(found[symbol].upper, bounds[1])
        if low <= high:
            found[symbol] = ValueRanges(low, high)
    return found


def satisfying(hints: Mapping[sympy.Symbol, int], questions: Sequence[sympy.Basic]) -> dict[sympy.Symbol, int]:
    """Values of sizes for which all the conditions hold, as like the given ones as possible.

    Those that are given if no others are found. A size is never set to 0 or 1, for which torch would record the program
    as it runs for empty or broadcast tensors.
    """
    for changed in _changes(hints, questions):
        tried = {**hints, **changed}
        if all(question.xreplace(tried) == sympy.true for question in questions):
            return tried
    return dict(hints)


def _changes(hints: Mapping[sympy.Symbol, int], questions: Sequence[sympy.Basic]) -> Iterator[dict[sympy.Symbol, int]]:
    yield {}
    asked = {symbol for question in questions for symbol in question.free_symbols if symbol in hints}
    numbers = {int(abs(each)) for question in questions for each in question.atoms(sympy.Integer)}
    near = {number + step for number in numbers for step in (-1, 0, 1, 2)} | {hints[symbol] + 1 for symbol in asked}
    known = {hints[symbol] + step for symbol in asked for step in (-1, 0, 1)}
    values = sorted(value for value in near | known | {3, 4, 5, 7, 2} if value > 1)
    for count in range(1, min(len(asked), _MOST_CHANGED) + 1):
        for symbols in itertools.combinations(sorted(asked, key=str), count):
            choices = [_nearest(values, hints[symbol]) for symbol in symbols]
            for chosen in itertools.product(*choices):
                yield dict(zip(symbols, chosen, strict=True))


def _nearest(values: Sequence[int], hint: int) -> list[int]:
    return sorted(values, key=lambda value: abs(value - hint))[:_MOST_TRIED]

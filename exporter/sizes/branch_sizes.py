"""Sizes with which a branch of a program is recorded that runs only where conditions on sizes hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from onnx_parity.exporter.expressions.expression import Expression, Number, Symbol

__all__ = ["find_sizes"]

#: How many sizes are changed together to make a condition hold, and how many values of each are tried.
_MOST_CHANGED = 2
_MOST_TRIED = 32


def find_sizes(hints: Mapping[Symbol, int], questions: Sequence[Expression]) -> dict[Symbol, int]:
    """Values of sizes for which all the conditions hold, as like the given ones as possible.

    Those that are given if no others are found. A size is never set to 0 or 1, for which torch would record the program
    as it runs for empty or broadcast tensors.
    """
    for changed in _changes(hints, questions):
        tried = {**hints, **changed}
        if all(question.free_symbols <= tried.keys() and question.holds_at(tried) for question in questions):
            return tried
    return dict(hints)


def _changes(hints: Mapping[Symbol, int], questions: Sequence[Expression]) -> Iterator[dict[Symbol, int]]:
    yield {}
    asked = {symbol for question in questions for symbol in question.free_symbols if symbol in hints}
    numbers = {abs(number) for question in questions for number in _integers(question)}
    near = {number + step for number in numbers for step in (-1, 0, 1, 2)} | {hints[symbol] + 1 for symbol in asked}
    known = {hints[symbol] + step for symbol in asked for step in (-1, 0, 1)}
    values = sorted(value for value in near | known | {3, 4, 5, 7, 2} if value > 1)
    for count in range(1, min(len(asked), _MOST_CHANGED) + 1):
        for symbols in itertools.combinations(sorted(asked, key=str), count):
            choices = [_nearest(values, hints[symbol]) for symbol in symbols]
            for chosen in itertools.product(*choices):
                yield dict(zip(symbols, chosen, strict=True))


def _integers(expression: Expression) -> Iterator[int]:
    if isinstance(expression, Number) and isinstance(expression.plain, int):
        yield expression.plain
    for each in expression.args:
        yield from _integers(each)


def _nearest(values: Sequence[int], hint: int) -> list[int]:
    return sorted(values, key=lambda value: abs(value - hint))[:_MOST_TRIED]

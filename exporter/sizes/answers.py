"""Answers to questions about sizes: what was asked, by whom, and which of them fix a size."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.expressions.bounds import ANY, Range
from onnx_parity.exporter.expressions.conditions import Equal, Unequal, negated
from onnx_parity.exporter.expressions.expression import Condition, Expression, Plain, Symbol
from onnx_parity.exporter.expressions.integers_and_reals import Max
from onnx_parity.exporter.expressions.polynomials import is_polynomial
from onnx_parity.exporter.expressions.solving import where_holds
from onnx_parity.exporter.graph.graph import Origin

__all__ = [
    "Answer",
    "answers_of_both",
    "are_independent",
    "declared_range",
    "fixed_together",
    "says_special",
    "with_counted_numbers",
]


class Answer(msgspec.Struct, frozen=True):
    """A comparison or other expression over sizes that was evaluated with the example's sizes."""

    expression: Expression
    answer: Plain
    origin: Origin
    #: Whether the user's own code needed the answer (`if x.shape[0] > 1`), rather than torch.
    by_user: bool
    #: Whether the example has the other answer: it has a size of 0 or 1, and was recorded with another one.
    is_other_in_example: bool = False
    #: Whether it is the question if a tensor and what `contiguous` or `reshape` made of it are one.
    is_about_copy: bool = False
    #: Whether torch raises an error where it does not hold, so that the program does not run there.
    is_checked: bool = False
    #: What PyTorch does where it does not hold, if that is a defect of its kernel.
    otherwise: str = ""

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset(self.expression.free_symbols)

    @property
    def holding(self) -> Expression:
        """The condition that holds for the sizes of the recording."""
        return self.expression if self.answer else negated(self.expression)

    def fixes(self) -> bool:
        """Whether the answer fixes a size: `s0 == 3` was True, or `int(s0)` was computed."""
        if not isinstance(self.expression, Condition):
            return True
        if not isinstance(self.expression, Equal | Unequal) or self.answer != isinstance(self.expression, Equal):
            return False
        sides = self.expression.args
        if any(side.is_float for side in sides):
            return False
        number = max((side.plain for side in sides if side.is_Integer), default=0)  # type: ignore[attr-defined]
        sides = tuple(_not_cut_off(side, number) for side in sides)
        difference = sides[0] - sides[1]
        return len(difference.free_symbols) == 1 and is_polynomial(difference)


def answers_of_both(
    before: Mapping[Expression, Answer], inside: Mapping[Expression, Answer]
) -> dict[Expression, Answer]:
    """The answers before a side of a branch on sizes and those on it, of which those to the user's code count first.

    Raises if a question has one answer there and another one elsewhere: no condition on sizes says both.
    """
    for question in before.keys() & inside.keys():
        if before[question].answer != inside[question].answer:
            raise CaptureError(
                "what the program asks about dynamic sizes has another answer on the other side of a branch on sizes: "
                f"branch once, or compute the same on both sides{inside[question].origin.in_brackets}"
            )
    kept = {each: how for each, how in before.items() if how.by_user or not inside.get(each, how).by_user}
    return {**before, **inside, **kept}


def _not_cut_off(size: Expression, number: Plain) -> Expression:
    """`n - 2` for `Max(0, n - 2)`, as the length of a slice is spelled, and `n` for `Max(1, n)`, as a stride is, which
    is a number. They are equal if it is a larger one."""
    others = [each for each in size.args if not (each.is_Integer and each.plain < number)]  # type: ignore[attr-defined]
    return others[0] if isinstance(size, Max) and len(others) == 1 < len(size.args) else size


def fixed_together(answers: Iterable[Answer]) -> list[Answer]:
    """The answers of the user's code that leave only one possible size: the end of `while i < n` fixes n."""
    possible: dict[Symbol, Range] = {}
    found = []
    for known in answers:
        if not known.by_user or isinstance(known.expression, Equal | Unequal):
            continue
        solved = where_holds(known.holding)
        if solved is None:
            continue
        symbol, where = solved
        possible[symbol] = possible.get(symbol, ANY) & where
        if possible[symbol].is_single:
            found.append(known)
    return found


def are_independent(one: Expression, other: Expression) -> bool:
    """Whether two sizes are computed from those of different axes."""
    return bool(one.free_symbols and other.free_symbols and one.free_symbols != other.free_symbols)


def says_special(question: Expression, answer: Plain) -> bool:
    """Whether an answer says that a size that is computed from others is 0 or 1."""
    if not isinstance(question, Equal | Unequal) or answer != isinstance(question, Equal):
        return False
    size, number = question.args
    return number in (0, 1) and not size.is_Symbol


def with_counted_numbers(question: Expression) -> str:
    """The text of a question about numbers that were read from tensors, which are counted."""
    symbols = sorted(question.free_symbols, key=str)
    return str(question.xreplace({each: Symbol(f"number_{place}") for place, each in enumerate(symbols, 1)}))


def declared_range(limits: tuple[Any, Any] | None) -> Range:
    """The range of a size. Limits of torch's programs are numbers of sympy, which has an infinity of its own."""
    low, high = limits or (0, math.inf)
    return Range(int(low) if low > -sys.maxsize else -math.inf, int(high) if high < sys.maxsize else math.inf)

"""The numbers of the iterations of loops over dynamic sizes, each of them less than the number of all."""

from __future__ import annotations

from onnx_parity.exporter.expressions.expression import Expression, Number
from onnx_parity.exporter.expressions.integers_and_reals import Max

__all__ = ["Iterations"]


class Iterations:
    """What is known of the numbers of iterations."""

    def __init__(self) -> None:
        #: For each of them the number of all iterations, and the same as this one, one more, and those that follow.
        self._known: dict[Expression, tuple[Expression, Expression]] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, place: Expression, count: Expression, following: Expression) -> None:
        self._known[place] = count, place + 1 + following

    def concern(self, question: Expression) -> bool:
        return not question.free_symbols.isdisjoint(self._known)

    def applied(self, question: Expression) -> Expression:
        """A question in which the size that a loop is over is the number of an iteration and of those around it."""
        for place in question.free_symbols & self._known.keys():
            question = _with_equal(question, *self._known[place])
        return question


def _with_equal(question: Expression, count: Expression, equal: Expression) -> Expression:
    if isinstance(count, Max) and Number(0) in count.args:
        # There is an iteration, so that the number of all is positive.
        (count,) = [each for each in count.args if each != Number(0)][:1]
    for symbol, coefficient in count.terms()[1]:
        if symbol.is_Symbol and coefficient == 1:
            return question.xreplace({symbol: symbol + equal - count})
    return question

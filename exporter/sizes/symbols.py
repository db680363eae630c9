"""Symbols for dynamic sizes, and a record of what was decided by them.

`Symbols` answers each comparison of sizes with the example's sizes and records the answer. If an answer fixes a dynamic
axis, capture fails with an error that names the line. The same holds for several answers that together leave one
possible size, such as those of a `while` loop over a size. Any other answer that is not the same for all sizes is a
branch (`branches`): `tracing/branches_on_sizes.py` finds out whether the other side matters. After the recording it is
closed: a lowering that needs a number is refused. It takes the place of torch's `ShapeEnv`, which evaluates each
comparison with sympy, and of whose methods it has those that torch calls while a program is recorded.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from onnx_parity.exporter.errors import CaptureError, Unsupported
from onnx_parity.exporter.expressions.bounds import Range, bounds, known_truth
from onnx_parity.exporter.expressions.conditions import And, Comparison, Equal, LessOrEqual, Not, Or
from onnx_parity.exporter.expressions.expression import Condition, Expression, Number, Plain, Symbol, expression_of
from onnx_parity.exporter.expressions.integers_and_reals import Min
from onnx_parity.exporter.expressions.solving import follows_from, holds_everywhere, in_order, in_short, narrowed
from onnx_parity.exporter.graph.decisions import Decision, Decisions
from onnx_parity.exporter.graph.graph import Origin, Size, Varying
from onnx_parity.exporter.sizes.answers import (
    Answer,
    answers_of_both,
    are_independent,
    declared_range,
    fixed_together,
    says_special,
    with_counted_numbers,
)
from onnx_parity.exporter.sizes.branch_sizes import find_sizes
from onnx_parity.exporter.sizes.iterations import Iterations
from onnx_parity.exporter.sizes.numbers_of_values import NumbersOfValues
from onnx_parity.exporter.sizes.python_functions import follow_calls_in
from onnx_parity.exporter.sizes.size_node import SizeNode, expression_of_size
from onnx_parity.exporter.torch_inside.frames import (
    FrameType,
    Place,
    asks_for_its_caller,
    current_frame,
    is_function_of_torch,
    nearest_user_place,
    runs_users_code,
    who_asks,
)
from onnx_parity.exporter.torch_inside.sym_nodes import asking_files, error_of_unknown_answer

__all__ = ["Symbols"]

# Frames of these files, and of torch, lie between the comparison of two sizes and the code that needs its result.
asks_for_its_caller(__file__)
for _file in asking_files():
    asks_for_its_caller(_file)

_OCCUPIED, _GENERAL = Range(1, math.inf), Range(2, math.inf)


class Symbols(NumbersOfValues):
    """The symbols of one recording, and the sizes that they have in it."""

    # What torch asks of its own environment.
    allow_scalar_outputs = allow_dynamic_output_shape_ops = True

    def __init__(
        self,
        decisions: Decisions = frozenset(),
        denied: frozenset[Expression] = frozenset(),
        followed: frozenset[str] = frozenset(),
    ) -> None:
        """`denied` are questions that are given the other answer where the program itself asks them; `followed` are
        places of code in which the calls of Python's functions were exchanged."""
        self.decisions = decisions
        self._denied = denied
        self._followed = followed
        self._asked_of_denied: set[Expression] = set()
        #: The question that was answered last, for which there is another answer too.
        self._asked_last: Expression | None = None
        #: The sizes with which the program is recorded.
        self.hints: dict[Symbol, int] = {}
        self._example: dict[Symbol, int] = {}
        self._ranges: dict[Symbol, Range] = {}
        super().__init__()
        self.answers: dict[Expression, Answer] = {}
        #: The conditions of PyTorch's kernels, of which nothing is said.
        self.kernels: list[Answer] = []
        #: Comparisons in the program whose results follow from the declared ranges.
        self._certain: dict[Expression, Plain] = {}
        #: The conditions on sizes that hold where the program now runs, because it is within branches on them.
        self._conditions: tuple[Expression, ...] = ()
        #: Whether a size computed from others, which is 0 or 1 in the example, was taken to be neither.
        self.has_taken_general = False
        self.iterations = Iterations()
        #: The refusal of a program that caught an error of a symbolic number, and goes on as it would not with another.
        self.caught: CaptureError | None = None
        #: Whether the recording is over. An answer after that would make a dynamic size a constant of the model.
        self.closed = False
        self.pending_fresh_unbacked_symbols: list[Symbol] = []
        self.let_go()

    def let_go(self) -> None:
        """Forget the recording. Caches of torch refer to environments long after these are used."""
        #: Returns the value that a data-dependent symbol has for the example inputs.
        self.read_symbol: Callable[[str], int | float | None] = lambda name: None
        #: Is told each answer that follows from a value that was read, and returns the one that is to be given.
        self.decided_by_values: Callable[[Plain, str, Expression, bool], Plain] = lambda answer, *_: answer
        #: By the identity of what `contiguous` returned: what it was called on, the former, and whether they are one.
        self.copies: dict[int, tuple[torch.Tensor, torch.Tensor, Any]] = {}
        #: Returns the path of the module that is running.
        self.module_running: Callable[[], str] = lambda: ""
        #: Returns whether a frame that asks a condition is to run the body of a `while`.
        self.stays_in_loop: Callable[..., bool | None] = lambda frame, question: None
        #: Returns the answer that was given to such a question before, if it was asked.
        self.decided_before: Callable[[Expression], Plain | None] = lambda question: None
        #: Returns the answer to a condition that differs between the iterations of the innermost loop that is recorded.
        self.decided_in_loop: Callable[[FrameType, Expression], bool | None] = lambda frame, question: None
        #: Returns the answer to a question of which the model has both sides, on the path that the program runs on.
        self.decided_on_paths: Callable[[FrameType, Expression], bool | None] = lambda frame, question: None
        #: Returns whether the program catches an error that is raised in a frame.
        self.catches_errors: Callable[[FrameType], bool] = lambda frame: False

    # --- new symbols ----------------------------------------------------------------------------------------------

    def new_size(
        self, name: str, hint: int, declared: tuple[Any, Any] | None = None, other: int | None = None
    ) -> torch.SymInt:
        """A symbol for a dynamic size that is `hint` in the example and declared to be within these bounds. The program
        is recorded with another size if it is given."""
        symbol = self._symbol_of(name)
        # With a hint of 0 or 1, torch would record the program as it runs for empty or broadcast tensors.
        self.hints[symbol] = max(2, hint) if other is None else other
        self._example[symbol] = hint
        self._ranges[symbol] = declared_range(declared)
        return torch.SymInt(SizeNode(symbol, self, int))

    def unknown_size(self, like: Size, least: int = 0) -> torch.SymInt:
        """A data-dependent size with a lower bound. Comparisons with it are answered as for `like`, another size."""
        hint = expression_of_size(like).xreplace(self.hints)
        # A number that was read from a tensor has no hint: 2 is used, because 0 and 1 are special.
        # Its name is that of no axis.
        name = f"size {len(self.hints) - len(self._example)}"
        size = self.new_size(name, int(hint.at(dict.fromkeys(hint.free_symbols, 2))), (least, math.inf))
        del self._example[size.node.expr]
        return size

    def _symbol_of(self, name: str) -> Symbol:
        """A symbol whose name follows from that of an axis, so that it is the same in each recording of a program."""
        number = zlib.crc32(name.encode()) % 1000
        while (symbol := Symbol(f"s{number}")) in self.hints:
            number += 1
        return symbol

    # --- what is known --------------------------------------------------------------------------------------------

    def has_value(self, expression: Expression) -> bool:
        """Whether an expression has a value in the recording."""
        return expression.free_symbols <= self.hints.keys()

    def value_of(self, expression: Expression) -> Plain | None:
        """The value of an expression in the recording; None if it depends on values of tensors."""
        return expression.at(self.hints) if self.has_value(expression) else None

    def number_in_example(self, number: Varying, given: Mapping[Symbol, Plain]) -> int | float:
        """The value of a symbolic number for the example inputs, given the values of some symbols."""
        known = self._in_example(number.node.expr.xreplace(given))
        assert known is not None, f"{number} is no number of the program"
        return known

    def _in_example(self, expression: Expression) -> Plain | None:
        """The value of an expression for the example inputs; None if a symbol's value is unknown.

        Reads data-dependent symbols, so it is only used for comparisons in the program itself, and for those by which
        its results differ, as those of `squeeze` do.
        """
        known: dict[Symbol, Plain] = dict(self._example)
        for symbol in expression.free_symbols - self._example.keys():
            number = self.read_symbol(str(symbol))
            if number is None:
                return None
            known[symbol] = number
        return expression.at(known)

    def is_in_example(self, size: torch.SymInt) -> bool:
        """Whether a size depends on sizes of inputs only, and not on values that the program computes."""
        return self.is_of_inputs(size.node.expr)

    def is_of_values(self, size: Expression) -> bool:
        """Whether a size is computed from values, and not only from the sizes of inputs."""
        return not self.has_value(size)

    def is_of_inputs(self, expression: Expression) -> bool:
        """Whether an expression is one over sizes of inputs."""
        return expression.free_symbols <= self._example.keys()

    def is_of_input(self, name: str) -> bool:
        """Whether a symbol, by its name, is the size of an input."""
        return any(str(symbol) == name for symbol in self._example)

    def never_negative(self, number: torch.SymInt, along: Size | None = None) -> bool:
        """Whether a number cannot be negative if no axis is empty, or if the one `along` which it is an index is not.
        Negative indices count from the end of an axis."""
        expression = number.node.expr
        if (expression_of(0), expression) in self._known_orders:
            return True
        axes = expression.free_symbols if along is None else expression_of_size(along).free_symbols
        occupied = {each: self._ranges[each] & _OCCUPIED for each in axes & self._ranges.keys()}
        ranges = {**self._ranges, **self._read, **occupied}
        return bounds(expression, ranges).lower >= 0 or in_order(Number(0), expression, ranges)

    @contextmanager
    def where(self, condition: Expression) -> Iterator[None]:
        """Within, the program runs only where a condition on sizes holds, which for the example it may not.

        Comparisons are answered with sizes for which it holds, and what follows from it is no assumption.
        """
        outside = self.hints, self._ranges, self._conditions, self.answers, self._certain
        self._conditions = (*self._conditions, condition)
        self.hints = find_sizes(self.hints, self._conditions)
        self._ranges = narrowed(self._ranges, condition)
        self.answers, self._certain = {}, {}
        try:
            yield
        finally:
            hints, ranges, asked = self.hints, self._ranges, self.answers
            self.hints, self._ranges, self._conditions, self.answers, self._certain = outside
            # Sizes that are new have been made inside, and what was assumed there has to be right too.
            self.hints.update({symbol: hint for symbol, hint in hints.items() if symbol not in self.hints})
            self._ranges.update({symbol: known for symbol, known in ranges.items() if symbol not in self._ranges})
        self.answers = answers_of_both(self.answers, asked)

    def known_here(self, question: Expression) -> bool | None:
        """The answer to a question that follows from the branches on sizes within which the program runs."""
        if not self._conditions:
            return None
        held = {part for each in self._conditions for part in (each.args if isinstance(each, And) else (each,))}
        if question in held or Not.of(question) in held:
            return question in held
        return known_truth(question, self._ranges)

    def holds_here(self, condition: Expression) -> bool:
        """Whether a condition is known to hold within the branches on sizes within which the program runs."""
        return self.known_here(condition) or follows_from(condition, self._conditions)

    def never_exceeds(self, number: Size, limit: Size) -> bool:
        """Whether a number is at most the limit for all sizes within the declared ranges, as far as can be shown."""
        low, high = expression_of_size(number), expression_of_size(limit)
        if (low, high) in self._known_orders or in_order(low, high, self._ranges):
            return True
        order = LessOrEqual.of(low, high)
        return self.iterations.concern(order) and self.known(order) is True

    def know_order(self, number: Size, limit: Size) -> None:
        """Take a number to be at most the limit, because torch raises where it is not."""
        self._known_orders.add((expression_of_size(number), expression_of_size(limit)))

    def least(self, size: torch.SymInt, occupied: Iterable[Expression] = ()) -> int:
        """A lower bound of a size where others are not 0."""
        ranges: dict[Any, Range] = {**self._ranges}
        # None of the factors of what is not 0 is 0.
        factors = [factor for each in occupied for factor in (each, *each.factors()[1])]
        ranges |= {each: bounds(each, ranges) & _OCCUPIED for each in factors if bounds(each, ranges).lower >= 0}
        return int(max(bounds(size.node.expr, ranges).lower, 0))

    def unlike_the_example(self) -> list[Symbol]:
        """The symbols of sizes that were recorded with another value than they have in the example."""
        return [symbol for symbol, hint in self.hints.items() if hint != self._example.get(symbol, hint)]

    def fixed(self, axis_names: Mapping[str, str]) -> dict[str, Answer]:
        """The names of the dynamic axes that the program fixes to one size, each with the answer that fixes it."""
        answers = list(self.answers.values())
        found: dict[str, Answer] = {}
        for answer in (*filter(Answer.fixes, answers), *fixed_together(answers)):
            for symbol in answer.expression.free_symbols:
                found.setdefault(axis_names.get(str(symbol), str(symbol)), answer)
        return found

    def is_certain(self, question: Expression) -> bool:
        """Whether a question has the same answer for all sizes within the declared ranges."""
        return known_truth(question, self._ranges) is not None

    def known_if_occupied(self, question: Expression) -> bool | None:
        """The answer to a question that holds for all sizes within the declared ranges but 0."""
        return known_truth(question, {symbol: known & _OCCUPIED for symbol, known in self._ranges.items()})

    def is_one_if_occupied(self, size: torch.SymInt) -> bool:
        """Whether a size is 1 unless an axis is empty."""
        expression = size.node.expr
        return isinstance(expression, Min) and self.known_if_occupied(Equal.of(expression, Number(1))) is not None

    def has_one_value(self, number: Expression) -> bool:
        """Whether a number is the same for all sizes within the declared ranges."""
        return bounds(number, self._ranges).is_single

    def holds_in_example(self, question: Expression) -> bool:
        """The answer for the example, where the model will have all answers, so that nothing is assumed."""
        return self._in_example(question) is True

    @property
    def has_denied(self) -> bool:
        """Whether the program asked all questions that were denied."""
        return self._asked_of_denied == self._denied

    @property
    def failed_at_denied(self) -> bool:
        """Whether nothing was asked after a question that was denied. If the program failed, it was because of it."""
        return self._asked_last in self._asked_of_denied

    def branches(self) -> list[Answer]:
        """The answers that may be other ones for other sizes, as far as can be shown.

        torch asks of many sizes whether they are 0 or 1. For these it does what ONNX does by itself: it expands them.
        """
        return [
            each
            for each in self.answers.values()
            if each.by_user
            or (not each.is_checked and self.is_of_inputs(each.expression) and not self._is_usual(each.expression))
        ]

    def equalities(self) -> list[Answer]:
        """The answers that torch took two dynamic sizes as equal, which may only have been broadcast together."""
        asked = (each for each in self.answers.values() if not each.by_user and self.is_of_inputs(each.expression))
        return [each for each in asked if isinstance(each.holding, Equal) and are_independent(*each.holding.args)]

    def _is_usual(self, question: Expression) -> bool:
        """Whether a question of torch has the same answer for all sizes that are neither 0 nor 1, or is whether a size
        that is computed from others is one of these."""
        general = {**self._read, **{symbol: known & _GENERAL for symbol, known in self._ranges.items()}}
        question = in_short(question, general)
        is_small = isinstance(question, Comparison) and question.args[1] in (0, 1, 2)
        if is_small or (isinstance(question, And | Or | Not) and all(map(self._is_usual, question.args))):
            return True
        return holds_everywhere(question, general) or holds_everywhere(Not.of(question), general)

    # --- answers --------------------------------------------------------------------------------------------------

    def decided(self, question: Expression) -> bool:
        """Answer a question that decides the result but that torch does not ask, such as whether `squeeze` drops an
        axis."""
        known = known_truth(question, self._ranges)
        if known is not None:
            return known
        # A size that the example does not tell is assumed not to be the special case that the question is about.
        found = self._in_example(question)
        if found is not None and not self.is_of_inputs(question):
            return bool(self.decided_by_values(bool(found), with_counted_numbers(question), question, True))
        answer = bool(found)
        user = nearest_user_place(current_frame())
        asked = self.answers.get(question)
        if asked is None or not asked.by_user:
            self.answers[question] = Answer(question, answer, self._origin(user), by_user=True)
        self._asked_last = question
        return not answer if self._denies(question, by_user=True) else answer

    def raise_where(self, condition: Expression, error: Exception) -> None:
        """Raise an error of Python's that it has where a condition holds, if the program catches it: a question."""
        asker, _ = who_asks(current_frame(1))
        if runs_users_code(asker) and self.catches_errors(asker) and self.decided(condition):
            raise error

    def lost_copy(self, condition: Expression, origin: Origin) -> None:
        """Note that the program does something else where a condition holds, which decides what a write changes."""
        is_none_in_example = self._in_example(condition) is True
        self.answers[condition] = Answer(condition, False, origin, True, is_none_in_example, is_about_copy=True)

    def _denies(self, question: Expression, *, by_user: bool) -> bool:
        """Whether a question is given the other answer."""
        denied = by_user and question in self._denied
        if denied:
            self._asked_of_denied.add(question)
        return denied

    def _origin(self, user: Place | None) -> Origin:
        # A program that consists of torch's own code, such as a Sequential of layers, has no line: name the layer.
        return Origin(user.file, user.line, "") if user is not None else Origin("", 0, self.module_running())

    def answer(
        self, question: Expression, fallback: bool | None = None, *, general: bool = False, is_checked: bool = False
    ) -> Plain:
        """The value of an expression in the recording, which is noted.

        torch gives a `fallback` where it can do without an answer, and asks for a `general` one where the sizes 0 and 1
        need not be told from others. Where a question that `is_checked` does not hold, an error is raised.
        """
        if question.is_number:
            return question.plain  # type: ignore[attr-defined, no-any-return]
        self._asked_last = question
        asker, in_python = who_asks(current_frame(1))
        user = nearest_user_place(asker) if in_python else None
        by_user = user is not None and user.frame is asker
        if by_user and (goes_on := self.stays_in_loop(asker, question)) is not None:
            return goes_on
        if question in self._certain:
            return self._certain[question]
        if by_user and (on_path := self.decided_on_paths(asker, question)) is not None:
            return on_path
        known = self.answers.get(question)
        # What torch has asked before is a branch of the program if the program asks it too.
        is_known = known is not None and known.by_user >= by_user and known.is_checked <= is_checked
        if known is not None and is_known and question not in self._denied:
            return known.answer
        if self.closed:
            raise Unsupported(f"its lowering needs {question} as a constant, but it is a dynamic size")
        user = user or nearest_user_place(asker)
        if user is not None and user.frame is asker and Decision.PLAIN_NUMBERS not in self.decisions:
            follow_calls_in(asker, self._followed)
        is_question = isinstance(question, Condition)
        if by_user and is_question and not self.is_of_inputs(question):
            if (certain := self.known(question)) is not None:
                return certain
            if (decided := self.decided_in_loop(asker, question)) is not None:
                return decided
        if not self.has_value(question):
            # Checks in torch itself (such as for contiguity) have answers that hold for all sizes; some have a fallback
            # value. A number is needed by the program, in `int(x)` or for an operator that accepts only numbers.
            if (by_user or self.iterations) and (certain := self.known(question)) is not None:
                return certain
            is_of_program = (user is not None and asker is user.frame) or (in_python and is_function_of_torch(asker))
            followed = fallback is None and (is_of_program or not is_question)
            if followed and (before := self.decided_before(question)) is not None:
                return before
            answer = self._in_example(question) if followed and self.known(question) is None else None
            if answer is None:
                return self._of_values(question, fallback, general)
            spelled = "" if by_user else with_counted_numbers(question)
            return self.decided_by_values(answer, spelled, question, not is_of_program)
        answer = question.at(self.hints)
        if Decision.SPECIAL_SIZES_OF_EXAMPLE not in self.decisions and not by_user and says_special(question, answer):
            # As with a hint of 0 or 1, torch would record the program as it runs for empty or broadcast tensors.
            self.has_taken_general = True
            return not answer
        if (by_user or self._conditions) and is_question:
            certain = known_truth(question, self._ranges)
            if certain is not None:
                self._certain[question] = certain
                return certain
        if self._denies(question, by_user=by_user):
            return not answer
        if not is_question and self.has_one_value(question):
            self._certain[question] = answer
            return answer
        is_other = question.free_symbols <= self._example.keys() and question.at(self._example) != answer
        is_checked = is_checked and bool(answer) and not by_user
        self.answers[question] = Answer(question, answer, self._origin(user), by_user, is_other, is_checked=is_checked)
        return answer

    def evaluate_sym_node(
        self, node: SizeNode, size_oblivious: bool = False, fallback_value: bool | None = None
    ) -> Plain:
        return self.answer(node.expr, fallback_value, general=size_oblivious)

    def known(self, question: Expression) -> bool | None:
        """The answer to a question that holds for all sizes and values."""
        if question in self._assured:
            return True
        if Not.of(question) in self._assured:
            return False
        return known_truth(self.iterations.applied(question), {**self._ranges, **self._read})

    def _of_values(self, question: Expression, fallback: bool | None, general: bool) -> Plain:
        """The answer to a question about values that are not known."""
        known = self.known(question)
        if known is None and general:
            usual = {symbol: self._read[symbol] & _GENERAL for symbol in self._counts}
            known = known_truth(question, {**self._ranges, **self._read, **usual})
        if known is None:
            known = fallback
        if known is None:
            raise error_of_unknown_answer(question)
        return known

    def is_assured(self, question: Expression) -> bool:
        """Whether what the program checks holds, as far as is known. It is taken to hold after that."""
        known = self.known(question)
        if known is None:
            self._assured.add(question)
            self._read = narrowed(self._read, question)
        return known is not False

    def optimization_hint(self, number: Expression, fallback: int | None = None) -> Plain:
        known = self.value_of(number)
        if known is None:
            known = fallback
        return self._of_values(number, None, general=False) if known is None else known

    guarding_hint_or_throw = optimization_hint

    def _maybe_evaluate_static(self, expression: Expression, **_: Any) -> bool | None:
        return self.known(expression)

    def ignore_fresh_unbacked_symbols(self) -> AbstractContextManager[None]:
        return nullcontext()

    suppress_guards = ignore_fresh_unbacked_symbols

"""Symbols for dynamic sizes, and a record of what the program assumed about them.

`HintedShapeEnv` answers each comparison of sizes with the example's sizes and records the answer; torch's own
environment evaluates each one with sympy. If an answer fixes a dynamic axis, capture fails with an error that names the
line of the comparison. The same holds for several answers that together leave one possible size, such as those of a
`while` loop over a size. After the recording the environment is closed: a lowering that needs a number is refused.

This file imports sympy, which takes 0.3 s and is only needed for dynamic sizes. It keeps torch's symbols from importing
`torch._dynamo`, which would take another 0.6 s.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import msgspec
import sympy
import torch
from sympy.logic.boolalg import BooleanAtom, BooleanFunction
from torch._guards import Source
from torch.fx.experimental import _config, recording, sym_node, symbolic_shapes
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.functions import Max
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.solve import try_solve
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from onnx_parity.exporter.capture.graph.graph import Origin, Size, Varying
from onnx_parity.exporter.capture.graph.origin import Place, asked_for_caller, asks_for_its_caller, nearest_user_place
from onnx_parity.exporter.capture.sizes.conditions import narrowed, satisfying
from onnx_parity.exporter.capture.sizes.order import in_order
from onnx_parity.exporter.capture.sizes.size_node import SizeNode
from onnx_parity.exporter.errors import Unsupported
from onnx_parity.exporter.startup.deferred_imports import StandIn, standing_in

__all__ = ["Assumption", "HintedShapeEnv", "is_question"]

for _module in (torch, recording, sym_node, symbolic_shapes):
    # Frames of torch itself lie between the comparison of two sizes and the code that needs its result.
    asks_for_its_caller(str(_module.__file__))


class Assumption(msgspec.Struct, frozen=True):
    """A comparison or other expression over sizes that was evaluated with the example's sizes."""

    expression: sympy.Basic
    answer: sympy.Basic
    origin: Origin
    #: Whether the user's own code needed the answer (`if x.shape[0] > 1`), rather than torch.
    by_user: bool

    def spelled(self, axis_names: Mapping[str, str]) -> str:
        """The expression, with the user's names for the sizes."""
        names = {
            symbol: sympy.Symbol(axis_names.get(str(symbol), str(symbol))) for symbol in self.expression.free_symbols
        }
        return str(self.expression.xreplace(names))

    def fixes(self) -> bool:
        """Whether the answer fixes a size: `s0 == 3` was True, or `int(s0)` was computed."""
        if isinstance(self.expression, sympy.Eq):
            sides, holds = self.expression.args, self.answer == sympy.true
        elif isinstance(self.expression, sympy.Ne):
            sides, holds = self.expression.args, self.answer == sympy.false
        else:
            return not is_question(self.expression)
        if any(side.is_Integer and side > 0 for side in sides):
            sides = tuple(map(_not_cut_off, sides))
        difference = sides[0] - sides[1]
        return bool(holds and difference.is_polynomial() and len(difference.free_symbols) == 1)


def _not_cut_off(size: sympy.Expr) -> sympy.Expr:
    """`n - 2` for `Max(0, n - 2)`, as the length of a slice is spelled. They are equal unless it is 0."""
    others = [each for each in size.args if each != 0]
    return others[0] if isinstance(size, (Max, sympy.Max)) and len(others) == 1 < len(size.args) else size


def _fixed_together(assumptions: Iterable[Assumption]) -> list[Assumption]:
    """The assumptions of the user's code that leave only one possible size: the end of `while i < n` fixes n."""
    bounds: dict[sympy.Basic, tuple[Any, Any]] = {}
    found = []
    for assumption in assumptions:
        expression = assumption.expression
        if not assumption.by_user or len(expression.free_symbols) != 1 or not isinstance(expression, sympy.Rel):
            continue
        (symbol,) = expression.free_symbols
        solved = try_solve(expression if assumption.answer == sympy.true else ~expression, symbol)
        if solved is None or not solved[1].is_Integer:
            continue
        low, high = bounds.get(symbol, (-int_oo, int_oo))
        limit = solved[1]
        match solved[0]:
            case sympy.Gt():
                low = max(low, limit + 1)
            case sympy.Ge():
                low = max(low, limit)
            case sympy.Lt():
                high = min(high, limit - 1)
            case sympy.Le():
                high = min(high, limit)
        bounds[symbol] = (low, high)
        if low == high:
            found.append(assumption)
    return found


def is_question(expression: sympy.Basic) -> bool:
    """Whether the answer is a boolean rather than a number. (In sympy a symbol is a Boolean too.)"""
    return isinstance(expression, (sympy.core.relational.Relational, BooleanAtom, BooleanFunction))


def _says_special(question: sympy.Basic, answer: sympy.Basic) -> bool:
    """Whether an answer says that a size that is computed from others is 0 or 1."""
    if not isinstance(question, (sympy.Eq, sympy.Ne)) or (answer == sympy.true) != isinstance(question, sympy.Eq):
        return False
    size, number = question.args
    return number in (0, 1) and not size.is_Symbol


def _expression(size: Size) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def _remembering(number: Any) -> Any:
    """A symbolic number whose operations are computed once; any other number is returned as it is."""
    if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        SizeNode.of(number.node)
    return number


@dataclass(frozen=True)
class _Axis(Source):
    """The source of a symbol, which torch requires. torch's own classes are in torch._dynamo, a second to import."""

    axis: str

    @property
    def _name_template(self) -> str:
        return self.axis


@contextmanager
def _without_dynamo() -> Iterator[None]:
    """Within, creating a ShapeEnv does not import dynamo, which would take 0.7 s, for its check of a z3 option."""
    if _config.translation_validation:
        yield
        return
    with standing_in(StandIn("torch.fx.experimental.validator", translation_validation_enabled=lambda: False)):
        yield


class HintedShapeEnv(ShapeEnv):
    """A `ShapeEnv` that answers with the example's sizes and records its answers.

    torch's own environment evaluates each comparison with sympy, which is most of the cost of symbolic sizes.
    """

    def __init__(self, denied: frozenset[sympy.Basic] = frozenset()) -> None:
        """`denied` are questions that are given the other answer where the program itself asks them."""
        with _without_dynamo():
            super().__init__(specialize_zero_one=False, duck_shape=False)
        self._denied = denied
        self._asked_of_denied: set[sympy.Basic] = set()
        self.hints: dict[sympy.Symbol, int] = {}
        self._example: dict[sympy.Symbol, int] = {}
        self._ranges: dict[sympy.Symbol, ValueRanges[Any]] = {}
        self.assumptions: dict[sympy.Basic, Assumption] = {}
        #: Comparisons in the program whose results follow from the declared ranges.
        self._certain: dict[sympy.Basic, sympy.Basic] = {}
        #: Whether the number of axes of a result may stay open where it depends on sizes.
        self.keeps_ranks = True
        #: The conditions on sizes that hold where the program now runs, because it is within branches on them.
        self._conditions: tuple[sympy.Basic, ...] = ()
        #: Whether sizes computed from others are taken to be neither 0 nor 1, although they may be in the example.
        self.takes_general = True
        #: Whether such a size was taken to be general.
        self.has_taken_general = False
        #: Whether the parts of a tensor are selected one by one where the program calls `unbind`.
        self.selects = False
        #: Results of arithmetic on sizes, and nodes of plain ints.
        self.computed: dict[Any, SymNode] = {}
        self.constants: dict[int, SymNode] = {}
        #: Numbers that are at most another one wherever the program runs.
        self._known_orders: set[tuple[sympy.Basic, sympy.Basic]] = set()
        #: Whether the recording is over. An answer after that would make a dynamic size a constant of the model.
        self.closed = False
        self.let_go()

    def let_go(self) -> None:
        """Forget the recording. Caches of torch refer to environments long after these are used."""
        #: Returns the value that a data-dependent symbol has for the example inputs.
        self.read_symbol: Callable[[str], int | float | None] = lambda name: None
        #: Returns the path of the module that is running.
        self.module_running: Callable[[], str] = lambda: ""

    def create_symintnode(self, *args: Any, **kwargs: Any) -> Any:
        return _remembering(super().create_symintnode(*args, **kwargs))

    def create_symfloatnode(self, *args: Any, **kwargs: Any) -> Any:
        return _remembering(super().create_symfloatnode(*args, **kwargs))

    def create_symboolnode(self, *args: Any, **kwargs: Any) -> Any:
        return _remembering(super().create_symboolnode(*args, **kwargs))

    def create_unbacked_symint(self, *args: Any, **kwargs: Any) -> Any:
        return _remembering(super().create_unbacked_symint(*args, **kwargs))

    def create_unbacked_symfloat(self, *args: Any, **kwargs: Any) -> Any:
        return _remembering(super().create_unbacked_symfloat(*args, **kwargs))

    def create_unbacked_symbool(self, *args: Any, **kwargs: Any) -> Any:
        return _remembering(super().create_unbacked_symbool(*args, **kwargs))

    def unknown_size(self, like: Size) -> torch.SymInt:
        """A data-dependent size. Comparisons with it are answered as for `like`, another size."""
        hint = sympy.sympify(like if isinstance(like, int) else like.node.expr.xreplace(self.hints))
        # A number that was read from a tensor has no hint: 2 is used, because 0 and 1 are special.
        hint = hint.xreplace(dict.fromkeys(hint.free_symbols, sympy.Integer(2)))
        size = self.new_size(f"size_{len(self.hints)}", int(hint) if hint.is_Integer else 2)
        del self._example[size.node.expr]
        return size

    def size_of(self, expression: sympy.Expr) -> Size:
        """A size for an expression over sizes."""
        return int(expression) if expression.is_Integer else self.create_symintnode(expression, hint=None)

    def new_size(self, name: str, hint: int, bounds: tuple[Any, Any] | None = None) -> torch.SymInt:
        """A symbol for a dynamic size that is `hint` in the example and declared to be within `bounds`."""
        size_of_example = hint
        # With a hint of 0 or 1, torch would record the program as it runs for empty or broadcast tensors.
        hint = hint if hint > 1 else 2
        source = _Axis(name)
        # torch's default `positive=True` would let sympy conclude that no tensor is empty.
        symbol = self.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None, positive=None)
        self.hints[symbol] = hint
        self._ranges[symbol] = ValueRanges(*(bounds or (0, int_oo)))
        self._example[symbol] = size_of_example
        size = self.create_symintnode(symbol, hint=hint, source=source)
        assert isinstance(size, torch.SymInt)
        return size

    def number_in_example(self, number: Varying, given: Mapping[sympy.Basic, int | float]) -> int | float:
        """The value of a symbolic number for the example inputs, given the values of some symbols."""
        known = self._in_example(number.node.expr.xreplace({each: sympy.sympify(given[each]) for each in given}))
        assert known is not None, f"{number} is no number of the program"
        if isinstance(number, torch.SymBool):
            return bool(known)
        return int(known) if isinstance(number, torch.SymInt) else float(known)

    def _in_example(self, expression: sympy.Basic) -> sympy.Basic | None:
        """The value of an expression for the example inputs; None if a symbol's value is unknown.

        Reads data-dependent symbols, so it is only used for comparisons in the program itself, and for those by which
        its results differ, as those of `squeeze` do.
        """
        known: dict[sympy.Basic, int | float] = dict(self._example)
        for symbol in expression.free_symbols - self._example.keys():
            number = self.read_symbol(str(symbol))
            if number is None:
                return None
            known[symbol] = number
        return expression.xreplace(known)

    def is_in_example(self, size: torch.SymInt) -> bool:
        """Whether a size depends on sizes of inputs only, and not on values that the program computes."""
        return self.is_of_inputs(size.node.expr)

    def _set_replacement(self, a: sympy.Symbol, tgt: sympy.Expr, msg: str) -> None:
        # torch takes a size that it expands to a known one as equal to that, but it may be 1.
        if not (tgt.is_Integer and self.is_of_values(a)):
            super()._set_replacement(a, tgt, msg)

    def is_of_values(self, size: sympy.Expr) -> bool:
        """Whether a size is computed from values, and not only from the sizes of inputs."""
        return not size.free_symbols <= self.hints.keys()

    def is_of_inputs(self, expression: sympy.Basic) -> bool:
        """Whether an expression is one over sizes of inputs."""
        return bool(expression.free_symbols <= self._example.keys())

    def is_of_input(self, name: str) -> bool:
        """Whether a symbol, by its name, is the size of an input."""
        return any(str(symbol) == name for symbol in self._example)

    def never_negative(self, number: torch.SymInt) -> bool:
        """Whether a number cannot be negative if no axis is empty. Negative indices count from the end of an axis."""
        if (sympy.Integer(0), number.node.expr) in self._known_orders:
            return True
        known = number.node.expr.free_symbols & self._ranges.keys()
        occupied = {symbol: self._ranges[symbol] & ValueRanges(1, int_oo) for symbol in known}
        return bool(bound_sympy(number.node.expr, occupied).lower >= 0)

    @contextmanager
    def where(self, condition: sympy.Basic) -> Iterator[None]:
        """Within, the program runs only where a condition on sizes holds, which for the example it may not.

        Comparisons are answered with sizes for which it holds, and what follows from it is no assumption.
        """
        outside = self.hints, self._ranges, self._conditions, self.assumptions, self._certain
        self._conditions = (*self._conditions, condition)
        self.hints = satisfying(self.hints, self._conditions)
        self._ranges = narrowed(self._ranges, condition)
        self.assumptions, self._certain = {}, {}
        try:
            yield
        finally:
            inside = self.hints, self._ranges, self.assumptions
            self.hints, self._ranges, self._conditions, self.assumptions, self._certain = outside
            # Sizes that are new have been made inside, and what was assumed there has to be right too.
            self.hints.update({symbol: hint for symbol, hint in inside[0].items() if symbol not in self.hints})
            self._ranges.update({symbol: known for symbol, known in inside[1].items() if symbol not in self._ranges})
            self.assumptions.update({each: how for each, how in inside[2].items() if each not in self.assumptions})

    def known_here(self, question: sympy.Basic) -> bool | None:
        """The answer to a question that follows from the branches on sizes within which the program runs."""
        if not self._conditions:
            return None
        possible = bound_sympy(question, self._ranges)
        return bool(possible.lower) if possible.is_singleton() else None

    def never_exceeds(self, number: Size, limit: Size) -> bool:
        """Whether a number is at most the limit for all sizes within the declared ranges, as far as can be shown."""
        low, high = _expression(number), _expression(limit)
        return (low, high) in self._known_orders or in_order(low, high, self._ranges)

    def know_order(self, number: Size, limit: Size) -> None:
        """Take a number to be at most the limit, because torch raises where it is not."""
        self._known_orders.add((_expression(number), _expression(limit)))

    def least(self, size: torch.SymInt) -> int:
        """A lower bound of a size."""
        return int(max(bound_sympy(size.node.expr, self._ranges).lower, 0))

    def unlike_the_example(self) -> list[sympy.Symbol]:
        """The symbols of sizes that were recorded with another value than they have in the example."""
        return [symbol for symbol, hint in self.hints.items() if hint != self._example.get(symbol, hint)]

    def fixing(self) -> list[Assumption]:
        """The assumptions that fix a size."""
        assumptions = list(self.assumptions.values())
        return [*filter(Assumption.fixes, assumptions), *_fixed_together(assumptions)]

    def is_certain(self, question: sympy.Basic) -> bool:
        """Whether a question has the same answer for all sizes within the declared ranges."""
        return bool(bound_sympy(question, self._ranges).is_singleton())

    def holds_in_example(self, question: sympy.Basic) -> bool:
        """The answer for the example, where the model will have all answers, so that nothing is assumed."""
        return bool(self._in_example(question) == sympy.true)

    @property
    def has_denied(self) -> bool:
        """Whether the program asked all questions that were denied."""
        return self._asked_of_denied == self._denied

    def branches(self) -> list[Assumption]:
        """The questions that the program itself asked."""
        return [each for each in self.assumptions.values() if each.by_user]

    def decided(self, question: sympy.Basic) -> bool:
        """Answer a question that decides the result but that torch does not ask, such as whether `squeeze` drops an
        axis."""
        possible = bound_sympy(question, self._ranges)
        if possible.is_singleton():
            return bool(possible.lower)
        # A size that the example does not tell is assumed not to be the special case that the question is about.
        answer = self._in_example(question) or sympy.false
        user = nearest_user_place(sys._getframe())
        origin = self._origin(user)
        self.assumptions.setdefault(question, Assumption(question, answer, origin, by_user=True))
        if question in self._denied:
            self._asked_of_denied.add(question)
            return not answer
        return bool(answer)

    def _origin(self, user: Place | None) -> Origin:
        # A program that consists of torch's own code, such as a Sequential of layers, has no line: name the layer.
        return Origin(user.file, user.line, "") if user is not None else Origin("", 0, self.module_running())

    def _get_user_frame(self) -> FrameType | None:
        # torch's own implementation imports dynamo and inductor to recognize their files.
        user = nearest_user_place(sys._getframe(1))
        return user.frame if user is not None else sys._getframe(1)

    def replace(self, expr: Any) -> Any:  # type: ignore[override]
        # torch calls this for every expression. Without specialized sizes there is nothing to replace.
        return super().replace(expr) if self.replacements else expr

    def evaluate_expr(self, orig_expr: sympy.Basic, hint: Any = None, *args: Any, **kwargs: Any) -> sympy.Basic:
        known = self.assumptions.get(orig_expr)
        if known is not None and orig_expr not in self._denied:
            return known.answer
        if orig_expr in self._certain:
            return self._certain[orig_expr]
        if not orig_expr.free_symbols:
            return orig_expr
        if self.closed:
            raise Unsupported(f"its lowering needs {orig_expr} as a constant, but it is a dynamic size")
        frame = sys._getframe(1)
        asker = frame
        in_python = False
        while asker.f_back is not None and asked_for_caller(asker.f_code):
            # Without a frame of `SymBool.__bool__` the comparison was made in C++, such as an index check.
            in_python = in_python or asker.f_code.co_filename == torch.__file__
            asker = asker.f_back
        user = nearest_user_place(frame)
        if not orig_expr.free_symbols <= self.hints.keys():
            # Checks in torch itself (such as for contiguity) have answers that hold for all sizes; some have a fallback
            # value. A number is needed by the program, in `int(x)` or for an operator that accepts only numbers.
            has_answer = kwargs.get("fallback_value") is not None
            followed = not has_answer and ((user is not None and asker is user.frame) or not is_question(orig_expr))
            answer = self._in_example(orig_expr) if followed else None
            return super().evaluate_expr(orig_expr, hint, *args, **kwargs) if answer is None else answer
        answer = orig_expr.xreplace(self.hints)
        origin = self._origin(user)
        by_user = user is not None and asker is user.frame and in_python
        if self.takes_general and not by_user and _says_special(orig_expr, answer):
            # As with a hint of 0 or 1, torch would record the program as it runs for empty or broadcast tensors.
            self.has_taken_general = True
            return sympy.Not(answer)
        if by_user and orig_expr in self._denied:
            self._asked_of_denied.add(orig_expr)
            return sympy.Not(answer)
        if (by_user or self._conditions) and is_question(orig_expr):
            possible = bound_sympy(orig_expr, self._ranges)
            if possible.is_singleton():
                self._certain[orig_expr] = possible.lower
                return possible.lower
        self.assumptions[orig_expr] = Assumption(orig_expr, answer, origin, by_user)
        return answer

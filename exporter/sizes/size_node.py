"""What stands behind a dynamic size: torch's `SymNode` with expressions of this exporter.

torch computes the same few expressions over and over: for each tensor the number of its elements, its strides, whether
it is contiguous. Its own nodes compute them with sympy. Here they are computed with `exporter.expressions`, once for
each operation and its operands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from onnx_parity.exporter.expressions import conditions
from onnx_parity.exporter.expressions import integers_and_reals as of
from onnx_parity.exporter.expressions.expression import (
    Add,
    Condition,
    Expression,
    Mul,
    Number,
    Plain,
    expression_of,
    known,
)
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.sizes import layouts
from onnx_parity.exporter.torch_inside.frames import FrameType, asks_for_its_caller, current_frame, runs_users_code
from onnx_parity.exporter.torch_inside.loops.said_texts import is_only_said
from onnx_parity.exporter.torch_inside.sym_nodes import SymNode
from onnx_parity.exporter.torch_inside.this_thread import recorder_here, records_here

__all__ = [
    "Answers",
    "SizeNode",
    "as_number",
    "bit_length_of",
    "expression_of_size",
    "function_of",
    "with_text_of_number",
]

# Frames of this file lie between the comparison of two sizes and the code that needs its result.
asks_for_its_caller(__file__)


class Answers(Protocol):
    """What a node asks of the symbols of its recording, which `symbols.py` has."""

    #: Results of arithmetic on sizes, and nodes of plain numbers.
    computed: dict[Any, SizeNode]

    def has_value(self, expression: Expression) -> bool: ...
    def value_of(self, expression: Expression) -> Plain | None: ...
    def answer(
        self, question: Expression, fallback: bool | None = None, *, general: bool = False, is_checked: bool = False
    ) -> Plain: ...
    def is_assured(self, question: Expression) -> bool: ...
    def known(self, question: Expression) -> bool | None: ...
    def known_if_occupied(self, question: Expression) -> bool | None: ...
    def raise_where(self, condition: Expression, error: Exception) -> None: ...


class SizeNode(SymNode):
    """The node of a `SymInt`, a `SymFloat` or a `SymBool`."""

    shape_env: Any
    _expr: Expression

    def __init__(self, expression: Expression, symbols: Answers, pytype: type) -> None:
        self._expr = expression
        self.shape_env = symbols
        self.pytype = pytype
        self.fx_node = None
        #: torch takes a number that is known to be one of Python's.
        self.constant = known(expression) if expression.is_number else None

    @property
    def expr(self) -> Any:
        return self._expr

    @property
    def hint(self) -> Any:
        """Its value in the recording; None if that depends on values."""
        return self.shape_env.value_of(self._expr)

    _hint = hint

    def has_hint(self) -> bool:
        return bool(self.shape_env.has_value(self._expr))

    def maybe_as_int(self) -> int | None:
        return self.constant if type(self.constant) is int else None

    def maybe_as_float(self) -> float | None:
        return self.constant if type(self.constant) is float else None

    def maybe_as_bool(self) -> bool | None:
        return self.constant if type(self.constant) is bool else None

    def is_nested_int(self) -> bool:
        return False

    def wrap_int(self, num: int) -> SymNode:
        return self._plain(num)

    def wrap_float(self, num: float) -> SymNode:
        return self._plain(num)

    def wrap_bool(self, num: bool) -> SymNode:
        return self._plain(num)

    def _plain(self, number: Any) -> SymNode:
        # 1, 1.0 and True would be one key, as would 0.0 and -0.0.
        key = (type(number), repr(number) if type(number) is float else number)
        return _known(self.shape_env, key, lambda: SizeNode(expression_of(number), self.shape_env, type(number)))

    def sym_sum(self, args: list[SymNode]) -> SymNode:
        return SizeNode(Add.of(*[each.expr for each in args]), self.shape_env, int)

    def evaluate(self, size_oblivious: bool = False) -> Any:
        return self.shape_env.answer(self._expr, general=size_oblivious)

    def expect_true(self, file: str, line: int) -> bool:
        if self.has_hint():
            return bool(self.shape_env.answer(self._expr, is_checked=True))
        return bool(self.shape_env.is_assured(self._expr))

    def statically_known_true(self, file: str, line: int) -> bool:
        return self.shape_env.known(self._expr) is True

    def guard_or_false(self, file: str, line: int) -> bool:
        return bool(self.shape_env.answer(self._expr, fallback=False))

    def guard_or_true(self, file: str, line: int) -> bool:
        return bool(self.shape_env.answer(self._expr, fallback=True))

    def _graph_repr(self) -> str:
        """The text of a symbolic number: for the program that of the number in the example, else that of a symbol."""
        return self.formatted("", current_frame(2))

    def formatted(self, form: str, asker: FrameType) -> str:
        """The text in some format, such as `04d`, for the code that makes it."""
        if not records_here() or not runs_users_code(asker):
            return str(self.str())
        text = self._text_with({}, form) if self.has_hint() else str(self.str())
        if is_only_said(asker):
            return text
        if not self.has_hint():
            return recorder_here().reader.text_of(text)
        names = {*map(str, self._expr.free_symbols)}
        return recorder_here().reader.text_of(text, names, lambda sizes: self._text_with(sizes, form))

    def _text_with(self, sizes: Mapping[str, int], form: str) -> str:
        """The text of the number where some dynamic sizes, by their names, are others than in the recording."""
        others = {each: size for each in self._expr.free_symbols if (size := sizes.get(str(each))) is not None}
        try:
            number = self.shape_env.value_of(self._expr.xreplace(others))
        except ArithmeticError:  # It is divided by one of these sizes.
            number = self.shape_env.value_of(self._expr)
        return format(self.pytype(number), form)

    def _round(self, digits: int | None = None) -> SymNode:
        if digits is not None and not self.has_hint():
            # The number is read from a tensor: it is frozen, with a warning.
            raise NotImplementedError(f"rounding a number that depends on values to {digits} digits")
        if digits is not None:
            raise refused_here(
                f"rounding a number that is computed from dynamic sizes to {digits} digits is not supported: round an "
                "integer, as in round(a * 10) / 10, or use tensors and torch.round"
            )
        return SizeNode(of.RoundToInt.of(self._expr), self.shape_env, int)

    def _sym_ite(self, then: SymNode, otherwise: SymNode) -> SymNode:
        return SizeNode(of.Choice.of(self._expr, then.expr, otherwise.expr), self.shape_env, then.pytype)


class _NodeOfNumber(SizeNode):
    """A node whose text is that of a number, which fixes the size. The text of others is that of a symbol."""

    def formatted(self, form: str, asker: FrameType) -> str:
        if is_only_said(asker) and self.has_hint():
            return self._text_with({}, form)
        return format(self.guard_int("", 0) if self.pytype is int else self.guard_float("", 0), form)


_SYMBOLIC: dict[type, Any] = {int: torch.SymInt, float: torch.SymFloat, bool: torch.SymBool}


def as_number(expression: Expression, symbols: Answers) -> Any:
    """The number of the program that an expression stands for: a plain one if it is known."""
    if expression.is_number:
        return known(expression)
    pytype = bool if isinstance(expression, Condition) else float if expression.is_float else int
    return _SYMBOLIC[pytype](SizeNode(expression, symbols, pytype))


def expression_of_size(size: Size) -> Expression:
    return expression_of(size) if isinstance(size, int) else size.node.expr


def with_text_of_number(number: Any) -> Any:
    """A symbolic number whose text is that of a number, as texts of what `int` and `len` return are."""
    if not isinstance(number, (torch.SymInt, torch.SymFloat)):
        return number
    node = number.node
    return type(number)(_NodeOfNumber(node.expr, node.shape_env, node.pytype))


#: How a number compares with 0 of which a function is not defined.
_UNDEFINED = {"sqrt": conditions.Less, **dict.fromkeys(("log", "log2", "log10"), conditions.LessOrEqual)}


def function_of(name: str, number: torch.SymInt | torch.SymFloat) -> torch.SymFloat:
    """A function of Python's `math`, such as `sqrt`, of a symbolic number."""
    node = number.node
    if name in _UNDEFINED:
        node.shape_env.raise_where(_UNDEFINED[name].of(node.expr, Number(0)), ValueError("math domain error"))
    return torch.SymFloat(SizeNode(of.ELEMENTARY[name].of(_as_float(node)), node.shape_env, float))


def bit_length_of(number: torch.SymInt) -> torch.SymInt:
    """Python's `int.bit_length` of a symbolic number, by which programs find the next power of two."""
    node = number.node
    return torch.SymInt(SizeNode(of.bit_length(node.expr), node.shape_env, int))


def _as_float(node: SymNode) -> Expression:
    return node.expr if node.pytype is float else of.ToFloat.of(node.expr)


# --- operations -------------------------------------------------------------------------------------------------------

_Operation = Callable[..., Expression]


#: The operations of two integers, and those of two of which at least one is a float.
_OF_INTEGERS: dict[str, _Operation] = {
    "add": Add.of,
    "sub": operator.sub,
    "mul": Mul.of,
    "mod": of.Mod.of,
    "int_floordiv": of.FloorDiv.of,
    "int_truediv": of.IntTrueDiv.of,
    "pow_by_natural": of.Pow.of,
    "lshift": of.shifted_left,
    "rshift": of.shifted_right,
    "bitwise_and": of.BitwiseAnd.of,
    "bitwise_or": of.bitwise_or,
    "bitwise_xor": of.bitwise_xor,
}
_OF_FLOATS: dict[str, _Operation] = {
    "add": of.FloatAdd.of,
    "sub": of.FloatSub.of,
    "mul": of.FloatMul.of,
    "float_truediv": of.FloatDiv.of,
    "int_truediv": of.FloatDiv.of,
    "float_pow": of.FloatPow.of,
}
_OF_BOTH: dict[str, _Operation] = {
    "eq": conditions.Equal.of,
    "ne": conditions.Unequal.of,
    "lt": conditions.Less.of,
    "le": conditions.LessOrEqual.of,
    "gt": conditions.Greater.of,
    "ge": conditions.GreaterOrEqual.of,
    "sym_min": of.Min.of,
    "sym_max": of.Max.of,
}
_OF_CONDITIONS: dict[str, _Operation] = {"and_": conditions.And.of, "or_": conditions.Or.of}
_OF_ONE: dict[str, _Operation] = {
    "neg": lambda number: of.FloatMul.of(Number(-1.0), number) if number.is_float else -number,
    "pos": lambda number: number,
    "abs": of.Abs.of,
    "floor": lambda number: of.FloorToInt.of(number) if number.is_float else number,
    "ceil": lambda number: of.CeilToInt.of(number) if number.is_float else number,
    "trunc": lambda number: of.TruncToInt.of(number) if number.is_float else number,
    "sym_int": lambda number: of.TruncToInt.of(number) if number.is_float else number,
    "sym_float": lambda number: number if number.is_float else of.ToFloat.of(number),
    "sym_not": conditions.Not.of,
    "is_integer": of.is_whole,
    **{f"sym_{name}": function.of for name, function in of.ELEMENTARY.items()},
}
_DIVISIONS = frozenset({"mod", "int_floordiv", "int_truediv", "float_truediv"})
_CONDITIONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "sym_not", "is_integer"})
_INTEGERS = frozenset({"floor", "ceil", "trunc", "sym_int", "pow_by_natural"})
_FLOATS = frozenset(
    {"int_truediv", "float_truediv", "float_pow", "sym_float", *(f"sym_{name}" for name in of.ELEMENTARY)}
)


def _unary(name: str) -> Callable[[SizeNode], SymNode]:
    compute = _OF_ONE[name]

    def operation(self: SizeNode) -> SymNode:
        def made() -> SizeNode:
            number = _as_float(self) if name in _FLOATS else self._expr
            return SizeNode(compute(number), self.shape_env, _type_of(name, self.pytype))

        return _known(self.shape_env, (name, self._expr, self.pytype), made)

    return operation


def _binary(name: str) -> Callable[[SizeNode, SymNode], SymNode]:
    on_floats = name in _OF_FLOATS and name not in _OF_INTEGERS

    def operation(self: SizeNode, other: SymNode) -> SymNode:
        if name in _DIVISIONS and not other.expr.is_number:
            is_zero = conditions.Equal.of(other.expr, Number(0))
            self.shape_env.raise_where(is_zero, ZeroDivisionError("division by zero"))

        def made() -> SizeNode:
            of_floats = on_floats or float in (self.pytype, other.pytype)
            table = _OF_BOTH if name in _OF_BOTH else _OF_FLOATS if of_floats else _OF_INTEGERS
            if name in _OF_CONDITIONS:
                return SizeNode(_OF_CONDITIONS[name](self._expr, other.expr), self.shape_env, bool)
            if name not in table:
                raise refused_here(
                    f"{_SIGNS[name]} of real numbers that are computed from dynamic sizes is not supported"
                )
            sides = (_as_float(self), _as_float(other)) if of_floats else (self._expr, other.expr)
            return SizeNode(table[name](*sides), self.shape_env, _type_of(name, float if of_floats else self.pytype))

        return _known(self.shape_env, (name, self._expr, other.expr, self.pytype, other.pytype), made)

    return operation


#: Operations that are not defined for real numbers here, as Python spells them.
_SIGNS = {
    "mod": "%", "int_floordiv": "//", "pow_by_natural": "**", "lshift": "<<", "rshift": ">>", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip


def _type_of(name: str, operands: type) -> type:
    if name in _CONDITIONS:
        return bool
    return int if name in _INTEGERS else float if name in _FLOATS else operands


def _of_layout(name: str) -> Callable[[SizeNode, Sequence[SymNode], Sequence[SymNode]], SymNode]:
    compute, result = layouts.QUESTIONS[name]

    def operation(self: SizeNode, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        shape, steps = tuple([size.expr for size in sizes]), tuple([stride.expr for stride in strides])
        return _known(
            self.shape_env, (name, shape, steps), lambda: SizeNode(compute(shape, steps), self.shape_env, result)
        )

    return operation


def _known(symbols: Answers, key: Any, compute: Callable[[], SizeNode]) -> SymNode:
    known = symbols.computed.get(key)
    if known is None:
        known = symbols.computed[key] = compute()
    return known


for _name in _OF_ONE:
    setattr(SizeNode, f"_{_name}", _unary(_name))
for _name in {**_OF_INTEGERS, **_OF_FLOATS, **_OF_BOTH, **_OF_CONDITIONS}:
    setattr(SizeNode, f"_{_name}", _binary(_name))
for _name in layouts.QUESTIONS:
    setattr(SizeNode, f"_{_name}", _of_layout(_name))

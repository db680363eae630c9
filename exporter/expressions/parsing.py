"""Conditions over sizes that are given as text: `height % 8 == 0 and batch > 1`."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from onnx_parity.exporter.expressions.conditions import (
    And,
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Not,
    Or,
    Unequal,
)
from onnx_parity.exporter.expressions.expression import Add, Condition, Expression, Mul, Number, Symbol
from onnx_parity.exporter.expressions.integers_and_reals import FloorDiv, Max, Min, Mod

__all__ = ["NotACondition", "over_axes", "parse_condition", "parse_number"]

_Function = Callable[..., Expression]
_OPERATORS: dict[type[ast.operator], _Function] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: Mul.of,
    ast.FloorDiv: FloorDiv.of,
    ast.Mod: Mod.of,
}
_COMPARISONS: dict[type[ast.cmpop], _Function] = {
    ast.Eq: Equal.of,
    ast.NotEq: Unequal.of,
    ast.Lt: Less.of,
    ast.LtE: LessOrEqual.of,
    ast.Gt: Greater.of,
    ast.GtE: GreaterOrEqual.of,
}
_FUNCTIONS: dict[str, _Function] = {"min": Min.of, "max": Max.of}


class NotACondition(ValueError):
    """A text that is no condition over whole numbers."""


def parse_condition(text: str) -> Expression:
    """The condition that a text spells, over symbols of the names in it. Raises NotACondition."""
    condition = _parse(text)
    if not isinstance(condition, Condition):
        raise NotACondition(text)
    return condition


def parse_number(text: str) -> Expression:
    """The number that a text spells, over symbols of the names in it. Raises NotACondition."""
    number = _parse(text)
    if isinstance(number, Condition):
        raise NotACondition(text)
    return number


def _parse(text: str) -> Expression:
    try:
        return _parsed(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise NotACondition(text) from error


def over_axes(condition: Expression, axes: Iterable[str]) -> Expression:
    """A condition over the names of axes, of which some may be expressions: `past + length` is one name where that is
    the name of an axis. A name in it that is no axis, `length`, is what the rest of the expression leaves."""
    names = [*axes]
    for name in names:
        unknown = [each for each in condition.free_symbols if str(each) not in names]
        if not unknown or name.isidentifier():
            continue
        try:
            constant, terms = parse_number(name).terms()
        except NotACondition:
            continue
        for symbol, factor in terms:
            if symbol in unknown and factor > 0:
                others = [Mul.of(Number(-by), each) for each, by in terms if each is not symbol]
                left = Add.of(Symbol(name), Number(-constant), *others)
                condition = condition.xreplace({symbol: left if factor == 1 else FloorDiv.of(left, Number(factor))})
                break
    return condition


def _parsed(tree: ast.expr) -> Expression:
    if isinstance(tree, ast.Compare):
        sides = [_parsed(each) for each in (tree.left, *tree.comparators)]
        pairs = zip(tree.ops, itertools.pairwise(sides), strict=True)
        return reduce(And.of, [_known(_COMPARISONS, type(kind))(*pair) for kind, pair in pairs])
    if isinstance(tree, ast.BoolOp):
        return (And if isinstance(tree.op, ast.And) else Or).of(*map(_parsed, tree.values))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not | ast.USub):
        return Not.of(_parsed(tree.operand)) if isinstance(tree.op, ast.Not) else -_parsed(tree.operand)
    if isinstance(tree, ast.BinOp):
        return _known(_OPERATORS, type(tree.op))(_parsed(tree.left), _parsed(tree.right))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.args and not tree.keywords:
        return _known(_FUNCTIONS, tree.func.id)(*map(_parsed, tree.args))
    if isinstance(tree, ast.Name):
        return Symbol(tree.id)
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return Number(tree.value)
    raise NotACondition(ast.unparse(tree))


def _known(table: Mapping[Any, _Function], key: object) -> _Function:
    if key not in table:
        raise NotACondition(str(key))
    return table[key]

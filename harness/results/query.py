"""The language of `parity query`: conditions on records, such as `stage == "compare" and opset < 11`.

Conditions are written as in Python: names of a record's fields, strings, numbers, comparisons, `in`, `and`, `or`,
`not`, `+ - * /`, and two functions: `like(cell, "elu*")` for patterns with * and ?, and `matches(reason, "regex")`.
`metrics.headroom` and `seconds["export"]` are parts of fields. A part that a record does not have is None; `<`, `<=`,
`>` and `>=` with None are false.
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from onnx_parity.harness.axes import Capture, Device, Dtype, Shapes
from onnx_parity.harness.record import Blame, Kind, Metrics, Record, Stage, Status
from onnx_parity.harness.results.bounded_regex import bounded

FIELDS = Record.__struct_fields__
_METRICS = Metrics.__struct_fields__

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_BY_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _product(left: Any, right: Any) -> Any:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise TypeError("only numbers are multiplied")
    return left * right


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _product,
    ast.Div: operator.truediv,
}
#: Conditions are written by hand. Longer ones would take unbounded time; deeper ones exceed Python's recursion limit.
_LONGEST, _DEEPEST = 10_000, 50
_FUNCTIONS: dict[str, Callable[[str, str], bool]] = {
    # Names of cells contain brackets, which are not sets of characters here.
    "like": lambda text, pattern: fnmatchcase(text, pattern.replace("[", "[[]")),
    "matches": lambda text, pattern: bounded(pattern).search(text) is not None,
}


class QueryError(ValueError):
    """A condition that cannot be evaluated. The message names the part, and what can be written instead."""


@dataclass(frozen=True, slots=True)
class Query:
    """A condition on records."""

    text: str
    _condition: ast.expr

    def holds(self, record: Record) -> bool:
        try:
            return bool(self._value(self._condition, record))
        except (TypeError, ValueError, re.error, ArithmeticError) as error:
            raise QueryError(
                f"{self.text}: {error}, when evaluated for {record.cell}. Check the types of the compared values."
            ) from error

    def of(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records that satisfy the condition."""
        return (record for record in records if self.holds(record))

    def _value(self, node: ast.expr, record: Record) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return getattr(record, name)
            case ast.Attribute(value=of, attr=name):
                return getattr(self._value(of, record), name, None)
            case ast.Subscript(value=of, slice=key):
                container = self._value(of, record)
                return container.get(self._value(key, record)) if isinstance(container, Mapping) else None
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return [self._value(element, record) for element in elements]
            case ast.BoolOp(op=ast.And(), values=values):
                return all(self._value(value, record) for value in values)
            case ast.BoolOp(values=values):
                return any(self._value(value, record) for value in values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._value(operand, record)
            case ast.UnaryOp(operand=operand):
                return -self._value(operand, record)
            case ast.BinOp(left=left, op=sign, right=right):
                sides = self._value(left, record), self._value(right, record)
                return None if None in sides else _ARITHMETIC[type(sign)](*sides)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return _FUNCTIONS[name](*(self._value(argument, record) for argument in arguments))
            case ast.Compare():
                return self._compare(node, record)
        raise AssertionError(f"{ast.dump(node)} passed the check")

    def _compare(self, node: ast.Compare, record: Record) -> bool:
        left = self._value(node.left, record)
        for sign, each in zip(node.ops, node.comparators, strict=True):
            right = self._value(each, record)
            if isinstance(sign, _BY_ORDER) and (left is None or right is None):
                return False
            if not _COMPARE[type(sign)](left, right):
                return False
            left = right
        return True


def parse(text: str) -> Query:
    """The condition in `text`. Raises QueryError if it is not valid, or names a field that does not exist."""
    if len(text) > _LONGEST:
        raise QueryError(f"the condition has {len(text):,} characters, but may have {_LONGEST:,}. {_example()}")
    try:
        condition = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise QueryError(f"{text}: {error.msg} at column {error.offset}. {_example()}") from None
    except (RecursionError, MemoryError):
        raise _too_deep() from None
    except ValueError as error:  # A null character.
        raise QueryError(f"the condition cannot be read: {error}. {_example()}") from None
    _check(condition, text)
    return Query(text, condition)


def _too_deep() -> QueryError:
    return QueryError(f"the condition is nested more than {_DEEPEST} deep. {_example()}")


def _check(node: ast.expr, text: str, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise _too_deep()
    match node:
        case ast.Constant(value=str() | int() | float() | bool() | None):
            return
        case ast.Name(id=name):
            if name not in FIELDS:
                raise QueryError(f"{text}: a record has no field {name!r}. {_suggestion(name, FIELDS)}")
            return
        case ast.Attribute(value=ast.Name(id="metrics"), attr=name):
            if name not in _METRICS:
                raise QueryError(f"{text}: metrics have no field {name!r}. {_suggestion(name, _METRICS)}")
            return
        case ast.Call(func=ast.Name(id=name), args=[_, _], keywords=[]) if name in _FUNCTIONS:
            parts = node.args
        case ast.Subscript(value=ast.Name(id="seconds"), slice=ast.Constant(value=str())):
            return
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.BoolOp(values=parts):
            pass
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            parts = [operand]
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            parts = [left, right]
        case ast.Compare(left=left, ops=signs, comparators=others):
            parts = [left, *others]
            for one, sign, other in zip(parts, signs, others, strict=False):
                if isinstance(sign, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                    _check_values(one, other, text)
                if isinstance(sign, ast.Eq | ast.NotEq):
                    _check_values(other, one, text)
        case _:
            raise QueryError(f"{text}: {ast.unparse(node)!r} is not supported in a condition. {_example()}")
    for part in parts:
        _check(part, text, depth + 1)


#: The fields that have one of a few values, with these.
_VALUES: Mapping[str, Sequence[str]] = {
    "status": tuple(Status),
    "stage": tuple(Stage),
    "blame": tuple(Blame),
    "kind": tuple(Kind),
    "dtype": tuple(Dtype),
    "device": tuple(Device),
    "capture": tuple(Capture),
    "shapes": tuple(Shapes),
}


def _check_values(field: ast.expr, value: ast.expr, text: str) -> None:
    """Refuse a comparison with a text that no record has there: it is misspelt."""
    if not isinstance(field, ast.Name) or field.id not in _VALUES:
        return
    values = value.elts if isinstance(value, ast.List | ast.Tuple | ast.Set) else [value]
    possible = _VALUES[field.id]
    for each in values:
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value not in possible:
            near = difflib.get_close_matches(each.value, possible, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else f"It is one of {', '.join(possible)}."
            raise QueryError(f"{text}: {field.id} is never {each.value!r}. {hint}")


def _suggestion(name: str, names: Iterable[str]) -> str:
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"The fields are {', '.join(names)}."


def _example() -> str:
    return "Write a condition such as: stage == 'compare' and opset < 11"

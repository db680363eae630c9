"""The language of `parity query`: conditions on records, such as `stage == "compare" and opset < 11`.

Conditions are written as in Python: names of a record's fields, strings, numbers, comparisons, `in`, `and`, `or`,
`not`, `+ - * /`, and two functions: `like(cell, "elu*")` for patterns with * and ?, and `matches(reason, "regex")`.
`metrics.headroom` and `seconds["export"]` are parts of fields. A part that a record does not have is None; `<`, `<=`,
`>` and `>=` with None are false.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from onnx_parity.harness.axes import Capture, Device, Dtype, Shapes
from onnx_parity.harness.columnar import Columns, Values
from onnx_parity.harness.record import Blame, Kind, Metrics, Record, Stage, Status
from onnx_parity.harness.results.bounded_regex import bounded

if TYPE_CHECKING:
    import numpy as np

    Rows: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

FIELDS = Record.__struct_fields__
_METRICS = Metrics.__struct_fields__

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}  # fmt: skip
#: What evaluating a condition may raise: its author compared what cannot be compared.
_FAULTS = (TypeError, ValueError, re.error, ArithmeticError)
_BY_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _product(left: Any, right: Any) -> Any:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise TypeError("only numbers are multiplied")
    return left * right


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: _product, ast.Div: operator.truediv,
}  # fmt: skip
#: Conditions are written by hand. Longer ones would take unbounded time; deeper ones exceed Python's recursion limit.
_LONGEST, _DEEPEST = 10_000, 50
_FUNCTIONS: dict[str, Callable[[str, str], bool]] = {
    # Names of cells contain brackets, which are not sets of characters here.
    "like": lambda text, pattern: fnmatchcase(text, pattern.replace("[", "[[]")),
    "matches": lambda text, pattern: bounded(pattern).search(text) is not None,
}


class QueryError(ValueError):
    """A condition that cannot be evaluated. The message names the part, and what can be written instead."""


#: A field of a record, and a part of it or "": `opset`, `metrics.headroom`, `seconds["export"]`.
Path: TypeAlias = tuple[str, str]
_Evaluated: TypeAlias = Callable[[Any], Any]
#: If the fields of a condition have fewer combinations of values, it is evaluated once for each of them.
_MOST_COMBINATIONS = 200_000


@dataclass(frozen=True, slots=True)
class Query:
    """A condition on records."""

    text: str
    _condition: ast.expr

    def holds(self, record: Record) -> bool:
        return next(self.of([record]), None) is not None

    def of(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records that satisfy the condition."""
        condition = _compile(self._condition, _of_record)
        for record in records:
            try:
                holds = condition(record)
            except _FAULTS as error:
                raise self._fault(error, record.cell) from error
            if holds:
                yield record

    def rows(self, columns: Columns) -> list[int]:
        """The rows of the columns that satisfy the condition, in ascending order."""
        import numpy as np

        rows = np.arange(len(columns))
        conjuncts = self._condition.values if _is_conjunction(self._condition) else [self._condition]
        for conjunct in conjuncts:
            # As Python does, the second condition of an `and` is evaluated only where the first one holds.
            rows = self._where(conjunct, columns, rows)
        return [int(row) for row in rows]

    def _where(self, condition: ast.expr, columns: Columns, rows: Rows) -> Rows:
        """Those of the rows in which the condition holds."""
        import numpy as np

        paths = sorted(_paths(condition))
        evaluate = _compile(condition, lambda path: operator.itemgetter(paths.index(path)))
        values = [columns.values(*path) for path in paths]
        lengths = [len(each.distinct) for each in values]
        coded = all(each.codes is not None for each in values) and math.prod(lengths) < _MOST_COMBINATIONS
        if coded:
            codes = np.zeros(len(rows), np.int64)
            for each, length in zip(values, lengths, strict=True):
                assert each.codes is not None
                codes = codes * length + each.codes[rows]
            found, first, place = np.unique(codes, return_index=True, return_inverse=True)
            evaluated = rows[first]
            combinations = np.stack(np.unravel_index(found, lengths), 1).tolist() if paths else [[]]
            items: Iterable[Sequence[Any]] = (
                [each.distinct[c] for each, c in zip(values, row, strict=True)] for row in combinations
            )
        else:
            evaluated = rows
            items = zip(*(_taken(each, rows) for each in values), strict=True)
        holds = np.zeros(len(evaluated), bool)
        try:
            for number, item in enumerate(items):
                holds[number] = bool(evaluate(item))
        except _FAULTS as error:
            raise self._fault(error, columns.values("cell").distinct[evaluated[number]]) from error
        return rows[holds[place]] if coded else rows[holds]

    def _fault(self, error: Exception, cell: str) -> QueryError:
        return QueryError(f"{self.text}: {error}, when evaluated for {cell}. Check the types of what is compared.")


def _taken(values: Values, rows: Rows) -> Sequence[Any]:
    each = values.each()
    return each if len(rows) == len(each) else [each[row] for row in rows.tolist()]


def _is_conjunction(node: ast.expr) -> TypeGuard[ast.BoolOp]:
    return isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)


def _of_record(path: Path) -> _Evaluated:
    field, part = path
    if not part:
        return operator.attrgetter(field)
    if field == "seconds":
        return lambda record: record.seconds.get(part)
    return lambda record: getattr(getattr(record, field), part, None)


def _paths(node: ast.expr) -> frozenset[Path]:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=part):
            return frozenset({(name, part)})
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(part))):
            return frozenset({(name, part)})
        case ast.Call(args=arguments):
            return frozenset().union(*map(_paths, arguments))
        case ast.Name(id=name):
            return frozenset({(name, "")})
    children = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return frozenset().union(*map(_paths, children))


def _compile(node: ast.expr, get: Callable[[Path], _Evaluated]) -> _Evaluated:
    """A function that evaluates the condition for one item. `get` makes those that read a field of an item."""

    def inner(nodes: Iterable[ast.expr]) -> list[_Evaluated]:
        return [_compile(each, get) for each in nodes]

    match node:
        case ast.Constant(value=value):
            return lambda item: value
        case ast.Name() | ast.Attribute() | ast.Subscript():
            (path,) = _paths(node)
            return get(path)
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            parts = inner(elements)
            return lambda item: [part(item) for part in parts]
        case ast.BoolOp(op=ast.And(), values=values):
            conditions = inner(values)
            return lambda item: all(condition(item) for condition in conditions)
        case ast.BoolOp(values=values):
            conditions = inner(values)
            return lambda item: any(condition(item) for condition in conditions)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            (of,) = inner([operand])
            return lambda item: not of(item)
        case ast.UnaryOp(operand=operand):
            (of,) = inner([operand])
            return lambda item: -of(item)
        case ast.BinOp(left=left, op=sign, right=right):
            (one, other), compute = inner([left, right]), _ARITHMETIC[type(sign)]
            return lambda item: None if None in (sides := (one(item), other(item))) else compute(*sides)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            function, parts = _FUNCTIONS[name], inner(arguments)
            return lambda item: function(*(part(item) for part in parts))
        case ast.Compare(left=left, ops=signs, comparators=comparators):
            first, *others = inner([left, *comparators])
            tests = [(_COMPARE[type(sign)], isinstance(sign, _BY_ORDER)) for sign in signs]
            return _chain(first, list(zip(tests, others, strict=True)))
    raise AssertionError(f"{ast.dump(node)} passed the check")


def _chain(first: _Evaluated, steps: list[tuple[tuple[Callable[[Any, Any], bool], bool], _Evaluated]]) -> _Evaluated:
    """A comparison such as `7 <= opset < 11`."""

    def holds(item: Any) -> bool:
        left = first(item)
        for (test, by_order), other in steps:
            right = other(item)
            if (by_order and (left is None or right is None)) or not test(left, right):
                return False
            left = right
        return True

    return holds


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

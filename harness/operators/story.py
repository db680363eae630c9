"""All that is known of one operator: its schemas, the exporter's rules, torch's decomposition, a run, and its cases."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch

from onnx_parity.exporter.registry.lowerings import Lowering, lowerings_of_user, operators_named
from onnx_parity.exporter.registry.rules import Aspect, Rule, all_rules, names_in_index
from onnx_parity.harness.axes import ONNXRUNTIME, PARITY
from onnx_parity.harness.operators.cases import declarations_naming
from onnx_parity.harness.operators.names import OperatorName, base_of
from onnx_parity.harness.operators.taken_apart import can_be_taken_apart, parts_of
from onnx_parity.harness.record import Status
from onnx_parity.harness.store import read_columns, read_records

__all__ = ["Case", "InRun", "RuleOf", "Story", "story_of"]

#: What is read of each cell of a run.
_FIELDS = ("exporter", "runtime", "status", "dtype", "opset", "reason", "name")
_NOT_IN_INDEX = "no export finds it: exporter/registry/index.txt lacks its name, run `python3 start.py index`"


class RuleOf(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the exporter's rules."""

    name: str
    aspect: str
    #: `exporter/operators/shape/recorded.py:12`.
    place: str
    why: str = ""
    #: Of a lowering: the opsets that it needs for some calls, each with the reason.
    needs: dict[int, str] = {}


class Case(msgspec.Struct, frozen=True):
    """A declaration that exercises the operator."""

    name: str
    file: str
    line: int


class InRun(msgspec.Struct, frozen=True):
    """What the cells of a run made of programs that call the operator, or are recorded with it."""

    run: str
    #: The number of cells by their status.
    cells: dict[str, int]
    #: Of the cells that passed in onnxruntime: the opsets of each dtype.
    right: dict[str, list[int]]
    #: The reasons why cells were refused or failed, and how many of them, the most frequent first.
    reasons: dict[str, int]
    #: The declarations of these cells, those with the most cells first.
    declarations: list[str]


class Story(msgspec.Struct, frozen=True):
    """All that is known of an operator."""

    name: str
    schemas: list[str]
    rules: list[RuleOf]
    #: Whether it is lowered to ONNX. If it is not, torch takes it apart into the operators of `parts`.
    is_lowered: bool
    is_taken_apart: bool
    #: None if it is not known into what: no call with made-up arguments succeeded.
    parts: list[str] | None
    in_run: InRun | None
    cases: list[Case]


def story_of(name: OperatorName, text: str, run: Path | None, places: Iterable[Path]) -> Story:
    """The story of an operator. `text` is how it was named, which may be the name of a module that declarations use."""
    rules = [rule for rule in all_rules() if _concerns(rule.name, name)]
    own = [_of_own(str(name), since, function) for since, function in lowerings_of_user(str(name)).items()]
    is_lowered = bool(own) or any(rule.aspect is Aspect.LOWERING for rule in rules)
    taken_apart = [] if is_lowered else [op for op in operators_named(str(name)) if can_be_taken_apart(op)]
    words = {name.base, f"{name.base}_", text.rpartition(".")[2].rpartition("::")[2]}
    return Story(
        name=str(name),
        schemas=[
            str(schema)
            for schema in torch._C._jit_get_schemas_for_operator(f"{name.namespace}::{name.base}")
            if name.overload in ("", schema.overload_name)
        ],
        rules=[*own, *map(_of_rule, rules)],
        is_lowered=is_lowered,
        is_taken_apart=bool(taken_apart),
        parts=next(([*parts] for op in taken_apart if (parts := parts_of(op)) is not None), None),
        in_run=None if run is None else _in_run(run, name, words),
        cases=[Case(each.name, str(each.file), each.line) for each in declarations_naming(words, places)],
    )


def _concerns(rule: str, name: OperatorName) -> bool:
    """Whether a rule of this name is one of the operator, its form that writes in place, or a function of its name."""
    namespace, colons, rest = rule.partition("::")
    if base_of(rule) != name.plain or (colons and namespace not in (name.namespace, "prims", "quantized")):
        return False
    overload = rest.partition(".")[2]
    return not name.overload or overload in ("", name.overload)


def _of_rule(rule: Rule) -> RuleOf:
    needs = _opsets_needed(rule.function) if rule.aspect is Aspect.LOWERING else {}
    since = {rule.since: "the lowering is registered for it and later ones"} if rule.since > 1 else {}
    why = rule.why if rule.name in names_in_index(rule.aspect) else _NOT_IN_INDEX
    return RuleOf(rule.name, rule.aspect.value, f"exporter/{rule.place}", why, since | needs)


def _of_own(name: str, since: int, function: Lowering) -> RuleOf:
    """A lowering that a user has registered."""
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else plain.__module__
    registered = {since: "the lowering is registered for it and later ones"} if since > 1 else {}
    return RuleOf(name, f"{Aspect.LOWERING.value}, your own", place, "", registered | _opsets_needed(plain))


def _opsets_needed(function: Callable[..., Any] | None) -> dict[int, str]:
    """The opsets that a lowering requires in its own text, which functions that it calls may do too."""
    if not inspect.isfunction(function):
        return {}
    needed = {}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "require_opset":
            opset, *reason = node.args
            if isinstance(opset, ast.Constant) and isinstance(opset.value, int):
                needed[opset.value] = ast.unparse(reason[0]).strip("'\"") if reason else ""
    return needed


def _in_run(run: Path, name: OperatorName, words: set[str]) -> InRun:
    right: defaultdict[str, set[int]] = defaultdict(set)
    statuses: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    declarations: Counter[str] = Counter()
    for exporter, runtime, status, dtype, opset, reason, declaration in _cells_of(run, name, words):
        if exporter != PARITY or status is Status.ABSENT:
            continue
        statuses[status.value] += 1
        declarations[declaration] += 1
        if status is not Status.PASSED:
            reasons[reason] += 1
        elif runtime == ONNXRUNTIME:
            right[dtype].add(opset)
    return InRun(
        run=str(run),
        cells=dict(statuses),
        right={dtype: sorted(right[dtype]) for dtype in sorted(right)},
        reasons=dict(reasons.most_common()),
        declarations=[each for each, _ in declarations.most_common()],
    )


def _cells_of(run: Path, name: OperatorName, words: set[str]) -> Iterator[tuple[Any, ...]]:
    """What counts of the cells whose program is recorded with the operator, or calls it."""

    def is_recorded(operators: Iterable[str]) -> bool:
        return any(base_of(each) == name.plain for each in operators)

    def is_called(functions: Iterable[str]) -> bool:
        return any(each.rpartition(".")[2] in words for each in functions)

    columns = read_columns(run)
    if columns is None:
        for record in read_records(run):
            if is_recorded(record.aten) or is_called(record.calls):
                yield tuple(getattr(record, field) for field in _FIELDS)
        return
    rows = {*columns.rows_with("aten", is_recorded), *columns.rows_with("calls", is_called)}
    values = [columns.values(field).each() for field in _FIELDS]
    for row in sorted(rows):
        yield tuple(each[row] for each in values)

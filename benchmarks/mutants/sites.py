"""The faults that can be planted in a file, and planting one in this process.

A fault changes one node of a function's syntax tree. The functions that Python has already made get the new code, so
nothing has to be imported again, and registries and decorators keep the functions that they have.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from benchmarks.mutants.codes import Functions, NotPlantedError, compiled, place_of
from benchmarks.mutants.conditions import AXES, Condition, holds, in_fewer_bits, meeting, without_nan


class Mutation(StrEnum):
    """What is changed."""

    CONSTANT = "a constant"
    COMPARISON = "a comparison"
    CONDITION = "a condition"
    NAME = "an operator's name"
    CAST = "a dropped cast"
    OPERANDS = "swapped operands"
    AXIS = "an axis off by one"
    # Only under a condition: without one, the first cell notices them.
    TIES = "equal values taken otherwise"
    ATTRIBUTE = "an attribute left out"
    DEFAULT = "a parameter that has its default"
    FEWER_BITS = "an input in fewer bits"
    NAN = "an input without NaN"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: the node of a file's tree that is changed, and what its source was and becomes."""

    file: str
    function: str
    line: int
    kind: Mutation
    node: int
    before: str
    after: str
    #: The line of the statement that the node is part of.
    statement: int
    #: Its number among the same changes of the same function.
    turn: int = 1
    #: Under which it holds only; None for always.
    condition: Condition | None = None

    @property
    def key(self) -> str:
        """What it is called as long as the function does not change."""
        turn = f" ({self.turn})" if self.turn > 1 else ""
        only = f", {self.condition}" if self.condition else ""
        return f"{self.file} {self.function}: {self.kind}: {self.before}  ->  {self.after}{turn}{only}"

    @property
    def family(self) -> str:
        """The family of operators that the fault is in, whose cases are in the file of this name; empty if in none."""
        before, _, after = self.file.partition("exporter/operators/")
        return "" if before or not after else after.partition("/")[0]

    @property
    def place(self) -> str:
        """The statement, as it is noted when it is run where the condition holds."""
        place = f"{self.file}:{self.statement}"
        return meeting(place, self.condition) if self.condition else place

    def __str__(self) -> str:
        return f"{self.key}, in line {self.line}"


#: Operators of ONNX that take the same operands.
_INSTEAD = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Min": "Max", "Max": "Min", "And": "Or", "Or": "And",
    "Less": "Greater", "Greater": "Less", "Equal": "Less", "Exp": "Tanh", "Log": "Exp", "Sqrt": "Exp", "Abs": "Neg",
    "Neg": "Abs", "Floor": "Ceil", "Ceil": "Floor", "Round": "Floor", "Sin": "Cos", "Cos": "Sin", "Relu": "Neg",
    "ReduceSum": "ReduceMax", "ReduceMean": "ReduceSum", "ReduceMax": "ReduceMin", "ReduceMin": "ReduceMax",
    "ArgMax": "ArgMin", "ArgMin": "ArgMax", "Sigmoid": "Tanh", "Tanh": "Sigmoid", "MaxPool": "AveragePool",
}  # fmt: skip
#: Those whose first two operands are not the same when they are swapped, and the builder's methods that make them.
_ORDERED = {"Sub", "Div", "Pow", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Mod", "MatMul"}
_ORDERED_METHODS = {"less", "greater", "less_or_equal", "greater_or_equal", "sub", "div", "floor_div"}
#: What decides for the other one of equal values.
_OF_TIES = {
    "greater": "greater_or_equal", "greater_or_equal": "greater", "less": "less_or_equal", "less_or_equal": "less",
}  # fmt: skip
_CASTS = {"cast", "cast_like", "as_dtype"}
_AXES = {"axis", "axes", "dim", "dims"}
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def mutants_of(path: Path, name: str) -> Iterator[Mutant]:
    """All faults of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = {node: function for function, node in _withinfunctions(tree)}
    lines, seen = statements(tree), Counter[str]()
    for number, node in enumerate(ast.walk(tree)):
        if node in functions:
            line = getattr(node, "lineno", 0)
            for kind, changed in _changes(node):
                mutant = Mutant(name, functions[node], line, kind, number, _source(node), _source(changed), lines[node])
                seen[mutant.key] += 1
                yield replace(mutant, turn=seen[mutant.key])


def conditional_mutants_of(path: Path, name: str) -> Iterator[Mutant]:
    """All faults of a file under each of the conditions that may be met where they are."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = {node: function for function, node in _withinfunctions(tree)}
    parameters = {function: {each.arg for each in _parameters(node)} for function, node in functions_of(tree)}
    lines, entries, seen = statements(tree), _entries(tree), Counter[str]()
    for number, node in enumerate(ast.walk(tree)):
        if node not in functions:
            continue
        function = functions[node]
        for kind, changed in _changes_under_conditions(node, entries):
            before, after = _source(node), _source(changed)
            if kind in _AT_ENTRY:
                before, after = "", _source(changed)
            mutant = Mutant(name, function, getattr(node, "lineno", 0), kind, number, before, after, lines[node])
            seen[mutant.key] += 1
            for condition in _possible(kind, parameters[function], name):
                yield replace(mutant, turn=seen[mutant.key], condition=condition)


#: Conditions under which a change makes no difference.
_POINTLESS = {
    Mutation.FEWER_BITS: frozenset(Condition) - {Condition.FLOAT64, Condition.INT64},
    Mutation.NAN: {Condition.INT64, Condition.INT32, Condition.UINT8, Condition.BOOL},
}


def _possible(kind: Mutation, parameters: Collection[str], file: str) -> Iterator[Condition]:
    """The conditions that may be met in a function with these parameters; none if nothing is lowered there."""
    lowers, rewrites = _lowers(parameters, file), _rewrites(parameters)
    for condition in Condition if lowers or rewrites else ():
        match condition:
            case Condition.NEGATIVE:
                possible = lowers and not AXES.isdisjoint(parameters)
            case Condition.SECOND:
                possible = lowers
            case Condition.READERS:
                possible = rewrites
            case _:
                possible = True
        if possible and condition not in _POINTLESS.get(kind, ()):
            yield condition


def _lowers(parameters: Collection[str], file: str) -> bool:
    return "g" in parameters or ("self" in parameters and "lowering/opsets" in file)


def _rewrites(parameters: Collection[str]) -> bool:
    return {"node", "walk"} <= {*parameters}


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def statements(tree: ast.Module) -> dict[ast.AST, int]:
    """The nodes of a tree with the lines of the innermost statements that they are part of."""
    lines: dict[ast.AST, int] = {}

    def note(node: ast.AST, line: int) -> None:
        lines[node] = line = node.lineno if isinstance(node, ast.stmt) else line
        for child in ast.iter_child_nodes(node):
            note(child, line)

    note(tree, 0)
    return lines


def _source(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) < 100 else text[:97] + "..."


def _withinfunctions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The nodes of bodies of functions with the qualified names of the outermost functions. Docstrings, annotations,
    what is asserted, and what errors say are left out."""

    def inner(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
        yield function, node
        if isinstance(node, ast.keyword) and node.arg in _AXES and isinstance(node.value, ast.Constant):
            return  # The axis is changed with its keyword.
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
                continue
            for child in value if isinstance(value, list) else [value]:
                skipped = isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr) or (
                    isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
                )
                if isinstance(child, ast.AST) and not skipped and not _refuses(child):
                    yield from inner(child, function)

    for name, function in functions_of(tree):
        for each in function.body:
            if not is_docstring(each):
                yield from inner(each, name)


def functions_of(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The outermost functions, with their qualified names."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            for method in statement.body:
                if isinstance(method, ast.FunctionDef):
                    yield f"{statement.name}.{method.name}", method


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def takes_what_is_done(function: ast.FunctionDef, file: str) -> bool:
    """Whether a function is given what is being lowered or rewritten."""
    parameters = {each.arg for each in _parameters(function)}
    return _lowers(parameters, file) or _rewrites(parameters)


def _refuses(node: ast.AST) -> bool:
    """Whether it is a call that refuses a program, whose texts are tested elsewhere."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("unsupported", "require_opset")
    )


def _changes(node: ast.AST) -> Iterator[tuple[Mutation, ast.AST]]:
    match node:
        case ast.keyword(arg=arg, value=ast.Constant(value=int() as value)) if arg in _AXES and type(value) is int:
            yield Mutation.AXIS, ast.keyword(arg=arg, value=ast.Constant(value + 1))
        case ast.Constant(value=int() as value) if type(value) is int:
            yield Mutation.CONSTANT, ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield Mutation.CONSTANT, ast.Constant(value * 1.5 + 0.5)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            yield Mutation.COMPARISON, ast.Compare(left, [_COMPARED[type(op)]()], [right])
        case ast.If(test=test, body=body, orelse=orelse):
            yield Mutation.CONDITION, ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test=test, body=one, orelse=other):
            yield Mutation.CONDITION, ast.IfExp(test, other, one)
        case ast.Call(func=ast.Attribute(attr="op"), args=[ast.Constant(value=str() as name), *operands]):
            if name in _INSTEAD:
                yield Mutation.NAME, _called(node, [ast.Constant(_INSTEAD[name]), *operands])
            if name in _ORDERED and len(operands) == 2:
                yield Mutation.OPERANDS, _called(node, [node.args[0], operands[1], operands[0]])
        case ast.Call(func=ast.Attribute(attr=name), args=[one, other]) if name in _ORDERED_METHODS:
            yield Mutation.OPERANDS, _called(node, [other, one])
        case ast.Call(func=ast.Attribute(attr=name), args=[value, _]) if name in _CASTS:
            yield Mutation.CAST, value


#: What is changed before the first statement of a function.
_AT_ENTRY = (Mutation.DEFAULT, Mutation.FEWER_BITS, Mutation.NAN)


def _changes_under_conditions(
    node: ast.AST, entries: Mapping[ast.AST, ast.FunctionDef]
) -> Iterator[tuple[Mutation, ast.AST]]:
    if node in entries:
        yield from _changes_at_entry(entries[node])
    yield from _changes(node)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    if node.func.attr in _OF_TIES:
        yield (
            Mutation.TIES,
            ast.Call(ast.Attribute(node.func.value, _OF_TIES[node.func.attr], ast.Load()), node.args, node.keywords),
        )
    if node.func.attr == "op":
        for left_out in node.keywords:
            if left_out.arg not in (None, "outputs", "to_i") and not isinstance(left_out.value, ast.Constant):
                kept = [each for each in node.keywords if each is not left_out]
                yield Mutation.ATTRIBUTE, ast.Call(node.func, node.args, kept)


def _entries(tree: ast.Module) -> dict[ast.AST, ast.FunctionDef]:
    """The first statements of the functions that are given the graph to lower into."""
    found: dict[ast.AST, ast.FunctionDef] = {}
    for _, function in functions_of(tree):
        first = next((each for each in function.body if not is_docstring(each)), None)
        if first is not None and any(each.arg == "g" for each in _parameters(function)):
            found[first] = function
    return found


def _changes_at_entry(function: ast.FunctionDef) -> Iterator[tuple[Mutation, ast.AST]]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    with_defaults = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *(
            (each, default)
            for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default
        ),
    ]
    for parameter, default in with_defaults:
        if default is not None:
            yield Mutation.DEFAULT, _assigned(parameter.arg, default)
    for parameter in positional:
        if isinstance(parameter.annotation, ast.Name) and parameter.annotation.id == "Value":
            for kind, changing in ((Mutation.FEWER_BITS, in_fewer_bits), (Mutation.NAN, without_nan)):
                call = ast.Call(ast.Name(changing.__name__, ast.Load()), _names("g", parameter.arg), [])
                yield kind, _assigned(parameter.arg, call)
            break


def _assigned(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value, lineno=0)


def _names(*names: str) -> list[ast.expr]:
    return [ast.Name(name, ast.Load()) for name in names]


def _under(condition: Condition, node: ast.AST, changed: ast.AST) -> ast.AST:
    """What is changed where the condition holds, and as it was elsewhere."""
    asked = ast.Call(ast.Name(holds.__name__, ast.Load()), [ast.Constant(condition.value)], [])
    match node, changed:
        case ast.stmt(), ast.Assign():
            return ast.If(ast.Constant(True), [ast.If(asked, [changed], []), node], [])
        case ast.If(), ast.If():
            return ast.If(ast.IfExp(asked, changed.test, node.test), node.body, node.orelse)
        case ast.keyword(), ast.keyword():
            return ast.keyword(node.arg, ast.IfExp(asked, changed.value, node.value))
        case ast.expr(), ast.expr():
            return ast.IfExp(asked, changed, node)
    raise NotPlantedError(f"a condition cannot be put before {_source(node)}")


def _called(call: ast.Call, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(call.func, arguments, call.keywords)


class _Replacing(ast.NodeTransformer):
    def __init__(self, node: ast.AST, by: ast.AST) -> None:
        self._node = node
        self._by = by

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._node:
            return ast.copy_location(self._by, node)
        return self.generic_visit(node)


def plant(mutant: Mutant, path: Path, functions: Functions) -> None:
    """Give the functions of this process the code with the fault. Meant for a process that ends afterwards."""
    tree = ast.parse(path.read_text("utf-8"))
    node = next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.node)
    changed = _change(mutant, node, tree)
    _Replacing(node, copy.deepcopy(changed)).visit(tree)
    if not functions.get((str(path), mutant.function), ()):
        raise NotPlantedError(f"{mutant.function} is not a function of this process")
    codes, inside = compiled(tree, path), f"{mutant.function}.<locals>."
    for (file, name), planted in functions.items():
        # A call of the function may have returned functions inside of it, which go on existing.
        if file == str(path) and (name == mutant.function or name.startswith(inside)):
            for function in planted:
                function.__globals__.update(_ASKED)
                code = codes.get(place_of(function.__code__))
                if code is None and function.__code__.co_firstlineno == mutant.line:
                    raise NotPlantedError(f"{name} is one of several functions of this name in its line")
                try:
                    function.__code__ = code or function.__code__
                except ValueError as error:
                    raise NotPlantedError(str(error)) from error


#: What the code with a fault under a condition calls.
_ASKED = {each.__name__: each for each in (holds, in_fewer_bits, without_nan)}


def _change(mutant: Mutant, node: ast.AST, tree: ast.Module) -> ast.AST:
    if mutant.condition is None:
        return next(new for kind, new in _changes(node) if kind is mutant.kind)
    changes = _changes_under_conditions(node, _entries(tree))
    changed = next(new for kind, new in changes if kind is mutant.kind and _source(new) == mutant.after)
    return _under(mutant.condition, node, changed)

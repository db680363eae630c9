"""The conditions of faults of the second kind, such as regressions have: one dtype, some opsets, an empty axis.

The condition is asked where the faulty code runs: of the node that is being lowered, or rewritten, which is found in
the variables of the functions that are running.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from functools import cache, lru_cache
from types import CodeType, FrameType
from typing import Any, TypeGuard, TypeVar
from weakref import WeakKeyDictionary

import onnx_ir as ir
import torch

from onnx_parity.exporter.dtypes import TO_ONNX
from onnx_parity.exporter.graph.graph import Node, Value
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.shapes import shaped
from onnx_parity.exporter.lowering.values.value import Value as LoweredValue
from onnx_parity.exporter.rewrites.engine.rewriter import Walk

__all__ = [
    "AXES", "Condition", "holds", "in_fewer_bits", "is_meeting", "meeting", "own_parameters", "places_met", "told",
    "without_nan",
]  # fmt: skip

T = TypeVar("T")

#: A tensor with more elements is large among those of cases.
_MANY = 30
#: Parameters that are axes.
AXES = frozenset({"dim", "dims", "axis", "dim0", "dim1", "start_dim", "end_dim"})


class Condition(StrEnum):
    """Under which a fault holds."""

    FLOAT64 = "in float64"
    FLOAT16 = "in float16"
    BFLOAT16 = "in bfloat16"
    INT64 = "in int64"
    INT32 = "in int32"
    UINT8 = "in uint8"
    BOOL = "in bool"
    OLDEST = "up to opset 10"
    OLD = "at opsets 11 to 13"
    MIDDLE = "at opsets 17 and 18"
    NEW = "from opset 21 on"
    NEGATIVE = "for a negative axis"
    DYNAMIC = "for dynamic axes"
    EMPTY = "for an empty tensor"
    ONE = "for an axis of size 1"
    MANY = f"for more than {_MANY} elements"
    SECOND = "for the second call in a program"
    READERS = "for a value with several readers"

    @property
    def is_dtype(self) -> bool:
        return self in _DTYPES


_DTYPES = {
    Condition.FLOAT64: torch.float64, Condition.FLOAT16: torch.float16, Condition.BFLOAT16: torch.bfloat16,
    Condition.INT64: torch.int64, Condition.INT32: torch.int32, Condition.UINT8: torch.uint8,
    Condition.BOOL: torch.bool,
}  # fmt: skip
_OPSETS = {
    Condition.OLDEST: range(11), Condition.OLD: range(11, 14), Condition.MIDDLE: range(17, 19),
    Condition.NEW: range(21, 100),
}  # fmt: skip
_NARROWER = {torch.float64: torch.float32, torch.int64: torch.int32}
#: The calls of each operator that have been lowered in a graph.
_LOWERED: WeakKeyDictionary[Graph, dict[object, list[Node]]] = WeakKeyDictionary()


def holds(condition: str) -> bool:
    """Whether a condition holds for what is being lowered or rewritten by the functions that are running."""
    found = _found(sys._getframe(1))
    if isinstance(found, Graph):
        return _holds_in(Condition(condition), found)
    return found is not None and _holds_at(Condition(condition), *found)


def meeting(place: str, condition: Condition) -> str:
    """A statement that runs where a condition holds, as it is noted."""
    return f"{place} {condition}"


def is_meeting(noted: str) -> bool:
    """Whether what was noted is a statement with a condition."""
    return " " in noted


def places_met(place: str, graph: object = None, node: object = None, walk: object = None) -> frozenset[str]:
    """A statement that runs, as it is noted: alone, and with each condition that holds there. What is being lowered or
    rewritten is given by a function that has it, and else found in those that called it, which takes longer.
    """
    found: Graph | tuple[ir.Node, Walk] | None
    if _is_a(graph, Graph):
        found = _under_way(graph)
    elif _is_a(node, ir.Node) and _is_a(walk, Walk):
        found = node, walk
    else:
        found = _found(sys._getframe(1))
    if found is None:
        return frozenset((place,))
    return _noted(place, _met(found.node, found) if isinstance(found, Graph) else _met(*found))


def own_parameters(tree: ast.Module) -> dict[ast.AST, Collection[str]]:
    """The nodes within functions, with the names of the parameters of the innermost function."""
    found: dict[ast.AST, Collection[str]] = {}

    def note(node: ast.AST, names: Collection[str]) -> None:
        if isinstance(node, ast.FunctionDef):
            given = node.args
            names = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        found[node] = names
        for child in ast.iter_child_nodes(node):
            note(child, names)

    note(tree, ())
    return found


def told(parameters: Collection[str]) -> str:
    """What a function with these parameters tells `places_met`, as arguments."""
    if "g" in parameters:
        return ", g"
    if {"node", "walk"} <= {*parameters}:
        return ", None, node, walk"
    return ", self" if "self" in parameters else ""


@lru_cache(maxsize=1)
def _met(node: Node | ir.Node, where: Graph | Walk) -> frozenset[Condition]:
    """The conditions that hold for a node. Many statements run for one."""
    if isinstance(where, Graph):
        return frozenset(each for each in Condition if _holds_in(each, where))
    assert isinstance(node, ir.Node)
    return frozenset(each for each in Condition if _holds_at(each, node, where))


@cache
def _noted(place: str, met: frozenset[Condition]) -> frozenset[str]:
    return frozenset((place, *(meeting(place, condition) for condition in met)))


def in_fewer_bits(graph: Graph, value: Any) -> Any:
    """A value of a graph, rounded to float32 or int32; as it is if it has no elements, or if it is a size."""
    if not isinstance(value, LoweredValue) or value.dtype not in _NARROWER or value.is_small or 0 in value.sizes:
        return value
    narrow = _NARROWER[value.dtype]
    rounded = graph.op("Cast", value, to_i=TO_ONNX[narrow].value)
    return shaped(graph.op("Cast", rounded, to_i=TO_ONNX[value.dtype].value), value.shape)


def without_nan(graph: Graph, value: Any) -> Any:
    """A value of a graph, with 0 in the place of NaN; as it is if it can have none."""
    if not isinstance(value, LoweredValue) or not value.dtype.is_floating_point or value.is_small or 0 in value.sizes:
        return value
    zero = graph.const(0.0, value.dtype)
    return shaped(graph.where(graph.is_nan(value), zero, value), value.shape)


def _found(frame: FrameType | None) -> Graph | tuple[ir.Node, Walk] | None:
    while frame is not None and "onnx_parity" in str(frame.f_globals.get("__name__")):
        if not _may_have(frame.f_code):
            frame = frame.f_back
            continue
        variables: Mapping[str, object] = frame.f_locals
        for name in ("g", "self"):
            if _is_a(graph := variables.get(name), Graph):
                return _under_way(graph)
        node, walk = variables.get("node"), variables.get("walk")
        if _is_a(node, ir.Node) and _is_a(walk, Walk):
            return node, walk
        frame = frame.f_back
    return None


def _under_way(graph: Graph) -> Graph | None:
    """The graph, if a node is lowered into it: before and after all nodes, there is none."""
    node: object = graph.node
    return None if node is None else graph


@cache
def _may_have(code: CodeType) -> bool:
    """Whether a function has variables with what is being lowered or rewritten. To read them copies all of them."""
    names = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    return bool(names & {"g", "self"}) or {"node", "walk"} <= names


def _is_a(found: object, kind: type[T]) -> TypeGuard[T]:
    """As isinstance, without asking abstract classes each time, which took most of the time of noting statements."""
    pair = type(found), kind
    if pair not in _KNOWN:
        _KNOWN[pair] = isinstance(found, kind)
    return _KNOWN[pair]


#: Of which classes the objects of some classes are.
_KNOWN: dict[tuple[type, type], bool] = {}


def _holds_in(condition: Condition, graph: Graph) -> bool:
    node = graph.node
    values = [*node.inputs(), *(output for output in node.outputs if output is not None)]
    match condition:
        case Condition.NEGATIVE:
            return any(each < 0 for name in AXES for each in _ints(node.arguments.get(name)))
        case Condition.SECOND:
            calls = _LOWERED.setdefault(graph, {}).setdefault(node.op, [])
            if node not in calls:
                calls.append(node)
            return node is not calls[0]
        case Condition.READERS:
            return False
    if condition in _DTYPES:
        # The first input decides; what has none is decided by its result.
        return bool(values) and values[0].dtype is _DTYPES[condition]
    return _holds_for(condition, graph.opset, [_sizes(value) for value in values])


def _holds_at(condition: Condition, node: ir.Node, walk: Walk) -> bool:
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    match condition:
        case Condition.NEGATIVE | Condition.SECOND:
            return False
        case Condition.READERS:
            return any(len(value.uses()) > 1 for value in node.inputs if value is not None and value.producer())
    if condition in _DTYPES:
        wanted = str(_DTYPES[condition]).removeprefix("torch.").upper().replace("FLOAT64", "DOUBLE")
        return any(
            value.dtype is not None and value.dtype.name == wanted.replace("FLOAT32", "FLOAT") for value in values
        )
    shapes = [tuple(size if isinstance(size, int) else None for size in value.shape) for value in values if value.shape]
    return _holds_for(condition, walk.opset, shapes)


def _holds_for(condition: Condition, opset: int, shapes: list[tuple[int | None, ...]]) -> bool:
    match condition:
        case Condition.DYNAMIC:
            return any(size is None for shape in shapes for size in shape)
        case Condition.EMPTY:
            return any(size == 0 for shape in shapes for size in shape)
        case Condition.ONE:
            return any(size == 1 for shape in shapes for size in shape)
        case Condition.MANY:
            return any(_count(shape) > _MANY for shape in shapes)
    return opset in _OPSETS[condition]


def _sizes(value: Value) -> tuple[int | None, ...]:
    return tuple(size if type(size) is int else None for size in value.shape)


def _count(shape: tuple[int | None, ...]) -> int:
    count = 1
    for size in shape:
        count *= 1 if size is None else size
    return count


def _ints(value: object) -> Iterator[int]:
    for each in value if isinstance(value, list | tuple) else (value,):
        if type(each) is int:
            yield each

"""Steps that compare values and types: equality of lists and tuples, membership, isinstance."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import Leaf
from onnx_parity.exporter.script.numbers import compute, depends_on_values
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of
from onnx_parity.exporter.script.values import Maybe, ScriptList, known_items

__all__ = ["equal"]

_CONTAINERS = (ScriptList, tuple, dict)


@step_of("aten::eq", "aten::ne")
def _equal(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    if step.operator is not None or not any(isinstance(each, _CONTAINERS) for each in arguments):
        return NotImplemented
    same = equal(blocks, *arguments)
    return same if step.kind == "aten::eq" else compute(blocks, "__not__", [same], "bool")


def equal(blocks: Blocks, one: Any, other: Any) -> Leaf:
    """Whether two values are equal: True, False, or a tensor of one bool if it depends on values."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return False
        return _all_equal(blocks, list(one.values()), [other[key] for key in one])
    if isinstance(one, (ScriptList, tuple)) and isinstance(other, (ScriptList, tuple)):
        return _all_equal(blocks, _items(blocks, one), _items(blocks, other))
    if one is None or other is None:
        maybe = other if one is None else one
        return compute(blocks, "__not__", [maybe.present], "bool") if isinstance(maybe, Maybe) else one is other
    same: Leaf = compute(blocks, "eq", [one, other], "bool")
    return bool(same.all()) if isinstance(same, torch.Tensor) and not blocks.depends_on_input(same) else same


def _all_equal(blocks: Blocks, ones: list[Any], others: list[Any]) -> Leaf:
    if len(ones) != len(others):
        return False
    result: Leaf = True
    for one, other in zip(ones, others, strict=True):
        result = compute(blocks, "__and__", [result, equal(blocks, one, other)], "bool")
        if result is False:
            break
    return result


def _items(blocks: Blocks, value: Any) -> list[Any]:
    if not isinstance(value, ScriptList):
        return list(value)
    return known_items(value, blocks, "compares", "compare its items in a loop")


@step_of("aten::__contains__")
def _contains(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    within, item = arguments
    if isinstance(within, str) or (isinstance(within, dict) and not depends_on_values(item)):
        return item in within
    result: Leaf = False
    for each in within if isinstance(within, dict) else _items(blocks, within):
        result = compute(blocks, "__or__", [result, equal(blocks, each, item)], "bool")
        if result is True:
            break
    return result


@step_of("prim::isinstance")
def _isinstance(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """`isinstance` is only evaluated when a script runs if the static type is Optional, Any or a Union."""
    value = arguments[0]
    wanted = step.node.tys("types")
    static = next(step.node.inputs()).type()
    if isinstance(value, Maybe):
        there = any(_is_a(blocks, value.value, static, each) for each in wanted)
        absent = any(each.kind() == "NoneType" for each in wanted)
        if there is absent:
            return there
        return value.present if there else compute(blocks, "__not__", [value.present], "bool")
    return any(_is_a(blocks, value, static, each) for each in wanted)


def _is_a(blocks: Blocks, value: Any, static: Any, wanted: Any) -> bool:
    """Whether a value has a type, if its static type allows several."""
    kinds = [each for each in _alternatives(static) if _fits(value, each)]
    if kinds:
        return any(each.isSubtypeOf(wanted) for each in kinds)
    return _fits(value, wanted)


def _alternatives(static: Any) -> list[Any]:
    match static.kind():
        case "OptionalType":
            return _alternatives(static.getElementType())
        case "UnionType":
            return [each for part in static.containedTypes() for each in _alternatives(part)]
        case "AnyType":
            return []
    return [static]


_PYTHON = {
    "IntType": (int, torch.SymInt), "FloatType": (float, torch.SymFloat), "BoolType": (bool, torch.SymBool),
    "StringType": (str,), "TensorType": (torch.Tensor,), "ListType": (ScriptList,), "DictType": (dict,),
    "TupleType": (tuple,), "NoneType": (type(None),),
}  # fmt: skip


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value can have a type, by the Python types that represent the types of TorchScript."""
    name = kind.kind()
    if name == "TupleType":
        return isinstance(value, tuple) and len(value) == len(kind.elements())
    if name == "IntType" and isinstance(value, bool):
        return False
    if isinstance(value, torch.Tensor) and name in ("IntType", "FloatType", "BoolType"):
        return bool(name == _number_of(value.dtype))
    return isinstance(value, _PYTHON.get(name, ()))


def _number_of(dtype: torch.dtype) -> str:
    """The type of a number that is read from a tensor of this dtype."""
    return "BoolType" if dtype is torch.bool else "FloatType" if dtype.is_floating_point else "IntType"

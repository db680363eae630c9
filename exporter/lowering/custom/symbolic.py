"""Lowerings as `torch.onnx` has them: symbolic functions, called by position, registered for an opset or one export.

@parse_args("v", "f")
def symbolic_foo(g, x, alpha):
    return g.op("my_domain::Foo", x, alpha_f=alpha)

register_custom_op_symbolic("my_ops::foo", symbolic_foo, 9)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from torch._ops import OpOverload, OpOverloadPacket

from onnx_parity.exporter.capture.replace.dispatch import falls_apart, keeping_also
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.fallback.encoding import NOT_VALUES
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.custom.local_functions import from_proto
from onnx_parity.exporter.lowering.registry import Lowering, operators_named, operators_of_users, register, unregister

__all__ = [
    "TranslationTable",
    "kept_for_users",
    "register_custom_op_symbolic",
    "translations",
    "unregister_custom_op_symbolic",
]

#: Operator to lowering: a function whose first parameter is `g`, or a function of ONNX.
TranslationTable: TypeAlias = "Mapping[Any, Any]"


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Have `symbolic_fn(g, *arguments)` write the operator `namespace::name`, from an opset on.

    Its arguments are those of the operator's schema, in order; if its parameters are called as the schema's, by name.
    Tensors are values of the graph, everything else is what the program passed. Of several registrations the
    newest not above the target opset serves.
    """
    if not callable(symbolic_fn):
        raise ArgumentError(
            f"symbolic_fn is {symbolic_fn!r}: give a function whose first parameter is g, "
            "def lower(g, x): return g.op('Relu', x)"
        )
    name = _checked(symbolic_name, opset_version)
    for op in operators_named(name):
        _refuse_falling_apart(op)
    register(name, _as_lowering(symbolic_fn), since=opset_version)


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Undo `register_custom_op_symbolic` for that opset. What was registered for others serves again."""
    unregister(_checked(symbolic_name, opset_version), since=opset_version)


def translations(table: TranslationTable) -> dict[OpOverload, Lowering]:
    """`custom_translation_table` as lowerings by overload."""
    if not isinstance(table, Mapping):
        raise ArgumentError(
            f"custom_translation_table is {table!r}: give a dict of lowerings, "
            "{torch.ops.my_ops.foo.default: lower_foo}"
        )
    lowerings: dict[OpOverload, Lowering] = {}
    for key, function in table.items():
        for op in _operators_of(key):
            _refuse_falling_apart(op)
            lowerings[op] = _lowering_of(key, function)
    return lowerings


def kept_for_users(table: Mapping[OpOverload, Lowering]) -> AbstractContextManager[None]:
    """Within, operators that a user lowers are recorded whole, also those that torch writes in others."""
    return keeping_also([*table, *operators_of_users()])


def _checked(symbolic_name: str, opset_version: int) -> str:
    if not isinstance(symbolic_name, str):
        raise ArgumentError(f"symbolic_name is {symbolic_name!r}: write it as 'namespace::name', e.g. 'aten::elu'")
    if isinstance(opset_version, bool) or not isinstance(opset_version, int):
        raise ArgumentError(f"opset_version is {opset_version!r}: give the first opset that it is for, an int")
    return _qualified(symbolic_name)


def _qualified(name: str) -> str:
    return f"aten{name}" if name.startswith("::") else name


def _refuse_falling_apart(op: OpOverload) -> None:
    if falls_apart(op):
        raise ArgumentError(
            f"a lowering of {op._schema.name} would never be called: torch turns it into other operators before it can "
            "be recorded. Register one for those: capture_program(...).operators names them"
        )


def _operators_of(key: Any) -> list[OpOverload]:
    if isinstance(key, OpOverload):
        return [key]
    if isinstance(key, OpOverloadPacket):
        return [getattr(key, overload) for overload in key.overloads()]
    found = operators_named(_qualified(key)) if isinstance(key, str) and "::" in key else []
    if not found:
        raise ArgumentError(
            f"custom_translation_table holds {key!r}, which is no operator: give torch.ops.namespace.name, one of its "
            "overloads, or 'namespace::name'"
        )
    return found


def _lowering_of(key: Any, function: Any) -> Lowering:
    if hasattr(function, "to_function_proto"):
        return from_proto(function.to_function_proto())
    if callable(function):
        parameters = list(inspect.signature(function).parameters)
        if parameters and parameters[0] == "g":
            return _as_lowering(function)
    raise ArgumentError(
        f"custom_translation_table gives {function!r} for {key}: give a function whose first parameter is g, "
        "def lower(g, x): return g.op('Relu', x), or a function of ONNX that has to_function_proto()"
    )


def _as_lowering(function: Callable[..., Any]) -> Lowering:
    parameters = list(inspect.signature(function).parameters.values())[1:]

    @functools.wraps(function)
    def lower(g: Graph, **arguments: Any) -> Any:
        assert isinstance(g.node.op, OpOverload)
        schema = g.node.op._schema
        if {p.name for p in parameters} >= arguments.keys() and all(p.kind is not p.VAR_POSITIONAL for p in parameters):
            return function(g, **arguments)
        given = [
            (p.name, arguments.get(p.name, p.default_value if p.name not in NOT_VALUES else None), p)
            for p in schema.arguments
        ]
        takes = len(parameters)
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            takes = len(given)
        while given and _is_left_out(given[-1][1], given[-1][2], parameters, len(given)):
            given.pop()
        if len(given) > takes:
            raise TypeError(
                f"it takes {takes} arguments after g, and {schema.name} has {len(schema.arguments)} "
                f"({', '.join(p.name for p in schema.arguments)}), of which {given[-1][0]} is {given[-1][1]!r} here"
            )
        return function(g, *(value for _, value, _ in given))

    return lower


def _is_left_out(value: Any, parameter: Any, taken: list[inspect.Parameter], position: int) -> bool:
    """Whether the last argument need not be passed: it says nothing, and the function can do without it."""
    says_nothing = parameter.name in NOT_VALUES or (parameter.has_default_value() and value == parameter.default_value)
    does_without = position > len(taken) or taken[position - 1].default is not inspect.Parameter.empty
    return says_nothing and does_without

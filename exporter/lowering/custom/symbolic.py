"""Symbolic functions in the interface of `torch.onnx`: called by position, registered for an opset or for one export.

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

from onnx_parity.exporter.dispatch.composites import decomposes_unseen, keeping_whole
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.fallback.encoding import NOT_VALUES
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.custom.local_functions import from_proto
from onnx_parity.exporter.registry.lowerings import (
    Lowering,
    operators_like,
    operators_named,
    register,
    unregister,
    user_lowered_operators,
)
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, OpOverloadPacket, schema_of

__all__ = [
    "TranslationTable",
    "kept_for_users",
    "register_custom_op_symbolic",
    "translations",
    "unregister_custom_op_symbolic",
]

#: Lowerings by operator; each is a function whose first parameter is `g`, or a function of ONNX.
TranslationTable: TypeAlias = Mapping[Any, Any]


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Lower the operator `namespace::name` with `symbolic_fn(g, *arguments)`, from an opset on.

    The arguments are those of the operator's schema, by name if the parameters have the schema's names, else in order.
    Tensors are values of the graph, and all other arguments are what the program passed. Of several registrations, the
    one with the highest opset up to the target opset is used.
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
    """Undo `register_custom_op_symbolic` for that opset. Registrations for other opsets remain."""
    unregister(_checked(symbolic_name, opset_version), since=opset_version)


def translations(table: TranslationTable) -> dict[OpOverload, Lowering]:
    """The lowerings of a `custom_translation_table` by overload."""
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
    """A context in which operators with users' lowerings are recorded whole, even if torch would decompose them."""
    return keeping_whole([*table, *user_lowered_operators()])


def _checked(symbolic_name: str, opset_version: int) -> str:
    if not isinstance(symbolic_name, str):
        raise ArgumentError(f"symbolic_name is {symbolic_name!r}: write it as 'namespace::name', e.g. 'aten::elu'")
    if isinstance(opset_version, bool) or not isinstance(opset_version, int):
        raise ArgumentError(f"opset_version is {opset_version!r}: give an int, the first opset that it is for")
    return _qualified(symbolic_name)


def _qualified(name: str) -> str:
    return f"aten{name}" if name.startswith("::") else name


def _refuse_falling_apart(op: OpOverload) -> None:
    if decomposes_unseen(op):
        raise ArgumentError(
            f"a lowering of {schema_of(op).name} would never be called, because torch always decomposes that operator: "
            "register lowerings of the operators that capture_program(...).operators lists"
        )


_KEYS = ": give torch.ops.namespace.name, one of its overloads, or 'namespace::name'"


def _operators_of(key: Any) -> list[OpOverload]:
    if isinstance(key, OpOverload):
        return [key]
    if isinstance(key, OpOverloadPacket):
        return [getattr(key, overload) for overload in key.overloads()]
    found = operators_named(_qualified(key)) if isinstance(key, str) and "::" in key else []
    if not found:
        meant = operators_like(_qualified(key)) if isinstance(key, str) and "::" in key else ""
        raise ArgumentError(f"custom_translation_table has the key {key!r}, which is not an operator{meant or _KEYS}")
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
        schema = schema_of(g.node.op)
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
                f"it takes {takes} arguments after g, but {schema.name} has {len(schema.arguments)} "
                f"({', '.join(p.name for p in schema.arguments)}), of which {given[-1][0]} is {given[-1][1]!r} here: "
                "add parameters up to that one"
            )
        return function(g, *(value for _, value, _ in given))

    return lower


def _is_left_out(value: Any, parameter: Any, taken: list[inspect.Parameter], position: int) -> bool:
    """Whether the last argument need not be passed: it is at its default, and the function does not require it."""
    is_default = parameter.name in NOT_VALUES or (parameter.has_default_value() and value == parameter.default_value)
    is_optional = position > len(taken) or taken[position - 1].default is not inspect.Parameter.empty
    return is_default and is_optional

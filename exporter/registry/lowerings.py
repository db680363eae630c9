"""The registry of lowerings by operator.

    @lowering("aten::elu")
    def elu(g, self, alpha=1, scale=1, input_scale=1):
        ...

A name may have an overload (`aten::max.dim`), which is looked up before the name without one. A lowering registered
with `since` is used at that opset and later ones; of several, the one with the highest `since` up to the target opset.
Users' lowerings take precedence over those of this package, and a composite operator for which a user registers a
lowering is not decomposed. The file of a lowering is imported when it is first asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import torch

from onnx_parity.exporter.errors import ArgumentError, OnnxExporterWarning
from onnx_parity.exporter.graph.graph import Primitive, operator_name
from onnx_parity.exporter.registry.rules import Aspect, Rule, add, load
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, all_operator_names, is_operator, overload_of
from onnx_parity.exporter.torch_inside.frames import warn_at_users_line

__all__ = [
    "Lowering",
    "find",
    "is_from_user",
    "is_lowered",
    "is_lowered_by_user",
    "lowered_in",
    "lowered_operators",
    "lowering",
    "lowerings_of_user",
    "meant_by",
    "operators_like",
    "operators_named",
    "register",
    "unregister",
    "user_lowered_operators",
]

Lowering = Callable[..., Any]
_F = TypeVar("_F", bound=Lowering)

#: Lowerings by the operator's name, and by the first opset that they are for.
_lowerings: dict[str, dict[int, Lowering]] = {}
#: Names for which a user has registered a lowering.
_from_users: set[str] = set()
_names: dict[OpOverload | Primitive, tuple[str, str]] = {}


def lowering(*names: str, since: int = 1) -> Callable[[_F], _F]:
    """Register the decorated function for operators such as `aten::elu` or `my_ops::foo.overload`."""
    if not names or not all(isinstance(name, str) for name in names):
        raise ArgumentError(
            "lowering takes the names of operators as strings: write @onnx_parity.lowering('aten::elu')"
        )

    if isinstance(since, bool) or not isinstance(since, int):
        raise ArgumentError(f"since is {since!r}: give an int, the first opset that the lowering is for")

    def decorate(function: _F) -> _F:
        if not callable(function):
            raise ArgumentError(
                f"{function!r} is not a lowering: give a function whose first parameter is g, "
                "def lower(g, x): return g.op('Relu', x)"
            )
        for name in names:
            register(name, function, since)
        return function

    return decorate


def register(name: str, function: Lowering, since: int = 1) -> None:
    namespace, colons, operator = name.partition("::")
    if not (namespace and colons and operator):
        raise ArgumentError(f"{name!r} is not the name of an operator: write it as 'namespace::name', e.g. 'aten::elu'")
    if is_from_user(function):
        if namespace == "aten" and not operators_named(name):
            warn_at_users_line(
                f"torch has no operator {name}, so that its lowering is never called{operators_like(name)}",
                OnnxExporterWarning,
            )
        load(Aspect.LOWERING, name)  # Registered later, one of this package would replace the user's.
        _from_users.add(name)
    _lowerings.setdefault(name, {})[since] = function
    if not is_from_user(function):
        add(Rule(name, Aspect.LOWERING, function, since=since))


def unregister(name: str, since: int = 1) -> None:
    load(Aspect.LOWERING, name)
    functions = _lowerings.get(name, {})
    if since not in functions:
        raise ArgumentError(f"there is no lowering of {name!r} for opset {since} to remove")
    del functions[since]
    if not functions:
        del _lowerings[name]
        _from_users.discard(name)


def is_from_user(function: Lowering) -> bool:
    """Whether the lowering is not one of this package."""
    return not str(function.__module__).startswith("onnx_parity.exporter.")


def lowerings_of_user(name: str) -> dict[int, Lowering]:
    """The lowerings that a user has registered for an operator, `aten::max`, or an overload, by their first opsets."""
    return {
        since: function
        for each in sorted(_from_users)
        if name in (each, each.partition(".")[0])
        for since, function in _lowerings[each].items()
        if is_from_user(function)
    }


def meant_by(name: str) -> str:
    """The name of no operator for which a user has registered a lowering, if it is like this name; else empty."""
    unknown = [each for each in _from_users if not operators_named(each)]
    return next(iter(difflib.get_close_matches(name, unknown, 1)), "")


def operators_like(name: str) -> str:
    """The end of a sentence that offers the operator of a similar name; empty if there is none."""
    namespace = name.partition("::")[0]
    names = {each.partition(".")[0] for each in all_operator_names() if each.startswith(f"{namespace}::")}
    near = difflib.get_close_matches(name, names, 1)
    return f": did you mean {near[0]!r}?" if near else ""


def is_lowered_by_user(name: str) -> bool:
    """Whether a user has registered a lowering of an operator, `aten::max`, or of one of its overloads."""
    return any(each.partition(".")[0] == name.partition(".")[0] for each in _from_users)


def find(op: OpOverload | Primitive, opset: int) -> Lowering | None:
    """The lowering of an operator for an opset."""
    for name in _names_of(op):
        functions = _lowerings.get(name)
        if functions:
            versions = [version for version in functions if version <= opset]
            if versions:
                return functions[max(versions)]
    return None


def is_lowered(op: OpOverload | Primitive) -> bool:
    """Whether there is a lowering for any opset."""
    return any(name in _lowerings for name in _names_of(op))


def lowered_operators() -> tuple[str, ...]:
    """The operators that have a lowering: `aten::elu`, `aten::max.dim`."""
    load(Aspect.LOWERING)
    return tuple(sorted(_lowerings))


def user_lowered_operators() -> list[OpOverload]:
    """The operators of ATen for which users have registered lowerings."""
    return [op for name in _from_users if name.startswith("aten::") for op in operators_named(name)]


def lowered_in(modules: Collection[str]) -> frozenset[str]:
    """The names of the operators that functions of these modules lower."""
    load(Aspect.LOWERING)
    return frozenset(
        name
        for name, functions in _lowerings.items()
        if any(function.__module__ in modules for function in functions.values())
    )


def operators_named(name: str) -> list[OpOverload]:
    """All overloads of `aten::max`, or the one that `aten::max.dim` names; none if torch has no such operator."""
    namespace, _, operator = name.partition("::")
    operator, _, overload = operator.partition(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None:
        return []
    found = []
    for each in packet.overloads():
        # The overloads for TorchScript's numbers are listed here and have no kernels.
        if is_operator(f"{namespace}::{operator}" + ("" if each == "default" else f".{each}")):
            found.append(getattr(packet, each))
    return [op for op in found if not overload or overload_of(op) == overload]


def _names_of(op: OpOverload | Primitive) -> tuple[str, str]:
    """The names that the lowering of an operator may have. The file that has it is imported."""
    names = _names.get(op)
    if names is None:
        name = operator_name(op)
        full = name if isinstance(op, Primitive) else f"{name}.{overload_of(op)}"
        names = _names[op] = (full, name)
    for name in names:
        load(Aspect.LOWERING, name)
    return names

"""What is recorded instead of torch's own operators: the decorators, and the tables that a recording looks up.

    @instead_of("aten::one_hot", why="torch's decomposition reads the greatest value as a plain int")
    def one_hot(x, num_classes=-1): ...

A function takes the operator's arguments and returns the operator's results. A function of any aspect may return
`NotImplemented` for a call that it does not handle; the call is then processed as if the function did not exist. (None
cannot be used for this, because some operators return it.) With `where=`, it is called only for tensors that fulfil the
condition. With `gives_operator=True` its first argument is the operator, so that one function serves several.

Operators are named as `OpOverload.name()` names them, because the objects of those that no program calls would take
8 ms of a process's first export to create. Where objects are at hand anyway, these may be given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import torch

from onnx_parity.exporter.registry.rules import Aspect, Rule, add, load
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload

__all__ = [
    "any_is_complex",
    "any_size_depends_on_values",
    "any_size_is_dynamic",
    "decomposition_of",
    "function_for",
    "instead_of",
    "keep_whole",
    "named",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])
#: For which calls a function is used, by all tensors among their arguments.
Condition: TypeAlias = Callable[[Sequence[torch.Tensor]], bool]


_functions: dict[Aspect, dict[str, Callable[..., Any]]] = {
    Aspect.INSTEAD: {},
    Aspect.DECOMPOSITION: {},
}
_whole: set[str] = set()


def function_for(aspect: Aspect, name: str) -> Callable[..., Any] | None:
    """The function of an aspect for the operator of a name; None if it has none."""
    load(aspect, name)
    return _functions[aspect].get(name)


def keep_whole(*ops: OpOverload | str, why: str) -> None:
    """Keep operators whole that torch would decompose: each is recorded as an opaque operator of the same schema."""
    for op in ops:
        name = _name_of(op)
        if name in _whole:
            raise ValueError(f"{name} is kept whole twice")
        add(Rule(name, Aspect.WHOLE, None, _check_reason(name, why)))
        _whole.add(name)


def instead_of(
    *ops: OpOverload | str, why: str, where: Condition | None = None, gives_operator: bool = False
) -> Callable[[_Function], _Function]:
    """Call the function instead of the operators, except for operators that a user has registered a lowering for.

    An operator that writes in place is replaced before functionalization has seen the write.
    """
    return _register_for(Aspect.INSTEAD, ops, why, where, gives_operator)


def decomposition_of(
    *ops: OpOverload | str, why: str = "torch has a kernel for it and no decomposition", gives_operator: bool = False
) -> Callable[[_Function], _Function]:
    """Record the operators that the function calls, instead of these operators, which have no lowering."""
    return _register_for(Aspect.DECOMPOSITION, ops, why, None, gives_operator)


def any_size_is_dynamic(tensors: Sequence[torch.Tensor]) -> bool:
    """The condition of a function that is only needed where a size is a symbol."""
    return any(isinstance(size, torch.SymInt) for each in tensors for size in each.shape)


def any_size_depends_on_values(tensors: Sequence[torch.Tensor]) -> bool:
    """The condition of a function that is only needed where not even the example says how large a size is."""
    return any(isinstance(size, torch.SymInt) and not size.node.has_hint() for each in tensors for size in each.shape)


def any_is_complex(tensors: Sequence[torch.Tensor]) -> bool:
    return any(each.is_complex() for each in tensors)


def _register_for(
    aspect: Aspect, ops: tuple[OpOverload | str, ...], why: str, where: Condition | None = None,
    gives_operator: bool = False,
) -> Callable[[_Function], _Function]:  # fmt: skip
    table = _functions[aspect]

    def register(function: _Function) -> _Function:
        for op in ops:
            name = _name_of(op)
            if name in table:
                raise ValueError(f"{name} is {aspect.value} by two functions")
            add(Rule(name, aspect, function, _check_reason(name, why)))
            called = _give_operator(function, name) if gives_operator else function
            table[name] = called if where is None else _call_where(called, where)
        return function

    return register


def _give_operator(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(named(name), *args, **kwargs)

    return call


def _call_where(function: Callable[..., Any], where: Condition) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if where(_list_tensors((*args, *kwargs.values()))) else NotImplemented

    return call


def _list_tensors(arguments: Sequence[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for each in arguments:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found += [part for part in each if isinstance(part, torch.Tensor)]
    return found


def _check_reason(name: str, why: str) -> str:
    if not why:
        raise ValueError(f"{name} is replaced without a reason")
    return why


@functools.cache
def named(name: str) -> OpOverload:
    """The operator of a name."""
    qualified, _, overload = name.partition(".")
    namespace, _, packet = qualified.partition("::")
    op: OpOverload = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    return op


def _name_of(op: OpOverload | str) -> str:
    return op if isinstance(op, str) else op.name()

"""The registry of replacements: what is recorded instead of torch's own operators, and why.

A replacement is registered where its function is defined:

    @instead_of("aten::one_hot", why="torch's decomposition reads the greatest value as a plain int")
    def one_hot(x, num_classes=-1): ...

A function takes the operator's arguments and returns the operator's results. A function of any kind may return
`NotImplemented` for a call that it does not handle; the call is then processed as if the function did not exist. (None
cannot be used for this, because some operators return it.)

Operators are named as `OpOverload.name()` names them, because the objects of those that no program calls would take
8 ms of a process's first export to create. Where objects are at hand anyway, these may be given.

`families` imports every module that registers something; `families.replacements()` lists all replacements.
`fakes/pointwise.py` and `fakes/result_cache.py` are not among them: they compute the same results as torch's fake
tensors, only faster.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import torch
from torch._ops import OpOverload

__all__ = [
    "Kind",
    "OfAnyRank",
    "Replacement",
    "decomposition_of",
    "functions",
    "instead_of",
    "keep_whole",
    "named",
    "registered",
    "result_of_whole",
    "result_with_dynamic_sizes",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Kind(enum.Enum):
    """The point of a recording at which an operator is replaced."""

    INSTEAD = "replaced when the program calls it"
    WHOLE = "kept whole, as one opaque operator, where torch would decompose it"
    DECOMPOSITION = "replaced when it is recorded, if it has no lowering"
    RESULT_OF_WHOLE = "the fake result is computed by this exporter if the operator is kept whole"
    RESULT_WITH_DYNAMIC_SIZES = "the fake result is computed by this exporter if sizes are symbols"


class Replacement(msgspec.Struct, frozen=True):
    """An operator, how it is replaced, and the reason."""

    #: `aten::one_hot`, `aten::max.dim`.
    name: str
    kind: Kind
    why: str
    #: None only if the operator is kept whole.
    function: Callable[..., Any] | None

    def __str__(self) -> str:
        return f"{self.name}: {self.kind.value}: {self.why}"


class OfAnyRank(msgspec.Struct, frozen=True):
    """The fake result of an operator whose number of axes depends on sizes: the tensor that the example has."""

    tensor: torch.Tensor


_replacements: dict[Kind, dict[str, Replacement]] = {kind: {} for kind in Kind}
#: The functions without the reasons, for the lookup at each call of an operator.
_functions: dict[Kind, dict[str, Callable[..., Any]]] = {kind: {} for kind in Kind}


def registered(kind: Kind) -> Mapping[str, Replacement]:
    """The replacements of a kind that have been registered so far, by the names of the operators."""
    return _replacements[kind]


def functions(kind: Kind) -> Mapping[str, Callable[..., Any]]:
    """The functions of the replacements of a kind, by the names of the operators."""
    return _functions[kind]


def keep_whole(*ops: OpOverload | str, why: str) -> None:
    """Keep operators whole that torch would decompose: each is recorded as an opaque operator of the same schema."""
    for op in ops:
        _register(Replacement(_name_of(op), Kind.WHOLE, why, None))


def instead_of(*ops: OpOverload | str, why: str) -> Callable[[_Function], _Function]:
    """Call the function instead of the operators, except for operators that a user has registered a lowering for.

    An operator that writes in place is replaced before functionalization has seen the write.
    """
    return _registering(Kind.INSTEAD, ops, why)


def decomposition_of(*ops: OpOverload | str, why: str) -> Callable[[_Function], _Function]:
    """Record the operators that the function calls, instead of these operators, which have no lowering."""
    return _registering(Kind.DECOMPOSITION, ops, why)


def result_of_whole(*ops: OpOverload | str, why: str) -> Callable[[_Function], _Function]:
    """Let the function create the fake results of operators that are kept whole.

    Without such a function, torch's decomposition of the operator creates them.
    """
    return _registering(Kind.RESULT_OF_WHOLE, ops, why)


def result_with_dynamic_sizes(*ops: OpOverload | str, why: str) -> Callable[[_Function], _Function]:
    """Let the function create the fake results in recordings whose sizes are symbols.

    It takes precedence over all other kinds, also for operators that are kept whole.
    """
    return _registering(Kind.RESULT_WITH_DYNAMIC_SIZES, ops, why)


def _registering(kind: Kind, ops: tuple[OpOverload | str, ...], why: str) -> Callable[[_Function], _Function]:
    def register(function: _Function) -> _Function:
        for op in ops:
            _register(Replacement(_name_of(op), kind, why, function))
        return function

    return register


def _register(replacement: Replacement) -> None:
    of_kind = _replacements[replacement.kind]
    if replacement.name in of_kind:
        raise ValueError(f"{replacement} is registered twice; the first reason is: {of_kind[replacement.name].why}")
    if not replacement.why:
        raise ValueError(f"{replacement.name} is replaced without a reason")
    of_kind[replacement.name] = replacement
    if replacement.function is not None:
        _functions[replacement.kind][replacement.name] = replacement.function


@functools.cache
def named(name: str) -> OpOverload:
    """The operator of a name."""
    qualified, _, overload = name.partition(".")
    namespace, _, packet = qualified.partition("::")
    op: OpOverload = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    return op


def _name_of(op: OpOverload | str) -> str:
    return op if isinstance(op, str) else op.name()
